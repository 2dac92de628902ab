/**
 * A grammar of texts and JSON values on which careless code takes long: quadratic searches and normalizations, expressions
 * that backtrack, decoders without pauses.
 */
import type { Random } from '../random.ts';

/** The repeated text. */
const units = [
  ...[
    'b',
    ' ',
    '\t',
    '0',
    '1',
    'A',
    'İ',
    'ß',
    'é',
    '\ufdfa',
    '\u1e9b\u0323',
    '\u{1f511}',
    '\u{1f1e6}',
    '\u00a0',
  ],
  ...[
    '\u0301',
    '\u0301\u0327',
    '\u0345\u0334\u0591',
    '\u1161',
    '\u1100\u1161\u11a8',
    '\u3099',
    '\u200d',
    '\u2028',
  ],
  ...[
    '\ud83d',
    '\udd11',
    '\u0000',
    '\u0001',
    '\u001b',
    '"',
    '\\',
    '\\"',
    '\\u0034',
    '\\x34',
    '\\u{34}',
    '\r\n',
  ],
  ...['%', '%25', '%c3%a4x', '%2', '+', '+a', '&', 'a&', 'a=1&', '&lt;', '&#0000000052;', '=', ';', 'a=b;'],
  ...[
    '4 ',
    '4-',
    '4\u2013',
    '0x34,',
    '34',
    'NDk=',
    'NDky',
    '+/',
    'ab',
    'a.',
    '.',
    '1.1.1.1,',
    '::',
    '1e5,',
    '1e-400 ',
  ],
  ...[
    '/',
    '/a',
    'a:',
    ',',
    'a,',
    ', "x"',
    '-',
    '_',
    '[',
    '[1,',
    '{"a":1},',
    '{"a":',
    '(',
    '<b>',
    '\u202e',
    'for="[::1]";',
  ],
  ...[
    '{{',
    '{{ data }}',
    '{{ data.number | reveal_last: 9 }}',
    '{%',
    ' | ',
    '{{ token: aaa }}',
    '{{token:',
    "'",
  ],
] as const;

/** How a unit becomes a text of about `length` characters. */
const forms: readonly ((unit: string, length: number) => string)[] = [
  run,
  (unit, length) => `${run(unit, length - 1)}!`,
  (unit, length) => `a${run(unit, length - 1)}`,
  (unit, length) => nearMatch(unit, length, 0.75),
  (unit, length) => `${run(unit, length / 2)}\n${run(unit, length / 2)}`,
  (unit, length) => `${run(unit, length / 2)}${run('b', length / 2)}`,
];

function run(unit: string, length: number): string {
  return unit.repeat(Math.max(1, length / unit.length));
}

/** A run with one other character. A search for it in a long run almost succeeds at every position. */
function nearMatch(unit: string, length: number, part: number): string {
  return `${run(unit, length * part)}${unit === 'a' ? 'b' : 'a'}${run(unit, length * (1 - part))}`;
}

/** A text, which is built when it is needed. */
export interface BadText {
  readonly name: string;
  text(): string;
}

/** The number of units. */
export const allTexts = units.length;

/**
 * `count` of the units, each in one form, with at most `bytes` bytes after `encode` and at most `characters` characters.
 */
export function badTexts(
  random: Random,
  count: number,
  bytes: number,
  encode: (text: string) => string,
  characters = bytes,
): BadText[] {
  const chosen = count < units.length ? random.shuffled(units).slice(0, count) : units;
  return chosen.map((unit) => {
    const growth = Buffer.byteLength(encode(unit.toWellFormed())) / unit.length;
    const length = Math.floor(Math.min(characters, (bytes - 20) / Math.max(1, growth)));
    const form = random.below(forms.length);
    const text = () => (forms[form] as (typeof forms)[number])(unit, length).slice(0, length);
    return { name: `${JSON.stringify(unit)} in form ${form}, ${length} characters`, text };
  });
}

/** As JSON, because some of them are no value of JavaScript. */
export interface BadValue {
  readonly name: string;
  /** A value of about this many bytes for a place that has `example`. */
  json(length: number, example: unknown): string;
  readonly isTelling?: true;
}

const list = (item: (at: number) => string, length: number) => `[${many(item, length)}]`;
const object = (entry: (at: number) => string, length: number) => `{${many(entry, length)}}`;

function many(item: (at: number) => string, length: number): string {
  const parts: string[] = [];
  for (let size = 2; ; ) {
    const part = item(parts.length);
    size += Buffer.byteLength(part) + 1;
    if (size > length) return parts.join(',');
    parts.push(part);
  }
}

const deep = (levels: number, open: string, close: string) =>
  `${open.repeat(levels)}1${close.repeat(levels)}`;
const deepest = (open: string, close: string) => (length: number) =>
  deep(Math.floor((length - 1) / (open.length + close.length)), open, close);

const numbers = [
  ...['1', '-0', '1e400', '1E+5', '0.1', '9007199254740993', `12345.1234567890${'0'.repeat(50)}e0`],
  ...[`1${'0'.repeat(396)}1`, `0.${'0'.repeat(300)}1e300`, `1e${'0'.repeat(300)}1`],
];
const items = ['""', '"b"', 'null', 'true', '{}', '[]', '"\\u0000"', '"\\ud83d"', '"\\\\"'];
const names = ['', 'k', '__proto__', '\\u0061', '\\\\', '\\"', '~1/'];

export const badValues: readonly BadValue[] = [
  ...[...numbers, ...items].map((item) => ({
    name: `a list of ${cut(item)}`,
    json: (length: number) => list(() => item, length),
  })),
  ...[200, 1000, 9000].map((count) => ({
    name: `a list of ${count} texts`,
    json: (length: number) => list(() => `"${'b'.repeat(Math.max(1, length / count - 3))}"`, length),
  })),
  ...names.map((name) => ({
    name: `fields with names such as ${name}0`,
    json: (length: number) => object((at) => `"${name}${at.toString(36)}":1`, length),
  })),
  { name: 'one name again and again', json: (length) => object(() => '"a":1', length) },
  { name: 'long names', json: (length) => object((at) => `"${'n'.repeat(1000)}${at}":"v"`, length) },
  {
    name: 'a list of the example',
    json: (length, example) => list(() => JSON.stringify(example ?? null), length),
  },
  {
    name: 'fields with the example',
    json: (length, example) => object((at) => `"k${at}":${JSON.stringify(example ?? null)}`, length),
  },
  { name: 'deep lists', json: deepest('[', ']') },
  { name: 'deep objects', json: deepest('{"a":', '}') },
  { name: 'lists of 20 levels', json: (length) => list(() => deep(20, '[', ']'), length) },
  { name: 'lists that do not end', json: (length) => '['.repeat(length) },
  { name: 'one number', json: (length) => `1${'0'.repeat(length - 1)}` },
  ...[10, 50, 300].map((siblings) => ({
    name: `${siblings} near matches`,
    isTelling: true as const,
    json: (length: number, example: unknown) => nearMatches(length, nameIn(example), siblings),
  })),
];

function nameIn(example: unknown): string {
  return (typeof example === 'object' && example !== null && Object.keys(example)[0]) || 'number';
}

function cut(text: string): string {
  return text.length > 40 ? `${text.slice(0, 20)}… (${text.length} characters)` : text;
}

/** A text under the name that the request refers to, and others that almost occur in it. */
function nearMatches(length: number, name: string, siblings: number): string {
  const budget = Math.min(length, 500_000) - 2000;
  const hay = JSON.stringify(nearMatch('b', Math.min(37_000, budget / 2), 0.75));
  const own = Math.min(18_000, Math.floor((budget - hay.length) / siblings) - 12);
  const needle = (at: number) => `"k${at}":"${nearMatch('b', own - (at % 10), 0.5)}"`;
  return `{"${name}":${hay},${Array.from({ length: siblings }, (_, at) => needle(at)).join(',')}}`;
}
