/**
 * Finds texts that were inserted into a request in the reply of the destination. All forms of all texts are searched for at
 * once (Aho-Corasick), so the time is linear. In a stream, a text is found before its first byte has been passed on.
 */
import type { Reserve, Steps } from './steps.ts';

/** Shorter texts appear in replies by chance. */
export const minEcho = 8;
/** A longer text is found by its first characters, so that the memory of a search is limited. */
const maxText = 1000;
/** More held bytes of a stream than this cannot be searched. */
const maxHeld = 262_144;
/** Bytes of a step, which takes up to a millisecond. */
const stepLength = 8192;

/** Thrown when a text was found in a stream. */
export class Echo extends Error {}

/** Lower case. Base64 has `+` and `/` or `-` and `_`. Percent-encoding has `+` or `%20` for a space. */
function fold(byte: number): number {
  const at = '-_ '.indexOf(String.fromCharCode(byte));
  if (at >= 0) return '+/+'.charCodeAt(at);
  return byte >= 0x41 && byte <= 0x5a ? byte + 0x20 : byte;
}

const isSpace = (byte: number) => byte === 0x20 || (byte >= 9 && byte <= 13);
const isDigit = (byte: number) => byte >= 0x30 && byte <= 0x39;
const table = (of: (byte: number) => number) => Int16Array.from({ length: 256 }, (_, byte) => of(byte));

/** What bytes are compared as: without white space, digits alone, or all. Those of -1 are skipped. */
const views = {
  folded: table(fold),
  compact: table((byte) => (isSpace(byte) ? -1 : fold(byte))),
  digits: table((byte) => (isDigit(byte) ? byte : -1)),
};
type View = keyof typeof views;

function compared(view: View, text: string): Uint8Array {
  const bytes = Buffer.from(text);
  let length = 0;
  for (let at = 0; at < bytes.length; at++) {
    const next = views[view][bytes[at] as number] as number;
    if (next >= 0) bytes[length++] = next;
  }
  return bytes.subarray(0, length);
}

/**
 * A text plain, with other ASCII case, in hexadecimal, base64 or base64url at any offset, percent-encoding, or JSON escapes.
 * Of a reply that is not a stream: also the digits of a text with at least 8 of them, with any other characters between the
 * digits. In a stream, that would hold back too much.
 */
function* formsOf(text: string, isStream: boolean): Generator<readonly [View, Uint8Array]> {
  const start = text.slice(0, maxText).replace(/[\ud800-\udbff]$/, '');
  // If other characters are escaped, the text is found where the reply is decoded.
  for (const form of new Set([
    start,
    encodeURIComponent(start.toWellFormed()),
    JSON.stringify(start).slice(1, -1),
  ]))
    yield ['folded', compared('folded', form)];
  const bytes = Buffer.from(start);
  yield ['compact', compared('compact', bytes.toString('hex'))];
  // The text can begin at each of three positions within a group of base64. The characters at the ends depend on others.
  for (const offset of [0, 1, 2]) {
    const base64 = Buffer.concat([Buffer.alloc(offset), bytes]).toString('base64');
    const end = Math.floor(((offset + bytes.length) * 4) / 3);
    yield ['compact', compared('compact', base64.slice(Math.ceil((offset * 4) / 3), end))];
  }
  const form = isStream
    ? (['compact', compared('compact', start)] as const)
    : (['digits', Buffer.from(text.replace(/\D+/g, '').slice(0, maxText))] as const);
  if (form[1].length >= minEcho) yield form;
}

/** The states are numbers: 0 is the start, the others are beginnings of forms. */
const emptyAutomaton = (size: number) => ({
  start: new Int32Array(256),
  firstChild: new Int32Array(size),
  sibling: new Int32Array(size),
  byte: new Uint8Array(size),
  /** The state of the longest end of this beginning that is a beginning, too. */
  shorter: new Int32Array(size),
  depth: new Int32Array(size),
  /** Whether a form ends here. */
  isEnd: new Uint8Array(size),
});
type Automaton = ReturnType<typeof emptyAutomaton>;

function step({ start, firstChild, sibling, byte, shorter }: Automaton, from: number, next: number): number {
  for (let state = from; state !== 0; state = shorter[state] as number)
    for (let child = firstChild[state] as number; child !== 0; child = sibling[child] as number)
      if (byte[child] === next) return child;
  return start[next] as number;
}

/** Bytes of memory for each byte of all forms. */
const stateBytes = 24;

function* automatonOf(forms: readonly Uint8Array[]): Steps<Automaton> {
  const size = 1 + forms.reduce((sum, form) => sum + form.length, 0);
  const automaton = emptyAutomaton(size);
  const { start, firstChild, sibling, shorter, depth, byte, isEnd } = automaton;
  let count = 0;
  let work = 0;
  for (const form of forms) {
    let state = 0;
    for (let at = 0; at < form.length; at++) {
      if (++work % stepLength === 0) yield;
      const next = form[at] as number;
      let child = state === 0 ? (start[next] as number) : (firstChild[state] as number);
      if (state !== 0) while (child !== 0 && byte[child] !== next) child = sibling[child] as number;
      if (child === 0) {
        child = ++count;
        byte[child] = next;
        depth[child] = (depth[state] as number) + 1;
        if (state === 0) start[next] = child;
        else {
          sibling[child] = firstChild[state] as number;
          firstChild[state] = child;
        }
      }
      state = child;
    }
    isEnd[state] = 1;
  }
  // By depth.
  const queue = new Int32Array(size);
  let end = 0;
  for (const state of start) if (state !== 0) queue[end++] = state;
  for (let at = 0; at < end; at++) {
    if (at % stepLength === 0) yield;
    const state = queue[at] as number;
    for (let child = firstChild[state] as number; child !== 0; child = sibling[child] as number) {
      shorter[child] = step(automaton, shorter[state] as number, byte[child] as number);
      if (isEnd[shorter[child] as number]) isEnd[child] = 1;
      queue[end++] = child;
    }
  }
  return automaton;
}

/** What was read, in one view. */
class Layer {
  readonly #automaton: Automaton;
  readonly #view: Int16Array;
  /** The positions in the stream of the last bytes. */
  readonly #positions: Float64Array;
  #count = 0;
  #state = 0;

  constructor(automaton: Automaton, view: View, longest: number) {
    this.#automaton = automaton;
    this.#view = views[view];
    this.#positions = new Float64Array(2 ** Math.ceil(Math.log2(longest + 1)));
  }

  /** `position` is that of the first byte. Throws `Echo` if a form ends with one of them. */
  push(bytes: Uint8Array, from: number, to: number, position: number): void {
    for (let at = from; at < to; at++) {
      const next = this.#view[bytes[at] as number] as number;
      if (next < 0 || (this.#state === 0 && this.#automaton.start[next] === 0)) continue;
      this.#positions[this.#count++ & (this.#positions.length - 1)] = position + at - from;
      this.#state = step(this.#automaton, this.#state, next);
      if (this.#automaton.isEnd[this.#state]) throw new Echo();
    }
  }

  /** The position from which on a form may have begun. */
  get heldFrom(): number {
    const depth = this.#automaton.depth[this.#state] as number;
    if (depth === 0) return Number.POSITIVE_INFINITY;
    return this.#positions[(this.#count - depth) & (this.#positions.length - 1)] as number;
  }
}

/** The stream as sent, or without one kind of escapes. The bytes of an incomplete one wait for the next ones. */
class Reading {
  readonly #layers: readonly Layer[];
  readonly #escape: Escape | undefined;
  #rest = Buffer.alloc(0);
  readonly #decoded = Buffer.alloc(4);

  constructor(layers: readonly Layer[], kind?: Escape) {
    this.#layers = layers;
    this.#escape = kind;
  }

  /** The position from which on a form may have begun. */
  get heldFrom(): number {
    return Math.min(...this.#layers.map((layer) => layer.heldFrom));
  }

  /** `position` is that of the first byte of the chunk. Returns as `heldFrom`. */
  *push(chunk: Buffer, position: number): Steps<number> {
    const bytes = this.#rest.length > 0 ? Buffer.concat([this.#rest, chunk]) : chunk;
    const first = position - this.#rest.length;
    this.#rest = Buffer.alloc(0);
    const { mark = -1, start, decode } = this.#escape ?? {};
    let next = -1;
    for (let [at, pause] = [0, 0]; at < bytes.length; ) {
      if (at >= pause) {
        pause = at + stepLength;
        yield;
      }
      if (next < at) next = mark < 0 ? -1 : bytes.indexOf(mark, at);
      if (next < 0) next = bytes.length;
      const end = Math.min(next, pause);
      for (const layer of this.#layers) layer.push(bytes, at, end, first + at);
      at = end;
      if (at < next || at === bytes.length) continue;
      if (bytes.length - at < maxEscape && start?.test(bytes.toString('latin1', at))) {
        this.#rest = Buffer.from(bytes.subarray(at));
        return Math.min(first + at, this.heldFrom);
      }
      const [read, written] = decode?.(bytes, at, this.#decoded) ?? [1, 1];
      if (read === 1) this.#decoded[0] = mark;
      for (const layer of this.#layers)
        for (let each = 0; each < written; each++) layer.push(this.#decoded, each, each + 1, first + at);
      at += read;
    }
    return this.heldFrom;
  }
}

/** Throws `Echo` when a form is complete. Otherwise returns how many of the last bytes may be the beginning of one. */
type Search = (chunk: Buffer) => Steps<number>;

/** Undefined if no text can be in the sources. Without them, what is searched is a stream. Calls `reserve` before memory is used. */
function* searchFor(
  texts: Iterable<string>,
  reserve: Reserve,
  sources?: readonly Buffer[],
): Steps<Search | undefined> {
  const most = Math.max(...(sources ?? [Buffer.alloc(0)]).map(({ length }) => length));
  const forms = new Map<View, Uint8Array[]>();
  let [sum, longest] = [0, 0];
  for (const text of new Set(texts)) {
    if (text.length < minEcho) continue;
    yield;
    for (const [view, form] of formsOf(text, !sources)) {
      if (sources && form.length > most) continue;
      const others = forms.get(view);
      if (others) others.push(form);
      else forms.set(view, [form]);
      sum += form.length;
      longest = Math.max(longest, form.length);
    }
  }
  if (sum === 0) return undefined;
  reserve(stateBytes * (sum + longest));
  const automata: (readonly [View, Automaton])[] = [];
  for (const [view, all] of forms) automata.push([view, yield* automatonOf(all)]);
  const positions = sources ? 0 : longest;
  const layers = () => automata.map(([view, automaton]) => new Layer(automaton, view, positions));
  const kinds = [percentEscape, jsonEscape].filter(
    ({ mark }) => sources?.some((source) => source.includes(mark)) ?? true,
  );
  const readings = [undefined, ...kinds].map((kind) => new Reading(layers(), kind));
  let position = 0;
  return function* (chunk) {
    let from = position + chunk.length;
    for (const reading of readings) from = Math.min(from, yield* reading.push(chunk, position));
    position += chunk.length;
    return position - from;
  };
}

export interface EchoFilter {
  /** The bytes that can be passed on: what was held back, and as much of the chunk as cannot begin a form. Throws `Echo`. */
  push(chunk: Buffer): Steps<Buffer>;
  /** The bytes that were held back, at the end of the stream. */
  end(): Buffer;
}

/** For a stream. Calls `reserve` before memory is used, besides the bytes that are held back. */
export function* echoFilter(texts: Iterable<string>, reserve: Reserve): Steps<EchoFilter> {
  const search = yield* searchFor(texts, reserve);
  let held: Buffer[] = [];
  let heldBytes = 0;

  /** Removes so many bytes from what is held. */
  function take(bytes: number): Buffer {
    const all = held.length === 1 ? (held[0] as Buffer) : Buffer.concat(held);
    const rest = Buffer.from(all.subarray(bytes));
    held = rest.length > 0 ? [rest] : [];
    heldBytes = rest.length;
    return all.subarray(0, bytes);
  }

  return {
    push: function* (chunk) {
      if (!search) return chunk;
      held.push(chunk);
      heldBytes += chunk.length;
      const unclean = yield* search(chunk);
      if (unclean > maxHeld) throw new Error('too much of the reply looks like a secret');
      return heldBytes > unclean ? take(heldBytes - unclean) : Buffer.alloc(0);
    },
    end: () => take(heldBytes),
  };
}

/**
 * Whether listed parts of a reply contain one of the texts, also split over values. Headers are decoded as Latin-1. Calls
 * `reserve` before memory is used.
 */
export function* echoes(
  texts: Iterable<string>,
  parts: unknown,
  headers: readonly string[],
  reserve: Reserve,
): Steps<boolean> {
  if (parts === undefined && headers.length === 0) return false;
  const sources = yield* sourcesOf(parts, headers);
  const search = yield* searchFor(texts, reserve, sources);
  try {
    if (search) for (const source of sources) yield* search(source);
    return false;
  } catch (error) {
    if (error instanceof Echo) return true;
    throw error;
  }
}

/** The bytes that are searched: the reply as sent, its values after one another, and each by itself. */
function* sourcesOf(parts: unknown, headers: readonly string[]): Steps<Buffer[]> {
  const [values, names]: [string[], string[]] = [[], []];
  collect(parts, values, names);
  yield;
  const sent = Buffer.from(JSON.stringify(parts) ?? '');
  yield;
  const head = (separator: string) => Buffer.from(headers.join(separator), 'latin1');
  const sources = [
    sent,
    Buffer.concat([Buffer.from(values.join('')), head('')]),
    Buffer.from(values.join('\n')),
    head('\n'),
    Buffer.from([...headers, ...names].join('\n')),
  ];
  yield;
  // No escape spans two of them.
  return sources.map((source) => Buffer.concat([source, Buffer.from('\n')]));
}

/** Adds to lists: to copy the texts of each level would take the depth times as long. */
function collect(value: unknown, values: string[], names: string[]): void {
  if (typeof value === 'string' || typeof value === 'number') values.push(String(value));
  if (typeof value !== 'object' || value === null) return;
  if (!Array.isArray(value)) for (const name of Object.keys(value)) names.push(name);
  // `Object.values` of a long list is slow.
  for (const inner of Array.isArray(value) ? value : Object.values(value)) collect(inner, values, names);
}

interface Escape {
  readonly mark: number;
  /** All of a text that more characters can make an escape. */
  readonly start: RegExp;
  /** Writes what the escape stands for, and returns the numbers of bytes read and written. */
  decode(from: Buffer, at: number, to: Buffer): readonly [number, number] | undefined;
}

/** Of a pair of surrogates in JSON. */
const maxEscape = 12;

/** The values of hexadecimal digits, by character. */
const digitValues = table((byte) => '0123456789abcdef'.indexOf(String.fromCharCode(fold(byte))));

/** Undefined if the bytes are not hexadecimal digits. */
function numberAt(bytes: Buffer, from: number, to: number): number | undefined {
  let number = 0;
  for (let at = from; at < to; at++) {
    const digit = digitValues[bytes[at] ?? 0] as number;
    if (digit < 0) return undefined;
    number = number * 16 + digit;
  }
  return number;
}

const percentEscape: Escape = {
  mark: 0x25,
  start: /^%[\dA-Fa-f]?$/,
  decode: (from, at, to) => {
    const byte = numberAt(from, at + 1, at + 3);
    if (byte === undefined) return undefined;
    to[0] = byte;
    return [3, 1];
  },
};

/** By the character after the backslash. */
const jsonEscapes: ReadonlyMap<number, number> = new Map(
  Array.from('"\\/bfnrt', (name) => [name.charCodeAt(0), JSON.parse(`"\\${name}"`).charCodeAt(0)]),
);

const jsonEscape: Escape = {
  mark: 0x5c,
  start: /^\\(?:u[\dA-Fa-f]{0,3}|u[Dd][89ABab][\dA-Fa-f]{2}(?:\\(?:u[\dA-Fa-f]{0,3})?)?)?$/,
  decode: (from, at, to) => {
    const character = jsonEscapes.get(from[at + 1] as number);
    if (character !== undefined) {
      to[0] = character;
      return [2, 1];
    }
    const unit = unitAt(from, at);
    if (unit === undefined) return undefined;
    const low = unitAt(from, at + 6) ?? 0;
    const isPair = (unit & 0xfc00) === 0xd800 && (low & 0xfc00) === 0xdc00;
    return [isPair ? 12 : 6, to.write(isPair ? String.fromCharCode(unit, low) : String.fromCharCode(unit))];
  },
};

/** The code unit of `\uXXXX`. */
function unitAt(bytes: Buffer, at: number): number | undefined {
  return bytes[at] === 0x5c && bytes[at + 1] === 0x75 ? numberAt(bytes, at + 2, at + 6) : undefined;
}
