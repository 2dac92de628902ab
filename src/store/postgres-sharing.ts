/** Changes that share a transaction where each statement takes a round trip. */
import type { Awaitable } from '../domain/awaitable.ts';
import { type Db, DbUnavailable, type Manner, type Queries, type Shared } from './db.ts';
import { gather } from './gather.ts';
import { attempt, Left, type Outcome, SharedTransaction, type Waiting } from './sharing.ts';

export type Work<T> = (tx: Queries) => Awaitable<T>;
/** Whether nobody waits any more. */
export type Late = () => boolean;

interface Joined extends Waiting, Manner {
  /** When, by a clock that only goes forward. */
  readonly at: number;
  readonly late: Late;
}

/** How many changes may share a transaction, and how many such transactions there are at once. */
const sharing = { most: 32, lanes: 4 };

/**
 * The part of the timeout after which a change is not begun any more: one that is given up in the middle takes the
 * others of its transaction with it.
 */
const latestStart = 0.625;

/** Says that a transaction that was shared came to nothing, and nothing of it has happened. */
class Undone extends Error {}

/** `begin` runs a transaction; `bounded` waits for something as long as `timeout`, in milliseconds. */
export function shareTransactions(
  begin: <T>(work: Work<T>) => Promise<T>,
  bounded: <T>(wait: (_: unknown, late: Late) => Promise<T>) => Promise<T>,
  timeout: number,
  now: () => number = () => performance.now(),
): Db['change'] {
  const join = gather<Joined>(async (batch) => {
    const soonEnough = now() - timeout * latestStart;
    const there = batch.filter(({ at }) => at >= soonEnough);
    for (const { at, reject } of batch) if (at < soonEnough) reject(new DbUnavailable('it is too busy'));
    const undone = there.length > 1 ? await share(there) : there;
    await Promise.all(undone.map(alone));
  }, sharing);

  /** Answers with those who must try again, since it came to nothing for all. */
  async function share(batch: readonly Joined[]): Promise<readonly Joined[]> {
    const anyLate = () => batch.some(({ late }) => late());
    const run = async (queries: Queries) => {
      const outcomes = await together(batch, queries).catch(() => undefined);
      if (!outcomes || anyLate()) throw new Undone();
      return outcomes;
    };
    try {
      for (const tell of await begin(run)) tell();
      return [];
    } catch (error) {
      if (error instanceof Undone) return batch;
      for (const { reject } of batch) reject(error);
      return [];
    }
  }

  /** In a transaction of its own, in which nothing of the others is in its way. */
  async function alone({ work, resolve, reject, late }: Joined): Promise<void> {
    const run = async (queries: Queries) => {
      const left = new Left();
      const value = await work(new SharedTransaction(queries, left));
      await left.settle(queries);
      return value;
    };
    await begin(unlessLate(run, late)).then(resolve, reject);
  }

  return <T>(work: (tx: Shared) => Awaitable<T>, manner: Manner = {}) =>
    bounded(
      (_, late) =>
        new Promise<T>((resolve, reject) => {
          const told = { resolve: resolve as (value: unknown) => void, reject };
          join({ ...manner, ...told, work, late, at: now() });
        }),
    );
}

/**
 * First those that may run alongside each other, whose statements leave together, then the others in turn. All take
 * their rows in the same order.
 */
async function together(batch: readonly Joined[], queries: Queries): Promise<Outcome[] | undefined> {
  const left = new Left();
  const run = (waiting: Waiting) => attempt(waiting, new SharedTransaction(queries, left));
  const sorted = batch.toSorted(byRow);
  const outcomes = await Promise.all(sorted.filter(({ alongside }) => alongside).map(run));
  for (const waiting of sorted) {
    if (outcomes.includes(undefined)) return undefined;
    if (!waiting.alongside) outcomes.push(await run(waiting));
  }
  if (!outcomes.every((outcome) => outcome !== undefined)) return undefined;
  await left.settle(queries);
  return outcomes;
}

/** Those that hold no row that was there before come first. */
function byRow({ holds: a = '' }: Manner, { holds: b = '' }: Manner): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Looks at the clock once more: even one statement may wait for a connection longer than anybody waits for it. */
export function unlessLate<T>(work: Work<T>, late: Late): Work<T> {
  const check = () => {
    if (late()) throw new DbUnavailable('given up: nobody waits for this change any more');
  };
  return async (tx) => {
    check();
    const value = await work(tx);
    check();
    return value;
  };
}
