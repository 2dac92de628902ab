/** Finds texts that were inserted into a request in the reply of the destination. Takes linear time for all texts. */
import type { Steps } from './steps.ts';

/** Shorter texts appear in replies by chance. */
export const minEcho = 8;

/** The reply, in the forms in which texts are searched for. */
interface Views {
  /** Without the difference between `A` and `a`, and between the characters for which encodings have alternatives. */
  readonly folded: Buffer;
  /** Folded, without white space. */
  readonly compact: Buffer;
  readonly digits: Buffer;
}

/**
 * Whether listed parts of a reply contain one of the texts: plain, with other ASCII case, split over values, in hexadecimal,
 * base64 or base64url at any offset, percent-encoding, or JSON escapes; or the digits of a text with at least 8 of them,
 * with any other characters between the digits. Encodings are those of the bytes in UTF-8. Headers are decoded as Latin-1.
 */
export function* echoes(texts: Iterable<string>, parts: unknown, headers: readonly string[]): Steps<boolean> {
  const searched = new Set([...texts].filter(({ length }) => length >= minEcho));
  if (searched.size === 0 || (parts === undefined && headers.length === 0)) return false;
  const views = yield* viewsOf(yield* sourceOf(parts, headers));
  for (const text of searched) {
    const bytes = Buffer.from(text);
    const { folded, digits } = yield* viewsOf(bytes);
    if (digits.length >= minEcho && (yield* includes(views.digits, digits))) return true;
    // All other forms are at least as long.
    if (bytes.length > views.folded.length) continue;
    if (yield* includes(views.folded, folded)) return true;
    for (const [view, form] of encodingsOf(text, bytes))
      if (yield* includes(views[view], fold(form))) return true;
  }
  return false;
}

/** Reads so many bytes in a step, which takes up to a millisecond. */
const stepLength = 262_144;

function* includes(bytes: Buffer, form: Buffer): Steps<boolean> {
  const length = Math.max(stepLength, form.length);
  for (let at = 0; at + form.length <= bytes.length; at += length) {
    if (bytes.subarray(at, at + length + form.length - 1).includes(form)) return true;
    yield;
  }
  return false;
}

/** Encoded texts, each with the view in which it is searched for. */
export function* encodingsOf(text: string, bytes: Buffer): Generator<readonly [keyof Views, string]> {
  // Both are found wherever they are. If other characters are escaped, the text is found where the reply is decoded.
  for (const escaped of [encodeURIComponent(text.toWellFormed()), JSON.stringify(text).slice(1, -1)])
    if (escaped !== text) yield ['folded', escaped];
  yield ['compact', bytes.toString('hex')];
  // The text can begin at each of three positions within a group of base64. The characters at the ends depend on others.
  for (const offset of [0, 1, 2]) {
    const base64 = Buffer.concat([Buffer.alloc(offset), bytes]).toString('base64');
    const end = Math.floor(((offset + bytes.length) * 4) / 3);
    yield ['compact', base64.slice(Math.ceil((offset * 4) / 3), end)];
  }
}

const [zero, nine] = [0x30, 0x39];

/** Lower case. Base64 has `+` and `/` or `-` and `_`. Percent-encoding has `+` or `%20` for a space. */
export const foldTable = Uint8Array.from({ length: 256 }, (_, byte) => {
  const at = '-_ '.indexOf(String.fromCharCode(byte));
  if (at >= 0) return '+/+'.charCodeAt(at);
  return byte >= 0x41 && byte <= 0x5a ? byte + 0x20 : byte;
});

function fold(text: string): Buffer {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at++) bytes[at] = foldTable[bytes[at] as number] as number;
  return bytes;
}

function* viewsOf(source: Buffer): Steps<Views> {
  const folded = Buffer.allocUnsafe(source.length);
  const compact = Buffer.allocUnsafe(source.length);
  const digits = Buffer.allocUnsafe(source.length);
  let [shown, counted] = [0, 0];
  for (let at = 0; at < source.length; at++) {
    if (at % stepLength === 0) yield;
    const byte = source[at] as number;
    const same = foldTable[byte] as number;
    folded[at] = same;
    if (byte !== 0x20 && (byte < 9 || byte > 13)) compact[shown++] = same;
    if (byte >= zero && byte <= nine) digits[counted++] = byte;
  }
  return { folded, compact: compact.subarray(0, shown), digits: digits.subarray(0, counted) };
}

/** The bytes that are searched: the reply as sent, its values after one another, and without escapes. */
function* sourceOf(parts: unknown, headers: readonly string[]): Steps<Buffer> {
  const [values, names]: [string[], string[]] = [[], []];
  collect(parts, values, names);
  yield;
  const head = (separator: string) => Buffer.from(headers.join(separator), 'latin1');
  const texts = Buffer.from([...headers, ...names].join('\n'));
  const sent = Buffer.from(JSON.stringify(parts) ?? '');
  yield;
  const lines = joined([Buffer.from(values.join('\n')), head('\n'), texts]);
  const raw = [sent, Buffer.concat([Buffer.from(values.join('')), head('')]), texts];
  return joined([...raw, yield* unescaped(lines, percentEscape), yield* unescaped(lines, jsonEscape)]);
}

function joined(parts: readonly Buffer[]): Buffer {
  // Not a constant: the console loads this module, and browsers have no `Buffer`.
  const lineFeed = Buffer.from('\n');
  return Buffer.concat(parts.flatMap((part) => [part, lineFeed]));
}

/** Adds to lists: to copy the texts of each level would take the depth times as long. */
function collect(value: unknown, values: string[], names: string[]): void {
  if (typeof value === 'string' || typeof value === 'number') values.push(String(value));
  if (typeof value !== 'object' || value === null) return;
  if (!Array.isArray(value)) for (const name of Object.keys(value)) names.push(name);
  // `Object.values` of a long list is slow.
  for (const inner of Array.isArray(value) ? value : Object.values(value)) collect(inner, values, names);
}

/** An escape begins with `mark`. `decode` writes what it stands for, and returns the numbers of bytes read and written. */
export interface Escape {
  readonly mark: number;
  decode(from: Buffer, at: number, to: Buffer, end: number): readonly [number, number] | undefined;
}

/** Empty without an escape. */
function* unescaped(from: Buffer, { mark, decode }: Escape): Steps<Buffer> {
  if (!from.includes(mark)) return Buffer.alloc(0);
  const to = Buffer.allocUnsafe(from.length);
  let end = 0;
  for (let [at, pause] = [0, 0]; at < from.length; ) {
    if (at >= pause) {
      pause = at + stepLength / 8;
      yield;
    }
    const [read, written] = (from[at] === mark && decode(from, at, to, end)) || plain;
    if (read === 1) to[end] = from[at] as number;
    at += read;
    end += written;
  }
  return to.subarray(0, end);
}

const plain = [1, 1] as const;

/** The values of hexadecimal digits, by character. */
const digitValues = new Map(
  Array.from('0123456789abcdefABCDEF', (digit) => [digit.charCodeAt(0), Number.parseInt(digit, 16)]),
);

/** Undefined if the bytes are not hexadecimal digits. */
function numberAt(bytes: Buffer, from: number, to: number): number | undefined {
  let number = 0;
  for (let at = from; at < to; at++) {
    const digit = digitValues.get(bytes[at] as number);
    if (digit === undefined) return undefined;
    number = number * 16 + digit;
  }
  return number;
}

export const percentEscape: Escape = {
  mark: 0x25,
  decode: (from, at, to, end) => {
    const byte = numberAt(from, at + 1, at + 3);
    if (byte === undefined) return undefined;
    to[end] = byte;
    return [3, 1];
  },
};

/** By the character after the backslash. */
const jsonEscapes: ReadonlyMap<number, number> = new Map(
  Array.from('"\\/bfnrt', (name) => [name.charCodeAt(0), JSON.parse(`"\\${name}"`).charCodeAt(0)]),
);

export const jsonEscape: Escape = {
  mark: 0x5c,
  decode: (from, at, to, end) => {
    const character = jsonEscapes.get(from[at + 1] as number);
    if (character !== undefined) {
      to[end] = character;
      return [2, 1];
    }
    const unit = unitAt(from, at);
    if (unit === undefined) return undefined;
    const low = (unit & 0xfc00) === 0xd800 ? unitAt(from, at + 6) : undefined;
    const isPair = low !== undefined && (low & 0xfc00) === 0xdc00;
    const text = isPair ? String.fromCharCode(unit, low) : String.fromCharCode(unit);
    return [isPair ? 12 : 6, to.write(text, end)];
  },
};

/** The code unit of `\uXXXX`. */
export function unitAt(bytes: Buffer, at: number): number | undefined {
  return bytes[at] === 0x5c && bytes[at + 1] === 0x75 ? numberAt(bytes, at + 2, at + 6) : undefined;
}
