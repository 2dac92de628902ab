/** Deadlines, and repeats transactions that conflicted with others: serialization failures and deadlocks. */
import { DbUnavailable } from '../db.ts';
import { Conflict, noAnswer } from './postgres-errors.ts';
import type { Pool } from './postgres-pool.ts';

/** Returns true if the caller no longer waits for the result. */
export type Late = () => boolean;

/** One read or transaction, with its repetitions. */
export interface Call {
  readonly isLate: Late;
  /** The connection of the last attempt. */
  used?: Used;
}

interface Used {
  readonly pool: Pool;
  /** How many answers the pool had given when the attempt began. */
  readonly answers: number;
}

/** The longest pause before a transaction is repeated, in milliseconds. */
const maxPause = 50;

/**
 * Handles the `error` of a first attempt. Repeats the attempt after each conflict, until the caller no longer waits.
 * Throws any other error.
 */
export async function afterConflict<T>(error: unknown, late: Late, attempt: () => Promise<T>): Promise<T> {
  let last = error;
  for (let longest = 2; last instanceof Conflict && !late(); longest = Math.min(longest * 2, maxPause)) {
    // A random pause, so that two transactions do not conflict again.
    await Bun.sleep(Math.random() * longest);
    try {
      return await attempt();
    } catch (error) {
      last = error;
    }
  }
  throw last;
}

/** `discard` closes a pool whose connections hang. `timeout` is in milliseconds. */
export function deadlines(discard: (pool: Pool) => void, timeout: number) {
  async function within<T>(
    longest: number,
    isDead: (used: Used) => boolean,
    work: (call: Call) => Promise<T>,
  ): Promise<T> {
    let isLate = false;
    const call: Call = { isLate: () => isLate };
    const giveUp = Promise.withResolvers<never>();
    const timer = setTimeout(() => {
      isLate = true;
      // Connections hang while the network drops their packets, so the whole pool is replaced.
      if (call.used && isDead(call.used)) discard(call.used.pool);
      giveUp.reject(new DbUnavailable(noAnswer));
    }, longest);
    try {
      return await Promise.race([work(call), giveUp.promise]);
    } finally {
      clearTimeout(timer);
    }
  }

  return {
    /** For requests. Discards the pool if no query at all was answered during the timeout. */
    bounded: <T>(work: (call: Call) => Promise<T>): Promise<T> =>
      within(timeout, ({ pool, answers }) => pool.answers === answers, work),
    /**
     * For work that the server's own timeout ends before `longest`. If it does not, the connection is probably lost, so
     * the pool is discarded.
     */
    boundedBy: <T>(longest: number, work: (call: Call) => Promise<T>): Promise<T> =>
      within(longest, () => true, work),
  };
}
