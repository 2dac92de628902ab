/**
 * The memory that requests hold: large bodies, rows of large pages, and large responses until the client has read them.
 * It is reserved before it is used, per application and in total, so that neither concurrent requests nor slow clients
 * fill the memory of the process.
 */
import { fail } from '../../domain/error.ts';
import type { JsonText } from '../../domain/json-text.ts';
import type { Principal } from '../../domain/principal.ts';
import { nextTurn } from '../../domain/steps.ts';

/** A request that holds at most this many bytes is not counted, and never refused. */
export const smallBytes = 65_536;

/** Bytes that are encoded and sent at a time. To encode a whole response in one turn would delay other requests. */
const chunkBytes = 131_072;

/** The rest is for the program, its caches, and what the garbage collector has not freed yet. */
const shareOfProcess = 1 / 4;
const shareOfApplication = 1 / 4;

export interface MemoryLimits {
  readonly perApplication: number;
  readonly total: number;
}

/** `bytes` is the memory that the process may use. */
export function memoryLimits(bytes: number): MemoryLimits {
  const total = Math.floor(bytes * shareOfProcess);
  return { total, perApplication: Math.floor(total * shareOfApplication) };
}

/** A request, with its reservation if it needs one. */
interface Holder {
  reservation: Reservation | undefined;
}

export class RequestMemory {
  readonly #limits: MemoryLimits;
  readonly #reserved = new Map<string, number>();
  #total = 0;

  constructor(limits: MemoryLimits) {
    this.#limits = limits;
  }

  get reservedBytes(): number {
    return this.#total;
  }

  /** A function that reserves bytes for the request, in addition to those that it has. Throws as `Reservation.add`. */
  reserverFor(call: { readonly principal: Principal; readonly requestInfo: Holder }) {
    return (bytes: number) => this.for(call.principal, call.requestInfo).add(bytes);
  }

  /** The reservation of a request. */
  for({ applicationId }: Pick<Principal, 'applicationId'>, requestInfo: Holder): Reservation {
    requestInfo.reservation ??= new Reservation(this, applicationId);
    return requestInfo.reservation;
  }

  /**
   * Throws if the application or all together would have more than their limit. A request may exceed the limit while no
   * other one holds memory: otherwise it could never succeed.
   */
  check(application: string, own: number, bytes: number): void {
    const ofApplication = this.#reserved.get(application) ?? 0;
    if (ofApplication > own && ofApplication + bytes > this.#limits.perApplication)
      throw fail('too_many_requests', {
        detail:
          'The large requests of this application, or responses that it has not read, use too much memory. Read the responses, then retry.',
        retryAfter: 1,
      });
    if (this.#total > own && this.#total + bytes > this.#limits.total)
      throw fail('unavailable', { expected: true });
  }

  count(application: string, bytes: number): void {
    this.#total += bytes;
    const reserved = (this.#reserved.get(application) ?? 0) + bytes;
    if (reserved > 0) this.#reserved.set(application, reserved);
    else this.#reserved.delete(application);
  }
}

/** The memory of one request. */
export class Reservation {
  readonly #memory: RequestMemory;
  readonly #application: string;
  #bytes = 0;
  #isOver = false;
  /** Whether a response is being sent, which releases the reservation when it ends. */
  isSending = false;

  constructor(memory: RequestMemory, application: string) {
    this.#memory = memory;
    this.#application = application;
  }

  /**
   * Throws `too_many_requests` if the application holds too much, and `unavailable` if all applications together do.
   * Then it adds no bytes.
   */
  add(bytes: number): void {
    // A part of a request that has failed can still be running.
    if (this.#isOver) throw fail('unavailable', { expected: true });
    const now = counted(this.#bytes);
    const added = counted(this.#bytes + bytes) - now;
    if (added > 0) this.#memory.check(this.#application, now, added);
    this.#set(this.#bytes + bytes);
  }

  /**
   * Sends the response, and releases the reservation when it was sent or the client has disconnected. Throws as `add` if
   * the response is larger than what was reserved, unless it `mustBeSent`.
   */
  send(json: JsonText, mustBeSent: boolean): ReadableStream<Uint8Array> {
    const { bytes } = json;
    if (bytes > this.#bytes && !mustBeSent) this.add(bytes - this.#bytes);
    this.#set(bytes);
    this.isSending = true;
    const chunks = chunksOf(json.parts);
    return new ReadableStream<Uint8Array>(
      {
        pull: async (controller) => {
          await nextTurn();
          const { done, value } = chunks.next();
          if (!done) return controller.enqueue(value);
          this.release();
          controller.close();
        },
        cancel: () => this.release(),
      },
      { highWaterMark: 0 },
    );
  }

  release(): void {
    this.#set(0);
    this.#isOver = true;
  }

  #set(bytes: number): void {
    this.#memory.count(this.#application, counted(bytes) - counted(this.#bytes));
    this.#bytes = bytes;
  }
}

function counted(bytes: number): number {
  return bytes > smallBytes ? bytes : 0;
}

/** The bytes of all parts, in chunks. */
function* chunksOf(parts: JsonText['parts']): Generator<Uint8Array, void> {
  let [pieces, length]: [Uint8Array[], number] = [[], 0];
  for (const part of parts)
    for (let start = 0; start < part.length; ) {
      const piece = typeof part === 'string' ? textAt(part, start) : part.subarray(start, start + chunkBytes);
      start += piece.length;
      const bytes = typeof piece === 'string' ? Buffer.from(piece) : piece;
      pieces.push(bytes);
      length += bytes.length;
      if (length < chunkBytes) continue;
      yield pieces.length === 1 ? bytes : Buffer.concat(pieces);
      [pieces, length] = [[], 0];
    }
  if (length > 0) yield Buffer.concat(pieces);
}

/** Does not split a surrogate pair. */
function textAt(text: string, start: number): string {
  const end = start + chunkBytes;
  const isSplit = end < text.length && /[\ud800-\udbff]/.test(text[end - 1] as string);
  return text.slice(start, isSplit ? end - 1 : end);
}
