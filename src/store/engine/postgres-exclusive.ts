/** Runs work that only one process may do at a time, such as migrations, creating the first tenant and recovery. */
import type { Awaitable } from '../../domain/awaitable.ts';
import type { Queries } from './db.ts';
import { releaseLease, withLease } from './postgres-lease.ts';
import type { Pools } from './postgres-pool.ts';
import type { Late } from './postgres-retry.ts';

const advisoryLock = 7_255_901_877;
/** Milliseconds by which the server's timeout is shorter than ours, because the server starts to count later. */
const margin = 1000;
/** How often the server checks that this process is still connected, in milliseconds. */
const connectionCheck = { name: 'client_connection_check_interval', value: 1000 };

interface Transactions {
  boundedBy<T>(longest: number, work: (late: Late) => Promise<T>): Promise<T>;
  transaction<T>(work: (tx: Queries) => Awaitable<T>, late: Late): Promise<T>;
  shortTransaction<T>(work: (tx: Queries) => Awaitable<T>): Promise<T>;
}

/** Returns a function that runs work while no other node does, for at most `longest` milliseconds. */
export function exclusiveWork(pools: Pools, { boundedBy, transaction, shortTransaction }: Transactions) {
  /** PostgreSQL has the setting on most operating systems; other databases may not. */
  const canCheckConnection = () =>
    shortTransaction((tx) =>
      tx.get(`select set_config('${connectionCheck.name}', '${connectionCheck.value}', true)`),
    ).then(
      () => true,
      () => false,
    );

  return <T>(work: (tx: Queries) => Awaitable<T>, longest: number): Promise<T> => {
    const timeout = Math.max(longest - margin, 1);
    const deadline = performance.now() + timeout;
    return boundedBy(longest, async (late) => {
      const { advisoryLocks } = pools.current() ?? (await pools.find());
      const isChecked = await canCheckConnection();
      const begin = async (tx: Queries) => {
        await tx.run(`set local statement_timeout = ${timeout}`);
        await tx.run('set local lock_timeout = 0');
        // Without it, a process that exits while it waits for a lock leaves a server process that continues to wait.
        if (isChecked) await tx.run(`set local ${connectionCheck.name} = ${connectionCheck.value}`);
      };
      if (advisoryLocks)
        return transaction(async (tx) => {
          await begin(tx);
          await tx.get(`select pg_advisory_xact_lock(${advisoryLock})`);
          return work(tx);
        }, late);
      return withLease(shortTransaction, deadline, (holder) =>
        transaction(async (tx) => {
          await begin(tx);
          const value = await work(tx);
          await releaseLease(tx, holder);
          return value;
        }, late),
      );
    });
  };
}
