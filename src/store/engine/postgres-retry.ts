/** Repeats transactions that conflicted with others: serialization failures and deadlocks. */
import { Conflict } from './postgres-errors.ts';
import type { Pool } from './postgres-pool.ts';

/** Returns true if the caller no longer waits for the result. */
export type Late = () => boolean;

/** One read or transaction, with its repetitions. */
export interface Call {
  readonly isLate: Late;
  /** What the last attempt used. */
  used?: Used;
}

export interface Used {
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
