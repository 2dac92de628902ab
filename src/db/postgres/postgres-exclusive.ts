/** Work that one node of a fleet does at a time, under an advisory lock. */
import type { Awaitable } from '../../domain/awaitable.ts';
import type { Queries } from '../db.ts';
import type { Call } from './postgres-retry.ts';

/** Keys of advisory locks. A move of rows between servers may take hours, and other work does not wait for it. */
export const advisoryLocks = { usual: 7_255_901_877, moving: 7_255_901_878 };
/** Milliseconds by which the server's timeout is shorter than ours, because the server starts to count later. */
const margin = 1000;
/** How often the server checks that this process is still connected, in milliseconds. */
const connectionCheck = { name: 'client_connection_check_interval', value: 1000 };

interface Transactions {
  boundedBy<T>(longest: number, work: (call: Call) => Promise<T>): Promise<T>;
  transaction<T>(work: (tx: Queries) => Awaitable<T>, call: Call): Promise<T>;
  shortTransaction<T>(work: (tx: Queries) => Awaitable<T>): Promise<T>;
}

/** Returns a function that runs work while no other node with the same lock does, for at most `longest` milliseconds. */
export function exclusiveWork({ boundedBy, transaction, shortTransaction }: Transactions) {
  /** PostgreSQL has the setting on most operating systems. */
  const canCheckConnection = () =>
    shortTransaction((tx) =>
      tx.get(`select set_config('${connectionCheck.name}', '${connectionCheck.value}', true)`),
    ).then(
      () => true,
      () => false,
    );

  return <T>(work: (tx: Queries) => Awaitable<T>, longest: number, lock: number): Promise<T> => {
    const timeout = Math.max(longest - margin, 1);
    return boundedBy(longest, async (call) => {
      const isChecked = await canCheckConnection();
      return transaction(async (tx) => {
        await tx.run(`set local statement_timeout = ${timeout}`);
        await tx.run('set local lock_timeout = 0');
        // Without it, a process that exits while it waits for a lock leaves a server process that continues to wait.
        if (isChecked) await tx.run(`set local ${connectionCheck.name} = ${connectionCheck.value}`);
        await tx.get(`select pg_advisory_xact_lock(${lock})`);
        return work(tx);
      }, call);
    });
  };
}
