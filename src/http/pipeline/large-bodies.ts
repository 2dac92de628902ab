/**
 * To store a token of 1 MiB takes about 10 ms, during which the process handles no other request. So that one client
 * cannot delay the others, a process handles large bodies one after another, at a limited rate.
 */
import { fail } from '../../domain/error.ts';

/** 16 MiB per second: about a sixth of the time of a process. */
const bytesPerMillisecond = 16_384;

/** Milliseconds. Bodies that wait are in memory: up to 160 MiB. */
const maxWait = 10_000;

export class LargeBodies {
  readonly #now: () => number;
  readonly #sleep: (milliseconds: number) => Promise<void>;
  #nextTurn = 0;

  /** `now` and `sleep` can be replaced in tests. */
  constructor(now = () => performance.now(), sleep: (milliseconds: number) => Promise<void> = Bun.sleep) {
    this.#now = now;
    this.#sleep = sleep;
  }

  /** Resolves when a body of this size can be handled. Throws `unavailable` if too many others are waiting. */
  async takeTurn(bytes: number): Promise<void> {
    const now = this.#now();
    const turn = Math.max(now, this.#nextTurn);
    if (turn - now > maxWait) throw fail('unavailable', { expected: true });
    this.#nextTurn = turn + bytes / bytesPerMillisecond;
    if (turn > now) await this.#sleep(turn - now);
  }
}
