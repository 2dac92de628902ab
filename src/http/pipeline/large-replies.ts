/**
 * A large response stays in memory until the client has read it. This class limits such bytes per application and in
 * total, so that slow clients cannot fill the memory.
 */
import { fail } from '../../domain/error.ts';

/** Responses with more characters than this are counted. */
export const largeReply = 262_144;

/** Maximum bytes of large responses that are not sent yet. */
const defaultBudget = { perApplication: 64 * 1024 * 1024, total: 256 * 1024 * 1024 };

/** Characters that are encoded and sent at a time. To encode all of them in one turn would delay other requests. */
const chunkLength = 65_536;

export class LargeReplies {
  readonly #budget: typeof defaultBudget;
  readonly #unsent = new Map<string, number>();
  #totalUnsent = 0;

  constructor(budget = defaultBudget) {
    this.#budget = budget;
  }

  /** Bytes of large responses that are not sent yet. */
  get unsentBytes(): number {
    return this.#totalUnsent;
  }

  /**
   * Counts the bytes until they are sent or the client disconnects. Throws `too_many_requests` if the application has
   * too many unsent bytes, and `unavailable` if all applications together have too many.
   */
  stream(application: string, text: string): ReadableStream<Uint8Array> {
    const bytes = Buffer.byteLength(text);
    const unsent = this.#unsent.get(application) ?? 0;
    if (unsent + bytes > this.#budget.perApplication) {
      throw fail('too_many_requests', {
        detail: 'This application has not read its earlier responses yet. Read them, then retry.',
      });
    }
    if (this.#totalUnsent + bytes > this.#budget.total) throw fail('unavailable', { expected: true });
    this.#count(application, bytes);
    let sent = 0;
    let isCounted = true;
    const end = () => {
      if (isCounted) this.#count(application, -bytes);
      isCounted = false;
    };
    return new ReadableStream<Uint8Array>(
      {
        pull: (controller) => {
          if (sent < text.length) {
            const chunk = chunkAt(text, sent);
            controller.enqueue(Buffer.from(chunk));
            sent += chunk.length;
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
    this.#totalUnsent += bytes;
    const unsent = (this.#unsent.get(application) ?? 0) + bytes;
    if (unsent > 0) this.#unsent.set(application, unsent);
    else this.#unsent.delete(application);
  }
}

/** Does not split a surrogate pair. */
function chunkAt(text: string, start: number): string {
  const end = start + chunkLength;
  const isSplit = end < text.length && /[\ud800-\udbff]/.test(text[end - 1] as string);
  return text.slice(start, isSplit ? end - 1 : end);
}
