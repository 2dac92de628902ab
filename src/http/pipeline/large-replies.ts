/**
 * Large responses are sent as fast as the client reads them, and wait in memory until then. So their bytes are
 * counted: a client that asks and does not read cannot fill the memory. Small responses are not counted.
 */
import { fail } from '../../domain/error.ts';

/** Responses of more characters than this are counted. */
export const largeReply = 262_144;

/** Bytes that may wait to be sent. */
export interface ReplyBudget {
  readonly perApplication: number;
  readonly total: number;
}

export const usualReplyBudget: ReplyBudget = {
  perApplication: 64 * 1024 * 1024,
  total: 256 * 1024 * 1024,
};

const pieceBytes = 65_536;

export class LargeReplies {
  readonly #budget: ReplyBudget;
  readonly #waiting = new Map<string, number>();
  #total = 0;

  constructor(budget: ReplyBudget = usualReplyBudget) {
    this.#budget = budget;
  }

  /** Bytes that wait to be sent at this moment. */
  get waiting(): number {
    return this.#total;
  }

  /** A body that is counted until it is sent or the client is gone. Throws if too many bytes wait already. */
  stream(application: string, text: string): ReadableStream<Uint8Array> {
    const bytes = Buffer.from(text);
    const mine = this.#waiting.get(application) ?? 0;
    if (mine + bytes.length > this.#budget.perApplication) {
      throw fail('too_many_requests', {
        detail: 'Earlier responses to this Application have not been read yet: read them, then try again.',
      });
    }
    if (this.#total + bytes.length > this.#budget.total) throw fail('unavailable', { expected: true });
    this.#count(application, bytes.length);
    let sent = 0;
    let counted = true;
    const end = () => {
      if (counted) this.#count(application, -bytes.length);
      counted = false;
    };
    return new ReadableStream<Uint8Array>(
      {
        pull: (controller) => {
          if (sent < bytes.length) {
            controller.enqueue(bytes.subarray(sent, sent + pieceBytes));
            sent += pieceBytes;
            return;
          }
          end();
          controller.close();
        },
        cancel: end,
      },
      { highWaterMark: 0 },
    );
  }

  #count(application: string, bytes: number): void {
    this.#total += bytes;
    const mine = (this.#waiting.get(application) ?? 0) + bytes;
    if (mine > 0) this.#waiting.set(application, mine);
    else this.#waiting.delete(application);
  }
}
