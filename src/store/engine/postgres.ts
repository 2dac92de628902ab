import type { SQL } from 'bun';
import type { Awaitable } from '../../domain/awaitable.ts';
import { batched } from './batcher.ts';
import {
  type Db,
  DbUnavailable,
  defaultConnections,
  defaultTimeout,
  type Queries,
  type Value,
} from './db.ts';
import { groupCommit } from './group-commit.ts';
import { Conflict, mapDriverError, Unreachable } from './postgres-errors.ts';
import { type Pool, type Pools, postgresPools } from './postgres-pool.ts';
import { type PostgresTarget, parsePostgresUrl } from './postgres-url.ts';

/** All in milliseconds, and in proportion to the timeout of a request, which is `call`. */
function timeoutsOf(call: number) {
  return {
    call,
    /** Shorter than ours, so that the server ends a statement before we give up. */
    statement: Math.max(call - 100, 1),
    /** For a lock that another transaction holds. */
    lock: Math.round(call * 0.3125),
    idleInTransaction: Math.round(call * 6.25),
    /** For work that one node at a time may do. `slow` is for statements that read whole tables. */
    exclusive: { usual: call * 6.25, slow: 3_600_000 },
  };
}

type Timeouts = ReturnType<typeof timeoutsOf>;

/** Milliseconds by which the timeout of the server is shorter than ours for exclusive work, which has to begin first. */
const exclusiveMargin = 1000;
const databaseClock = '(floor(extract(epoch from clock_timestamp()) * 1000)::bigint)';
/** Fails on a standby, which may not know yet that a key was revoked. Evaluated once per query. */
const onPrimary = '(select 1 / case when pg_is_in_recovery() then 0 else 1 end) = 1';
/** The advisory lock of exclusive work: migrations, the first tenant, the audit chain, rotation and recovery. */
const exclusiveLock = 7_255_901_877;

/** How many changes share a transaction, and how many such transactions run at a time. */
const groupLimits = { maxBatch: 32, maxInFlight: 4 };
/** The part of the timeout after which a queued change is not started. */
const latestStart = 0.625;

type Work<T> = (tx: Queries) => Awaitable<T>;
/** Whether the caller no longer waits. */
type Late = () => boolean;
type Runner = Pick<SQL, 'unsafe'>;
type Result<R> = R[] & { count: number };

/** Milliseconds before a read is sent again after its connection was lost. */
const pause = 10;
/** The longest pause before a transaction is repeated after a conflict, in milliseconds. */
const maxPause = 50;

/** Settings of every transaction. */
function settingsOf({ statement, lock, idleInTransaction }: Timeouts, { schema }: PostgresTarget) {
  return {
    statement_timeout: String(statement),
    lock_timeout: String(lock),
    idle_in_transaction_session_timeout: String(idleInTransaction),
    ...(schema !== undefined && { search_path: `"${schema}"` }),
  };
}

/** Deadlines for work on the pools. */
function deadlines(pools: Pools, timeouts: Timeouts) {
  let answers = 0;

  async function within<T>(
    longest: number,
    isDead: () => boolean,
    work: (late: Late) => Promise<T>,
  ): Promise<T> {
    const pool = pools.current();
    let isLate = false;
    const giveUp = Promise.withResolvers<never>();
    const timer = setTimeout(() => {
      isLate = true;
      // Connections hang while the network drops their packets, so the whole pool is replaced.
      if (pool && isDead()) pools.discard(pool);
      giveUp.reject(new DbUnavailable('the database does not answer'));
    }, longest);
    try {
      const value = await Promise.race([work(() => isLate), giveUp.promise]);
      answers++;
      return value;
    } finally {
      clearTimeout(timer);
    }
  }

  return {
    /** For requests. Discards the pool if no query at all was answered during the timeout. */
    bounded: <T>(work: (late: Late) => Promise<T>): Promise<T> => {
      const before = answers;
      return within(timeouts.call, () => answers === before, work);
    },
    /** For work that the server times out earlier. If it does not, the connection is probably lost. */
    boundedBy: <T>(longest: number, work: (late: Late) => Promise<T>): Promise<T> =>
      within(longest, () => true, work),
  };
}

/**
 * `clock` replaces the database's own clock in tests. `timeout` is that of a request, in milliseconds. Throws a message
 * about the URL if it is invalid; connects when it is first used.
 */
export function openPostgres(
  url: string,
  clock?: () => number,
  timeout = defaultTimeout,
  maxConnections = defaultConnections,
): Db {
  const timeouts = timeoutsOf(timeout);
  const target = parsePostgresUrl(url);
  const settings = settingsOf(timeouts, target);
  const pools = postgresPools(target, { maxConnections, connectTimeout: timeout, settings });
  const { bounded, boundedBy } = deadlines(pools, timeouts);

  async function onPool<T>(work: (pool: Pool) => Promise<T>): Promise<T> {
    const pool = pools.current() ?? (await pools.find());
    try {
      return await work(pool);
    } catch (error) {
      pools.discardAfter(error, pool);
      throw error;
    }
  }

  /**
   * Sends a read once more if its connection was lost before the answer, within the same time limit, and again after
   * every conflict. A read that was too slow is not repeated: it would be as slow again.
   */
  const read = <T>(work: (on: Runner, pool: Pool) => Promise<T>) => {
    const attempt = () =>
      onPool((pool) =>
        pool.transactionSettings === undefined ? work(pool.sql, pool) : begin(pool, (tx) => work(tx, pool)),
      );
    return bounded(async (late) => {
      try {
        return await attempt();
      } catch (error) {
        if (!(error instanceof Unreachable)) return afterConflict(error, late, attempt);
        await Bun.sleep(pause);
        if (late()) throw error;
        return attempt();
      }
    });
  };

  function transaction<T>(work: Work<T>, late: Late): Promise<T> {
    const attempt = () => onPool((pool) => begin(pool, (tx) => withDeadline(work, late)(queries(tx, clock))));
    return attempt().catch((error) => afterConflict(error, late, attempt));
  }

  const shortTransaction = <T>(work: Work<T>) => bounded((late) => transaction(work, late));

  function exclusive<T>(work: Work<T>, longest: number): Promise<T> {
    const locked = async (tx: Queries) => {
      await tx.run(`set local statement_timeout = ${longest - exclusiveMargin}`);
      await tx.run('set local lock_timeout = 0');
      await tx.get(`select pg_advisory_xact_lock(${exclusiveLock})`);
      return work(tx);
    };
    return boundedBy(longest, (late) => transaction(locked, late));
  }

  const enqueue = groupCommit({
    transaction: shortTransaction,
    pipelined: true,
    maxQueueTime: timeout * latestStart,
    ...groupLimits,
  });

  return {
    dialect: 'postgres',
    get: (sql, params) => read(async (on) => queries(on, clock).get(sql, params)),
    all: (sql, params) => read(async (on) => queries(on, clock).all(sql, params)),
    run: (sql, params) => shortTransaction(async (tx) => tx.run(sql, params)),
    lookup: batched((sql, keys) =>
      read((on, pool) =>
        execute(on, `${sql} and ${onPrimary}`, [pool.sql.array(keys, 'BYTEA') as unknown as Value], clock),
      ),
    ),
    transaction: shortTransaction,
    defer: (write, row) => shortTransaction((tx) => write(tx, [row])),
    change: (work, entity) => bounded((isLate) => enqueue(work, entity, () => checkDeadline(isLate))),
    exclusively: (work, pace) => exclusive(work, timeouts.exclusive[pace ?? 'usual']),
    close: pools.close,
  };
}

/** Repeats the attempt after each conflict until the caller no longer waits. Throws other errors. */
async function afterConflict<T>(error: unknown, late: Late, attempt: () => Promise<T>): Promise<T> {
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

/** The first conflict of each transaction. Later statements of the transaction fail with other errors. */
const conflicts = new WeakMap<Runner, Conflict>();

/** Runs work in a transaction with the settings of the pool. Throws `Conflict` if a statement did, or the commit. */
async function begin<T>({ sql, transactionSettings }: Pool, work: (tx: Runner) => Awaitable<T>): Promise<T> {
  let failed: { error: unknown } | undefined;
  try {
    return (await sql.begin(async (tx) => {
      if (transactionSettings !== undefined) await tx.unsafe(transactionSettings);
      try {
        return await work(tx);
      } catch (error) {
        failed = { error: conflicts.get(tx) ?? error };
        throw error;
      }
    })) as T;
  } catch (error) {
    throw failed ? failed.error : mapDriverError(error);
  }
}

function queries(on: Runner, clock: (() => number) | undefined): Queries {
  return {
    get: async <R>(sql: string, params: readonly Value[] = []) =>
      (await execute<R>(on, sql, params, clock))[0],
    all: (sql, params = []) => execute(on, sql, params, clock),
    run: async (sql, params = []) => (await execute(on, sql, params, clock)).count,
  };
}

async function execute<R>(
  on: Runner,
  sql: string,
  params: readonly Value[],
  clock: (() => number) | undefined,
): Promise<Result<R>> {
  const now = clock === undefined ? databaseClock : `($${params.length + 1}::bigint)`;
  const text = sql.replace(/:now\b/g, now).replace(/:key\b/g, 'any($1)');
  const values = clock !== undefined && text.includes(now) ? [...params, clock()] : [...params];
  try {
    return (await on.unsafe(text, values)) as Result<R>;
  } catch (error) {
    const mapped = mapDriverError(error);
    if (mapped instanceof Conflict && !conflicts.has(on)) conflicts.set(on, mapped);
    throw mapped;
  }
}

/** Checks the deadline before and after: even one statement may wait longer for a connection than its caller waits. */
function withDeadline<T>(work: Work<T>, isLate: Late): Work<T> {
  return async (tx) => {
    checkDeadline(isLate);
    const value = await work(tx);
    checkDeadline(isLate);
    return value;
  };
}

function checkDeadline(isLate: Late): void {
  if (isLate()) throw new DbUnavailable('timed out: the caller no longer waits for this change');
}
