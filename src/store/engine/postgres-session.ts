/** Runs statements and transactions on a connection pool. */
import type { SQL } from 'bun';
import type { Awaitable } from '../../domain/awaitable.ts';
import type { Queries, Value } from './db.ts';
import { Conflict, isUniqueViolation, mapDriverError } from './postgres-errors.ts';
import type { Pool } from './postgres-pool.ts';

type Runner = Pick<SQL, 'unsafe'>;
type Result<R> = R[] & { count: number };

/** A pool, or a connection of it with an open transaction. */
export interface Session {
  readonly on: Runner;
  readonly pool: Pool;
  readonly clock: (() => number) | undefined;
}

/**
 * When the server received the statement. Unlike `clock_timestamp()`, it is not volatile, so an index can be used with
 * it, and a distributed database evaluates it once.
 */
const databaseClock = '(floor(extract(epoch from statement_timestamp()) * 1000)::bigint)';

/** The first conflict of each transaction. Later statements of the transaction fail with other errors. */
const conflicts = new WeakMap<Runner, Conflict>();

/**
 * Runs work in a transaction with the settings of the pool, on the server that was checked. Throws `Conflict` if a statement or the commit conflicted
 * with another transaction.
 */
export async function begin<T>(
  pool: Pool,
  clock: Session['clock'],
  work: (session: Session) => Awaitable<T>,
): Promise<T> {
  let failed: { error: unknown } | undefined;
  try {
    return (await pool.sql.begin(async (tx) => {
      if (pool.transactionSettings !== undefined) await tx.unsafe(pool.transactionSettings);
      // Sent together with the first statement of the work.
      const checked = tx.unsafe(`select ${pool.sameServer}`).execute();
      try {
        const value = await work({ on: tx, pool, clock });
        await checked;
        return value;
      } catch (error) {
        const moved = await checked.then(() => undefined, mapDriverError);
        failed = { error: moved ?? conflicts.get(tx) ?? error };
        throw error;
      }
    })) as T;
  } catch (error) {
    throw failed ? failed.error : mapDriverError(error);
  }
}

export function queries(session: Session): Queries {
  return {
    get: async <R>(sql: string, params: readonly Value[] = []) => (await execute<R>(session, sql, params))[0],
    all: (sql, params = []) => execute(session, sql, params),
    run: async (sql, params = []) => (await execute(session, sql, params)).count,
  };
}

/**
 * In databases without advisory locks, `true` replaces this call. If two changes then insert the same row, one of them
 * is repeated.
 */
const tryLock = /pg_try_advisory_xact_lock\(-?\d+\)/;

export async function execute<R>(
  { on, pool, clock }: Session,
  sql: string,
  params: readonly Value[],
): Promise<Result<R>> {
  const now = clock === undefined ? databaseClock : `($${params.length + 1}::bigint)`;
  const text = sql.replace(/:now\b/g, now).replace(/:key\b/g, 'any($1)');
  const values = clock !== undefined && text.includes(now) ? [...params, clock()] : [...params];
  try {
    return (await on.unsafe(pool.advisoryLocks ? text : text.replace(tryLock, 'true'), values)) as Result<R>;
  } catch (error) {
    const isConflict = !pool.advisoryLocks && isUniqueViolation(error);
    const mapped = isConflict
      ? new Conflict((error as Error).message, { cause: error })
      : mapDriverError(error);
    if (mapped instanceof Conflict && !conflicts.has(on)) conflicts.set(on, mapped);
    throw mapped;
  }
}
