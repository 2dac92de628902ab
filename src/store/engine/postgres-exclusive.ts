/** Runs work that only one node may do at a time: migrations, creating the first tenant, key rotation and recovery. */
import type { Awaitable } from '../../domain/awaitable.ts';
import type { Queries } from './db.ts';
import { isUndefinedTable } from './postgres-errors.ts';
import type { Pool, Pools } from './postgres-pool.ts';
import type { Late } from './postgres-retry.ts';

const advisoryLock = 7_255_901_877;
/** Replaces the advisory lock in databases that have none. A row lock also ends with the transaction or connection. */
const lockRow = {
  create: 'create table exclusive_lock (one integer primary key)',
  insert: 'insert into exclusive_lock (one) values (1) on conflict do nothing',
  lock: 'select one from exclusive_lock where one = 1 for update',
};
/** Milliseconds by which the server's timeout is shorter than ours, because the server starts to count later. */
const margin = 1000;

interface Transactions {
  boundedBy<T>(longest: number, work: (late: Late) => Promise<T>): Promise<T>;
  transaction<T>(work: (tx: Queries, pool: Pool) => Awaitable<T>, late: Late): Promise<T>;
  shortTransaction<T>(work: (tx: Queries) => Awaitable<T>): Promise<T>;
}

/** Returns a function that runs work while no other node does, for at most `longest` milliseconds. */
export function exclusiveWork(pools: Pools, { boundedBy, transaction, shortTransaction }: Transactions) {
  /** Several nodes may call this at the same time. One of them creates the table; errors of the others are ignored. */
  async function createLockRow(): Promise<void> {
    const insert = () => shortTransaction((tx) => tx.run(lockRow.insert));
    try {
      await insert();
    } catch (error) {
      if (!isUndefinedTable(error)) throw error;
      await shortTransaction((tx) => tx.run(lockRow.create)).catch(() => {});
      await insert();
    }
  }

  return <T>(work: (tx: Queries) => Awaitable<T>, longest: number): Promise<T> => {
    const locked = async (tx: Queries, { advisoryLocks }: Pool) => {
      await tx.run(`set local statement_timeout = ${longest - margin}`);
      await tx.run('set local lock_timeout = 0');
      await tx.get(advisoryLocks ? `select pg_advisory_xact_lock(${advisoryLock})` : lockRow.lock);
      return work(tx);
    };
    return boundedBy(longest, async (late) => {
      const { advisoryLocks } = pools.current() ?? (await pools.find());
      if (!advisoryLocks) await createLockRow();
      return transaction(locked, late);
    });
  };
}
