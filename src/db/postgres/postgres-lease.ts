/**
 * A lock for databases without advisory locks: the only row of `maintenance_lock`, which exists while the lock is held.
 * The holder renews its lease. If it crashes, another process takes the lock when the lease has expired by the clock of
 * the database.
 */
import type { Awaitable } from '../../domain/awaitable.ts';
import { DbUnavailable, type Queries } from '../db.ts';
import { isUndefinedTable, LockTimeout, lacksPrivilege } from './postgres-errors.ts';
import type { Pools } from './postgres-pool.ts';
import type { Call } from './postgres-retry.ts';

/** In milliseconds. */
export const leaseDuration = 15_000;
const pollInterval = 100;

/** Not a migration: the first migration needs the lock. */
const create = `create table maintenance_lock (
  one integer primary key check (one = 1),
  holder uuid not null,
  lease_until bigint not null
)`;
const take = `insert into maintenance_lock (one, holder, lease_until) values (1, $1, :now + ${leaseDuration})
  on conflict (one) do update set holder = excluded.holder, lease_until = excluded.lease_until
  where maintenance_lock.lease_until <= :now`;
const renew = `update maintenance_lock set lease_until = :now + ${leaseDuration} where one = 1 and holder = $1`;
const release = 'delete from maintenance_lock where one = 1 and holder = $1';

type Transaction = <T>(work: (tx: Queries) => Awaitable<T>) => Promise<T>;

/**
 * Runs work while this process holds the lock. `deadline` is the time by `performance.now` after which it no longer waits
 * for the lock and throws `LockTimeout`. The work calls `releaseLease` at the end of its transaction.
 */
export async function withLease<T>(
  transaction: Transaction,
  deadline: number,
  work: (holder: string) => Promise<T>,
  renewalInterval = leaseDuration / 3,
): Promise<T> {
  const holder = crypto.randomUUID();
  await createTable(transaction);
  while ((await transaction((tx) => tx.run(take, [holder]))) === 0) {
    if (performance.now() > deadline)
      throw new LockTimeout('another process has locked the database for maintenance');
    await Bun.sleep(pollInterval);
  }
  // A failed renewal is repeated by the next one. If all of them fail, `releaseLease` throws.
  const renewals = setInterval(() => {
    transaction((tx) => tx.run(renew, [holder])).catch(() => {});
  }, renewalInterval);
  try {
    return await work(holder);
  } catch (error) {
    // Otherwise the next process waits until the lease expires.
    await transaction((tx) => tx.run(release, [holder])).catch(() => {});
    throw error;
  } finally {
    clearInterval(renewals);
  }
}

/**
 * Releases the lock in the transaction of the work. Throws if another process has taken the lock, so that the transaction
 * is rolled back. Both write the same row, so one of them waits for the commit of the other.
 */
async function releaseLease(tx: Queries, holder: string): Promise<void> {
  if ((await tx.run(release, [holder])) === 0)
    throw new DbUnavailable(
      'rolled back: this process did not renew its lock in time, and another one has taken it',
    );
}

async function createTable(transaction: Transaction): Promise<void> {
  const exists = () =>
    transaction((tx) => tx.get('select 1 from maintenance_lock')).then(
      () => true,
      (error) => {
        if (isUndefinedTable(error)) return false;
        throw error;
      },
    );
  if (await exists()) return;
  try {
    await transaction((tx) => tx.run(create));
  } catch (error) {
    // Another process may have created the table at the same time.
    if (await exists()) return;
    if (!lacksPrivilege(error)) throw error;
    throw new DbUnavailable(
      'the role of DATABASE_URL may neither use advisory locks nor create the table maintenance_lock: grant it execute on the functions pg_advisory_xact_lock(bigint) and pg_try_advisory_xact_lock(bigint)',
      { cause: (error as DbUnavailable).cause },
    );
  }
}

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
export function exclusiveWork(pools: Pools, { boundedBy, transaction, shortTransaction }: Transactions) {
  /** PostgreSQL has the setting on most operating systems; other databases may not. */
  const canCheckConnection = () =>
    shortTransaction((tx) =>
      tx.get(`select set_config('${connectionCheck.name}', '${connectionCheck.value}', true)`),
    ).then(
      () => true,
      () => false,
    );

  return <T>(work: (tx: Queries) => Awaitable<T>, longest: number, lock: number): Promise<T> => {
    const timeout = Math.max(longest - margin, 1);
    const deadline = performance.now() + timeout;
    return boundedBy(longest, async (call) => {
      const pool = pools.current() ?? (await pools.find());
      const isChecked = await canCheckConnection();
      const begin = async (tx: Queries) => {
        await tx.run(`set local statement_timeout = ${timeout}`);
        await tx.run('set local lock_timeout = 0');
        // Without it, a process that exits while it waits for a lock leaves a server process that continues to wait.
        if (isChecked) await tx.run(`set local ${connectionCheck.name} = ${connectionCheck.value}`);
      };
      if (pool.advisoryLocks)
        return transaction(async (tx) => {
          await begin(tx);
          await tx.get(`select pg_advisory_xact_lock(${lock})`);
          return work(tx);
        }, call);
      return withLease(shortTransaction, deadline, (holder) =>
        transaction(async (tx) => {
          await begin(tx);
          const value = await work(tx);
          await releaseLease(tx, holder);
          return value;
        }, call),
      );
    });
  };
}
