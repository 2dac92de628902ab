import { SQL } from 'bun';
import type { Awaitable } from '../../domain/awaitable.ts';
import { batched } from './batcher.ts';
import { type Db, DbUnavailable, defaultTimeout, ownerDeleted, type Queries, type Value } from './db.ts';
import { groupCommit } from './group-commit.ts';

/** All in milliseconds, and in proportion to the timeout of a request, which is `call`. */
function timeoutsOf(call: number) {
  return {
    call,
    /** For a lock that another transaction holds. */
    lock: Math.round(call * 0.3125),
    /** For work that one node at a time may do. `slow` is for statements that read whole tables. */
    exclusive: { usual: call * 6.25, slow: 3_600_000 },
  };
}

type Timeouts = ReturnType<typeof timeoutsOf>;

/** Milliseconds by which the timeout of the server is shorter than ours. */
const serverMargin = 100;
/** The same for exclusive work, which has to connect and begin first. */
const exclusiveMargin = 1000;
/** The size of the connection pool of a process. */
export const connections = 10;
const databaseClock = '(floor(extract(epoch from clock_timestamp()) * 1000)::bigint)';
/** Fails on a standby, which may not know yet that a key was revoked. Evaluated once per query. */
const onPrimary = '(select 1 / case when pg_is_in_recovery() then 0 else 1 end) = 1';
const divisionByZero = '22012';
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
type OnPool<T> = (pool: SQL, late: Late) => Promise<T>;

/** Milliseconds before a read is sent again after its connection was lost. */
const pause = 10;

/** A connection pool with deadlines. */
function poolOf(url: string, timeouts: Timeouts) {
  let pool = connect(url, timeouts);
  let answers = 0;

  /** Connections hang while the network drops their packets, so the whole pool is replaced. */
  function replace(old: SQL): void {
    if (old !== pool) return;
    pool = connect(url, timeouts);
    old.close({ timeout: 5 }).catch(() => {});
  }

  async function within<T>(longest: number, isDead: () => boolean, work: OnPool<T>): Promise<T> {
    const mine = pool;
    let isLate = false;
    const giveUp = Promise.withResolvers<never>();
    const timer = setTimeout(() => {
      isLate = true;
      if (isDead()) replace(mine);
      giveUp.reject(new DbUnavailable('the database does not answer'));
    }, longest);
    try {
      const value = await Promise.race([work(mine, () => isLate), giveUp.promise]);
      answers++;
      return value;
    } catch (error) {
      throw mapDbError(error);
    } finally {
      clearTimeout(timer);
    }
  }

  return {
    /** For requests. Replaces the pool if no query at all was answered during the timeout. */
    bounded: <T>(work: OnPool<T>): Promise<T> => {
      const before = answers;
      return within(timeouts.call, () => answers === before, work);
    },
    /** For work that the server times out earlier. If it does not, the connection is probably lost. */
    boundedBy: <T>(longest: number, work: OnPool<T>): Promise<T> => within(longest, () => true, work),
    close: () => pool.close({ timeout: 5 }),
  };
}

/** `clock` replaces the database's own clock in tests. `timeout` is that of a request, in milliseconds. */
export function openPostgres(url: string, clock?: () => number, timeout = defaultTimeout): Db {
  const timeouts = timeoutsOf(timeout);
  const { bounded, boundedBy, close } = poolOf(url, timeouts);

  /**
   * Sends a read once more if its connection was lost before the answer, within the same time limit. A read that
   * was too slow is not repeated: it would be as slow again.
   */
  const read = <T>(work: (pool: SQL) => Promise<T>) =>
    bounded(async (pool, late) => {
      try {
        return await work(pool);
      } catch (error) {
        if (!isConnectionLost(error)) throw error;
        await Bun.sleep(pause);
        if (late()) throw error;
        return work(pool);
      }
    });

  const transaction = <T>(pool: SQL, work: Work<T>) =>
    pool.begin(async (tx) => work(queries(tx, clock))) as Promise<T>;

  const shortTransaction = <T>(work: Work<T>) =>
    bounded((pool, late) => transaction(pool, withDeadline(work, late)));

  function exclusive<T>(work: Work<T>, longest: number): Promise<T> {
    const locked = async (tx: Queries) => {
      await tx.run(`set local statement_timeout = ${longest - exclusiveMargin}`);
      await tx.run('set local lock_timeout = 0');
      await tx.get(`select pg_advisory_xact_lock(${exclusiveLock})`);
      return work(tx);
    };
    return boundedBy(longest, (pool, late) => transaction(pool, withDeadline(locked, late)));
  }

  const enqueue = groupCommit({
    transaction: shortTransaction,
    pipelined: true,
    maxQueueTime: timeout * latestStart,
    ...groupLimits,
  });

  return {
    dialect: 'postgres',
    get: (sql, params) => read(async (pool) => queries(pool, clock).get(sql, params)),
    all: (sql, params) => read(async (pool) => queries(pool, clock).all(sql, params)),
    run: (sql, params) => shortTransaction(async (tx) => tx.run(sql, params)),
    lookup: batched((sql, keys) =>
      read((pool) =>
        execute(pool, `${sql} and ${onPrimary}`, [pool.array(keys, 'BYTEA') as unknown as Value], clock),
      ),
    ),
    transaction: shortTransaction,
    defer: (write, row) => shortTransaction((tx) => write(tx, [row])),
    change: (work, entity) => bounded((_, isLate) => enqueue(work, entity, () => checkDeadline(isLate))),
    exclusively: (work, pace) => exclusive(work, timeouts.exclusive[pace ?? 'usual']),
    close,
  };
}

function connect(url: string, { call, lock }: Timeouts): SQL {
  return new SQL(url, {
    max: connections,
    connectionTimeout: Math.ceil(call / 1000),
    connection: {
      application_name: 'sallyport',
      statement_timeout: String(Math.max(call - serverMargin, 1)),
      lock_timeout: String(lock),
      idle_in_transaction_session_timeout: String(Math.round(call * 6.25)),
    },
  });
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
  return (await on.unsafe(text, values)) as Result<R>;
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

/** SQLSTATEs about the state of the server, not the statement. 42501 is a missing privilege. */
const serverState = /^(08|25|28|3D|40|42501|53|55|57|58|XX)/;

const foreignKeyViolation = '23503';
/** The server ended the connection: connection exceptions, and its own shutdown or crash. */
const connectionEnded = /^(08|57P0[123])/;

function isConnectionLost(error: unknown): boolean {
  if (!(error instanceof SQL.PostgresError)) return false;
  if (error.code === 'ERR_POSTGRES_SERVER_ERROR') return connectionEnded.test(String(error.errno));
  return error.code.startsWith('ERR_POSTGRES_CONNECTION') && !error.code.endsWith('TIMEOUT');
}

function mapDbError(error: unknown): unknown {
  if (!(error instanceof SQL.PostgresError)) return error;
  if (error.errno === foreignKeyViolation) return ownerDeleted(error);
  if (error.errno === divisionByZero) return new DbUnavailable('it is a standby, not the primary');
  const isAboutStatement =
    error.code === 'ERR_POSTGRES_SERVER_ERROR' && !serverState.test(String(error.errno));
  return isAboutStatement ? error : new DbUnavailable(error.message, { cause: error });
}
