/**
 * Finds texts in a stream, before the first byte of one has been passed on. All forms of all texts are searched for at
 * once (Aho-Corasick), so the time is linear, and only bytes with which a form can begin are held back.
 */
import { type Escape, encodingsOf, foldTable, jsonEscape, minEcho, percentEscape, unitAt } from './echoes.ts';
import type { Steps } from './steps.ts';

/** Thrown when a text was found. */
export class Echo extends Error {}

/** More held bytes than this are a stream that cannot be searched. */
const maxHeld = 262_144;
/** Bytes of a step. */
const stepLength = 8192;

const isSpace = (byte: number) => byte === 0x20 || (byte >= 9 && byte <= 13);

/** Bytes as they are compared: folded, without white space. */
function compact(text: string): Uint8Array {
  return Uint8Array.from(
    Buffer.from(text).filter((byte) => !isSpace(byte)),
    (byte) => foldTable[byte] as number,
  );
}

function* formsOf(texts: Iterable<string>): Generator<Uint8Array> {
  for (const text of new Set(texts)) {
    if (text.length < minEcho) continue;
    yield compact(text);
    // In forms, a space is `+`.
    if (text.includes(' ')) yield compact(text.replaceAll(' ', '+'));
    for (const [, encoded] of encodingsOf(text, Buffer.from(text))) yield compact(encoded);
  }
}

/** The states are numbers: 0 is the start, the others are beginnings of forms. */
interface Automaton {
  readonly start: Int32Array;
  readonly firstChild: Int32Array;
  readonly sibling: Int32Array;
  readonly byte: Uint8Array;
  /** The state of the longest end of this beginning that is a beginning, too. */
  readonly shorter: Int32Array;
  readonly depth: Int32Array;
  /** Whether a form ends here. */
  readonly isEnd: Uint8Array;
}

function step({ start, firstChild, sibling, byte, shorter }: Automaton, from: number, next: number): number {
  for (let state = from; state !== 0; state = shorter[state] as number)
    for (let child = firstChild[state] as number; child !== 0; child = sibling[child] as number)
      if (byte[child] === next) return child;
  return start[next] as number;
}

function* automatonOf(forms: readonly Uint8Array[]): Steps<Automaton> {
  const size = 1 + forms.reduce((sum, form) => sum + form.length, 0);
  const numbers = () => new Int32Array(size);
  const made = { start: new Int32Array(256), firstChild: numbers(), sibling: numbers(), shorter: numbers() };
  const automaton = { ...made, depth: numbers(), byte: new Uint8Array(size), isEnd: new Uint8Array(size) };
  const { start, firstChild, sibling, shorter, depth, byte, isEnd } = automaton;
  let count = 0;
  let work = 0;
  for (const form of forms) {
    let state = 0;
    for (const next of form) {
      if (++work % stepLength === 0) yield;
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
  const queue = [...start].filter((state) => state !== 0);
  for (let at = 0; at < queue.length; at++) {
    if (at % stepLength === 0) yield;
    const state = queue[at] as number;
    for (let child = firstChild[state] as number; child !== 0; child = sibling[child] as number) {
      shorter[child] = step(automaton, shorter[state] as number, byte[child] as number);
      if (isEnd[shorter[child] as number]) isEnd[child] = 1;
      queue.push(child);
    }
  }
  return automaton;
}

/** The stream as it is searched: as sent, or without one kind of escapes. */
class Layer {
  readonly #automaton: Automaton;
  /** The positions in the stream of the last bytes. */
  readonly #positions: Float64Array;
  #count = 0;
  #state = 0;

  constructor(automaton: Automaton, longest: number) {
    this.#automaton = automaton;
    this.#positions = new Float64Array(2 ** Math.ceil(Math.log2(longest + 1)));
  }

  /** Whether no form may have begun. */
  get isIdle(): boolean {
    return this.#state === 0;
  }

  /** Throws `Echo` if a form ends with this byte. */
  push(byte: number, position: number): void {
    const folded = foldTable[byte] as number;
    if (this.#state === 0 && this.#automaton.start[folded] === 0) return;
    if (isSpace(byte)) return;
    this.#positions[this.#count++ & (this.#positions.length - 1)] = position;
    this.#state = step(this.#automaton, this.#state, folded);
    if (this.#automaton.isEnd[this.#state]) throw new Echo();
  }

  /** The position from which on a form may have begun. */
  get heldFrom(): number {
    const depth = this.#automaton.depth[this.#state] as number;
    if (depth === 0) return Number.POSITIVE_INFINITY;
    return this.#positions[(this.#count - depth) & (this.#positions.length - 1)] as number;
  }
}

/** A layer that resolves escapes. The bytes of an incomplete one wait for the next ones. */
class Unescaped {
  readonly layer: Layer;
  readonly #escape: Escape;
  readonly #isIncomplete: (bytes: Buffer, at: number) => boolean;
  #rest = Buffer.alloc(0);
  readonly #decoded = Buffer.alloc(16);

  constructor(layer: Layer, kind: Escape, isIncomplete: (bytes: Buffer, at: number) => boolean) {
    this.layer = layer;
    this.#escape = kind;
    this.#isIncomplete = isIncomplete;
  }

  /** Whether the chunk is the same for this layer as for the stream as sent. */
  isSame(chunk: Buffer): boolean {
    return this.#rest.length === 0 && this.layer.isIdle && !chunk.includes(this.#escape.mark);
  }

  /** `position` is that of the first byte of the chunk. */
  *push(chunk: Buffer, position: number): Steps<number> {
    const bytes = this.#rest.length > 0 ? Buffer.concat([this.#rest, chunk]) : chunk;
    const first = position - this.#rest.length;
    this.#rest = Buffer.alloc(0);
    for (let [at, pause] = [0, stepLength]; at < bytes.length; ) {
      if (at >= pause) {
        pause = at + stepLength;
        yield;
      }
      const byte = bytes[at] as number;
      const isMark = byte === this.#escape.mark;
      if (isMark && this.#isIncomplete(bytes, at)) {
        this.#rest = Buffer.from(bytes.subarray(at));
        return Math.min(first + at, this.layer.heldFrom);
      }
      const decoded = isMark ? this.#escape.decode(bytes, at, this.#decoded, 0) : undefined;
      if (!decoded) this.layer.push(byte, first + at);
      else
        for (let each = 0; each < decoded[1]; each++)
          this.layer.push(this.#decoded[each] as number, first + at);
      at += decoded?.[0] ?? 1;
    }
    return this.layer.heldFrom;
  }
}

const isHex = (byte: number | undefined) => byte !== undefined && /[0-9a-f]/i.test(String.fromCharCode(byte));

/** Whether more bytes can make an escape of the two or six characters that begin at the mark. */
function isShort(bytes: Buffer, at: number, digits: number, length: number): boolean {
  if (at + length <= bytes.length) return false;
  return bytes.subarray(at + digits).every(isHex);
}

const isShortPercent = (bytes: Buffer, at: number) => isShort(bytes, at, 1, 3);

function isShortJson(bytes: Buffer, at: number): boolean {
  const isUnit = (from: number) => from + 1 >= bytes.length || bytes[from + 1] === 0x75;
  if (at + 1 >= bytes.length) return true;
  if (!isUnit(at)) return false;
  if (isShort(bytes, at, 2, 6)) return true;
  const unit = unitAt(bytes, at);
  if (unit === undefined || (unit & 0xfc00) !== 0xd800) return false;
  // The other half of a pair may follow.
  if (at + 6 === bytes.length) return true;
  return bytes[at + 6] === 0x5c && isUnit(at + 6) && isShort(bytes, at + 6, 2, 6);
}

export interface EchoFilter {
  /** Bytes of memory that it uses, besides what it holds back. */
  readonly bytes: number;
  /** The bytes that can be passed on: what was held back, and as much of the chunk as cannot begin a form. Throws `Echo`. */
  push(chunk: Buffer): Steps<Buffer>;
  /** The bytes that were held back, at the end of the stream. */
  end(): Buffer;
}

export function* echoFilter(texts: Iterable<string>): Steps<EchoFilter> {
  const forms = [...formsOf(texts)].filter((form) => form.length > 0);
  const automaton = yield* automatonOf(forms);
  const longest = Math.max(0, ...forms.map((form) => form.length));
  const [raw, percent, json] = [0, 1, 2].map(() => new Layer(automaton, longest)) as [Layer, Layer, Layer];
  const unescaped = [
    new Unescaped(percent, percentEscape, isShortPercent),
    new Unescaped(json, jsonEscape, isShortJson),
  ];
  let held: Buffer[] = [];
  let heldBytes = 0;
  let position = 0;

  /** Removes so many bytes from what is held. */
  function take(bytes: number): Buffer {
    const all = held.length === 1 ? (held[0] as Buffer) : Buffer.concat(held);
    const rest = Buffer.from(all.subarray(bytes));
    held = rest.length > 0 ? [rest] : [];
    heldBytes = rest.length;
    return all.subarray(0, bytes);
  }

  return {
    bytes: automaton.byte.length * 20 + 24 * longest,
    push: function* (chunk) {
      if (forms.length === 0) return chunk;
      held.push(chunk);
      const wasIdle = raw.isIdle;
      heldBytes += chunk.length;
      for (let at = 0; at < chunk.length; at++) {
        if (at % stepLength === 0) yield;
        raw.push(chunk[at] as number, position + at);
      }
      let from = raw.heldFrom;
      const isSame = wasIdle && raw.isIdle;
      for (const each of unescaped)
        if (!isSame || !each.isSame(chunk)) from = Math.min(from, yield* each.push(chunk, position));
      position += chunk.length;
      const clean = heldBytes - Math.max(0, position - Math.min(from, position));
      if (heldBytes - clean > maxHeld) throw new Error('too much of the reply looks like a secret');
      return clean > 0 ? take(clean) : Buffer.alloc(0);
    },
    end: () => take(heldBytes),
  };
}
