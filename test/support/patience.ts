/** For a machine that has others to run: what the database does not answer in time is asked for again. */
import { DbUnavailable } from '../../src/store/db.ts';

/** Milliseconds; less than a test may take. */
const longest = 15_000;

/** As every client is told to. `again` says that an earlier answer was 503, and what was asked may have been done. */
export async function patient<A extends { readonly status: number }>(
  ask: () => Promise<A>,
): Promise<A & { readonly again: boolean }> {
  const deadline = performance.now() + longest;
  for (let again = false; ; again = true) {
    const answer = await ask();
    if (answer.status !== 503 || performance.now() > deadline) return { ...answer, again };
  }
}

/** What the database says when two of us are in each other's way: a fault of ours, and not of a busy machine. */
export const entangled = /deadlock|serialize|locked/i;

/** The same past the service; it must do no harm to do it twice. */
export async function patiently<T>(work: () => Promise<T>): Promise<T> {
  const deadline = performance.now() + longest;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      const busy = error instanceof DbUnavailable && !entangled.test(error.message);
      if (!busy || performance.now() > deadline) throw error;
    }
  }
}

/** Makes so many, a few at once: who comes last would otherwise wait for all the others, and be given up on. */
export async function inTurns<T>(count: number, make: (index: number) => Promise<T>): Promise<T[]> {
  const made: T[] = [];
  const atOnce = 8;
  while (made.length < count) {
    const some = Math.min(atOnce, count - made.length);
    const from = made.length;
    made.push(...(await Promise.all(Array.from({ length: some }, (_, index) => make(from + index)))));
  }
  return made;
}
