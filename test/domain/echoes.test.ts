/** The list in docs/reference/destinations.md holds for every text, encoding and place. */
import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { echoes } from '../../src/domain/echoes.ts';
import { runSteps } from '../../src/domain/steps.ts';
import { growth } from '../support/growth.ts';

function isFound(texts: readonly string[], parts: unknown, headers: readonly string[] = []): boolean {
  return runSteps(echoes(texts, parts, headers, () => {}));
}

const awkward = fc.string({
  unit: fc.constantFrom(...'%\\+-_/"&; 0419afAFuUx~\'()*!é€😀\u0301\ufffd\n'),
  minLength: 8,
  maxLength: 20,
});
const any = fc.string({ unit: 'binary', minLength: 8, maxLength: 30 });
const digits = fc.string({ unit: fc.constantFrom(...'0123456789'), minLength: 8, maxLength: 20 });
const value = fc.oneof(any, awkward, digits);
const around = fc.oneof(
  fc.constant(''),
  awkward,
  fc.string({ unit: 'binary' }),
  fc.constantFrom('%', '%4', '\\', '\\u0'),
);

const bytes = (text: string) => [...Buffer.from(text)];
const hex = (byte: number) => byte.toString(16).padStart(2, '0');
const percent = (text: string) =>
  bytes(text)
    .map((byte) => `%${hex(byte)}`)
    .join('');
const unicode = (text: string) =>
  Array.from(
    { length: text.length },
    (_, at) => `\\u${text.charCodeAt(at).toString(16).padStart(4, '0')}`,
  ).join('');
const swapCase = (text: string) =>
  text.replace(/[a-zA-Z]/g, (one) => (one < 'a' ? one.toLowerCase() : one.toUpperCase()));

/** Found wherever the encoded text is. */
const anywhere: Record<string, (text: string, before: string, after: string) => string> = {
  plain: (text, before, after) => before + text + after,
  'in other case': (text, before, after) => before + swapCase(text) + after,
  hexadecimal: (text, before, after) => before + Buffer.from(text).toString('hex') + after,
  'upper-case hexadecimal': (text, before, after) =>
    before + Buffer.from(text).toString('hex').toUpperCase() + after,
  base64: (text, before, after) => Buffer.from(before + text + after).toString('base64'),
  base64url: (text, before, after) => Buffer.from(before + text + after).toString('base64url'),
  'base64 in lines': (text, before, after) =>
    Buffer.from(before + text + after)
      .toString('base64')
      .replace(/.{5}/g, '$&\r\n'),
  'percent-encoding of all bytes': (text, before, after) => before + percent(text) + after,
  'percent-encoding by encodeURIComponent': (text, before, after) =>
    before + encodeURIComponent(text) + after,
  'JSON escapes by JSON.stringify': (text, before, after) =>
    before + JSON.stringify(text).slice(1, -1) + after,
};

/** Found if the text around is encoded, too. */
const whole: Record<string, (text: string) => string> = {
  'percent-encoding of a form': (text) => String(new URLSearchParams([['', text]])),
  'percent-encoding by encodeURI': (text) => encodeURI(text),
  'JSON escapes of all characters': unicode,
  'JSON escapes of some characters': (text) =>
    [...text]
      .map((one, at) =>
        at % 3 === 0 ? unicode(one).toUpperCase().replaceAll('\\U', '\\u') : JSON.stringify(one).slice(1, -1),
      )
      .join('')
      .replaceAll('/', '\\/'),
};

const places: Record<string, (text: string) => [unknown, string[]?]> = {
  'in a value': (text) => [{ a: [{ b: 1 }, text] }],
  'as the reply': (text) => [text],
  'in a name': (text) => [{ a: [{ [text]: 1 }] }],
  // Headers are bytes, which are decoded as Latin-1.
  'in a header': (text) => [undefined, ['x', Buffer.from(text).toString('latin1')]],
};
const place = fc.constantFrom(...Object.values(places));

describe('a text of 8 characters or more is found', () => {
  const holds = (encode: (text: string, before: string, after: string) => string) =>
    fc.assert(
      fc.property(value, around, around, place, (text, before, after, place) =>
        isFound(['another text', text], ...place(encode(text, before, after))),
      ),
      { numRuns: 200, seed: 1 },
    );

  test.each(Object.entries(anywhere))('%s', (_, encode) => holds(encode));

  test.each(Object.entries(whole))('in %s', (_, encode) => {
    holds((text, before, after) => encode(before + text + after));
  });

  test('as bytes of a header and as characters of a header', () => {
    expect(isFound(['Zürich-Geheim'], undefined, ['Zürich-Geheim'])).toBe(true);
  });

  test('split over values and headers', () => {
    fc.assert(
      fc.property(value, fc.nat(), fc.nat(), (text, first, second) => {
        const [from, to] = [first % text.length, second % text.length].sort((a, b) => a - b) as [
          number,
          number,
        ];
        const [a, b, c] = [text.slice(0, from), text.slice(from, to), text.slice(to)];
        expect(isFound([text], { name: ['x', a], inner: { other: b }, last: c })).toBe(true);
        if (/^[ -~]*$/.test(text)) expect(isFound([text], { name: ['x', a] }, [b, c])).toBe(true);
      }),
      { numRuns: 300, seed: 2 },
    );
  });

  test('as JSON that is itself a value of the reply', () => {
    expect(isFound(['{"user":"bob","n":[1,2]}'], { account: { user: 'bob', n: [1, 2] } })).toBe(true);
  });
});

test('a text is found where the steps of the search meet', () => {
  const step = 262_144;
  // The text is at the end of a step both in the reply as sent and among its values.
  const reply = `${'x'.repeat(step - 5)}some text${'x'.repeat(step - 6)}`;
  expect(isFound(['some text'], reply)).toBe(true);
});

test('the digits of a text are found with other characters than digits between them', () => {
  const between = fc.string({ unit: 'binary', maxLength: 5 }).map((text) => text.replace(/[0-9]/g, ''));
  fc.assert(
    fc.property(digits, fc.array(between, { minLength: 1 }), place, (text, separators, place) => {
      const written = [...text].map((digit, at) => digit + separators[at % separators.length]).join('');
      expect(isFound([text], ...place(written))).toBe(true);
      expect(isFound([written], ...place(text))).toBe(true);
      expect(
        isFound(
          [text],
          [...written].map((one) => ({ [one]: 'x' })),
        ),
      ).toBe(true);
    }),
    { numRuns: 200, seed: 3 },
  );
});

test('a text is not found where it is not', () => {
  expect(isFound(['12345678'], { a: '1234567', b: 'x', c: '9' })).toBe(false);
  expect(isFound(['1234567'], '1234567')).toBe(false);
  const random = fc.oneof(
    any,
    fc.base64String({ minLength: 200, maxLength: 1000 }),
    fc.string({ unit: fc.constantFrom(...'0123456789abcdef'), minLength: 500, maxLength: 1000 }),
    fc.integer(),
  );
  fc.assert(
    fc.property(value, fc.array(random), fc.array(around), (text, values, headers) => {
      const written = [...values, ...headers].join('');
      fc.pre(!written.includes(text) && !/^([^0-9]*[01]){8}/.test(text));
      const parts = values.map((each, at) => ({ [`f${at}`]: each }));
      // A random text of 8 characters is somewhere by chance once in 10^8 places.
      expect(isFound([text], parts, headers)).toBe(false);
    }),
    { numRuns: 100, seed: 4 },
  );
});

const b = (length: number) => 'b'.repeat(length);
test.each<[string, (size: number) => [string, string]]>([
  ['a run with one other character', (n) => [`${b(n)}a${b(n)}`, b(10 * n)]],
  ['near matches', (n) => [`${b(n)}a${b(n)}`, `${b(n)}a${b(n - 1)}`.repeat(5)]],
  ['combining marks', (n) => ['\u0301\u0316'.repeat(n), '\u0301\u0316\u0301'.repeat(n)]],
  ['ligatures', (n) => [`${'\ufdfa'.repeat(n)}x`, '\ufdfa'.repeat(4 * n)]],
  ['percent-encoding', (n) => [b(8), '%c3%a4x'.repeat(n)]],
  ['JSON escapes', (n) => [b(8), '\\ud83d\\n\\\\'.repeat(n)]],
  ['references', (n) => [b(8), '&lt;+'.repeat(n)]],
])('the search takes linear time: %s', (_, make) => {
  const search = (size: number) => {
    const [text, reply] = make(size);
    return () => isFound([text], [reply], [reply]);
  };
  expect(growth(search, 1500)).toBeLessThan(3);
});

test('a search pauses after every few kilobytes', () => {
  const texts = Array.from({ length: 20 }, (_, at) => b(1000 + at));
  const steps = echoes(texts, 'a'.repeat(1_000_000), [], () => {});
  expect(Array.from(steps).length).toBeGreaterThan(3 * (1_000_000 / 8192));
});

test('a longer text is found by its first 1,000 characters, and all digits count', () => {
  const long = `${'é😀'.repeat(333)}x${'y'.repeat(5000)}`;
  expect(isFound([long], [...long].slice(0, 667).join(''))).toBe(true);
  expect(isFound([long], [...long].slice(0, 660).join(''))).toBe(false);
  const dated = `2024-01-15 ${'words '.repeat(300)} 12345`;
  expect(isFound([dated], ['2024-01-15'])).toBe(false);
  expect(isFound([dated], ['20240115 12345'])).toBe(true);
});

test('memory is reserved before it is used, and only for texts that fit into the reply', () => {
  const reserved = (reply: unknown) => {
    let sum = 0;
    const texts = Array.from({ length: 100 }, (_, at) => `${at}${'€'.repeat(2000)}`);
    runSteps(
      echoes(texts, reply, [], (bytes) => {
        sum += bytes;
      }),
    );
    return sum;
  };
  expect(reserved('x'.repeat(100))).toBe(0);
  expect(reserved('x'.repeat(100_000))).toBeWithin(1_000_000, 100_000_000);
  const refuse = () => {
    throw new Error('too much');
  };
  expect(() => runSteps(echoes(['some text'], 'some other text', [], refuse))).toThrow('too much');
});
