import type { SQL } from 'bun';
import type { Awaitable } from '../../domain/awaitable.ts';
import { anyPosition } from '../../domain/database-position.ts';
import { nilTenant } from '../../domain/key.ts';
import { batched, nameOf, type Wanted } from '../batcher.ts';
import { settled } from '../citus.ts';
import { CitusWorkers, connectionsToWorker } from '../citus-workers.ts';
import {
  type Db,
  type DbTime,
  DbUnavailable,
  defaultConnections,
  defaultTimeout,
  type Key,
  type Queries,
  type Value,
} from '../db.ts';
import { groupCommit } from '../group-commit.ts';
import { alternatives, rowLookups, type Statement } from '../sql.ts';
import {
  Conflict,
  isUndefinedTable,
  isUniqueViolation,
  isUnsupported,
  lacksPrivilege,
  mapDriverError,
  NotWritable,
  Unreachable,
  Unsettled,
  WorkerUnreachable,
} from './postgres-errors.ts';
import { advisoryLocks, exclusiveWork } from './postgres-exclusive.ts';
import { checkPosition, type Pool, type PoolOptions, postgresPools } from './postgres-pool.ts';
import { afterConflict, type Call, deadlines, type Late } from './postgres-retry.ts';
import { type PostgresTarget, parsePostgresUrl } from './postgres-url.ts';

/**
 * In milliseconds. `call` is the timeout of one read or transaction, retries included. All others but `slow` are
 * computed from it.
 */
function timeoutsOf(call: number) {
  return {
    call,
    /**
     * The server's timeout of a statement. Shorter than `call`, so that the server ends a statement before we give up.
     */
    statement: Math.max(call - 100, 1),
    /** For a lock that another transaction holds. */
    lock: Math.round(call * 0.3125),
    idleInTransaction: Math.round(call * 6.25),
    /** For `Db.exclusively`. `slow` is for statements that read whole tables. */
    exclusive: { usual: call * 6.25, slow: 3_600_000 },
  };
}

type Timeouts = ReturnType<typeof timeoutsOf>;

/**
 * SQL that is 1, and fails on a standby, on an old primary that was made read-only after a failover, and with
 * `sameServer` on a server that was not checked: they may not know that a key was revoked. Evaluated once per query.
 */
const isWritable = (sameServer = '1') =>
  `${sameServer} / case when current_setting('transaction_read_only') = 'on' then 0 else 1 end`;

/** See `Executor.lookup`. */
const keyMarker = /:(key|uuid)\b/g;

/** How many changes share a transaction, and how many such transactions of a tenant run at a time. */
const grouping = { maxBatch: 32, maxInFlight: 4, pipelined: true, perTenant: true };
/** The fraction of the connections to a server that such transactions of all tenants use. The rest is for reads. */
const groupShare = 0.6;
/** The fraction of the timeout after which a queued change is not started. */
const latestStart = 0.625;

type Work<T> = (tx: Queries) => Awaitable<T>;

/** Milliseconds before a read is sent again after its connection was lost. */
const pause = 10;

/**
 * The server's default is 4, which suits hard disks. With it, joins read whole tables of some thousand rows: with 5,000
 * applications and sessions, `GET /access/who` takes 1.7 times as long.
 */
const randomPageCost = '1.1';

/** Settings of every transaction. */
function settingsOf({ statement, lock, idleInTransaction }: Timeouts, { schema }: PostgresTarget) {
  return {
    statement_timeout: String(statement),
    lock_timeout: String(lock),
    idle_in_transaction_session_timeout: String(idleInTransaction),
    random_page_cost: randomPageCost,
    ...(schema !== undefined && { search_path: `"${schema}"` }),
  };
}

/** The parameter with the tenant of a statement about one tenant. */
const tenantParameter = /\btenant_id = \$(\d+)/;

function tenantOf(sql: string, params: readonly Value[] = []): string | undefined {
  const found = tenantParameter.exec(sql);
  const tenant = found ? params[Number(found[1]) - 1] : undefined;
  return typeof tenant === 'string' ? tenant : undefined;
}

/** Runs reads and transactions on the server, or on the worker of a Citus cluster with the rows of the tenant. */
function connectionsTo(
  target: PostgresTarget,
  options: PoolOptions,
  timeouts: Timeouts,
  clock: (() => number) | undefined,
) {
  const pools = postgresPools(target, options);
  const workers = new CitusWorkers(target, options);
  const { bounded, boundedBy } = deadlines((pool) => {
    pools.discard(pool);
    workers.discard(pool);
  }, timeouts.call);

  /** Uses the worker with the rows of the tenant, if there is one. */
  async function onPool<T>(
    call: Call,
    tenant: string | undefined,
    work: (pool: Pool) => Promise<T>,
  ): Promise<T> {
    const coordinator = pools.current() ?? (await pools.find());
    const found = tenant === undefined ? undefined : workers.poolOf(tenant, coordinator);
    const pool = found === 'lost' ? await workers.detour() : (found ?? coordinator);
    // A detour hangs because of the worker, not because of its connections.
    if (found !== 'lost') call.used = { pool, answers: pool.answers };
    try {
      const value = await work(pool);
      pool.answers++;
      return value;
    } catch (error) {
      if (error instanceof Unsettled) return onPool(call, undefined, work);
      pools.discardAfter(error, pool);
      // The tenant may be on another worker now.
      if (error instanceof Unreachable || error instanceof NotWritable) workers.discard(pool);
      throw error;
    }
  }

  function transaction<T>(work: Work<T>, call: Call, tenant?: string): Promise<T> {
    const attempt = () =>
      onPool(call, tenant, (pool) =>
        begin(pool, clock, (session) => withDeadline(work, call.isLate)(queries(session))),
      );
    return attempt().catch((error) => afterConflict(error, call.isLate, attempt));
  }

  return {
    pools,
    bounded,
    boundedBy,
    transaction,
    shortTransaction: <T>(work: Work<T>, tenant?: string) =>
      bounded((call) => transaction(work, call, tenant)),
    /**
     * Runs a read. Repeats it once if the connection was lost, and after every conflict, within the same timeout. A
     * read that was too slow is not repeated, because it would probably be too slow again.
     */
    read: <T>(tenant: string | undefined, work: (on: Session) => Promise<T>) =>
      bounded(async (call) => {
        const attempt = () =>
          onPool(call, tenant, (pool) =>
            pool.transactionSettings === undefined
              ? work({ on: pool.sql, pool, clock })
              : readThroughPooler(pool, pool.transactionSettings, clock, work),
          );
        try {
          return await attempt();
        } catch (error) {
          const isLost = error instanceof Unreachable || error instanceof WorkerUnreachable;
          if (!isLost) return afterConflict(error, call.isLate, attempt);
          await Bun.sleep(pause);
          if (call.isLate()) throw error;
          return attempt();
        }
      }),
    poolOf: (tenant: string) => {
      const pool = pools.current();
      return pool?.citus ? workers.poolOf(tenant, pool) : pool;
    },
    workerProblems: async () => workers.problems(pools.current() ?? (await pools.find())),
    close: async () => {
      await workers.close();
      await pools.close();
    },
  };
}

/**
 * Connects when the first statement is sent. Throws if the URL is invalid. `clock` replaces the database's own clock in
 * tests. `timeout` is the timeout of one read or transaction, in milliseconds.
 */
export function openPostgres(
  url: string,
  clock?: () => number,
  timeout = defaultTimeout,
  maxConnections = defaultConnections,
  positions = anyPosition,
): Db {
  const timeouts = timeoutsOf(timeout);
  const target = parsePostgresUrl(url);
  const settings = settingsOf(timeouts, target);
  const options = { maxConnections, connectTimeout: timeout, settings, positions };
  const connections = connectionsTo(target, options, timeouts, clock);
  const { pools, bounded, read, shortTransaction, poolOf, workerProblems, close } = connections;
  const current = async () => pools.current() ?? (await pools.find());
  const exclusively = exclusiveWork(connections);
  const queueFor = (connections: number) =>
    groupCommit({
      transaction: (work, tenant) => shortTransaction(work, tenant === nilTenant ? undefined : tenant),
      maxTotal: Math.max(1, Math.round(connections * groupShare)),
      maxQueueTime: timeout * latestStart,
      ...grouping,
    });
  /** By worker, so that changes on others do not wait for one that is slow or lost. */
  const queues = new Map([['', queueFor(maxConnections)]]);
  const queueOf = (tenant = nilTenant) => {
    const found = tenant === nilTenant ? undefined : poolOf(tenant);
    const name = found === 'lost' ? found : found?.isWorker ? found.host : '';
    const queue = queues.get(name) ?? queueFor(connectionsToWorker(maxConnections));
    queues.set(name, queue);
    return queue;
  };
  /** Lookups of several tenants can share a query if it goes to one server. */
  const groupOf = (sql: string, params: readonly string[]) => {
    const found = rowLookups.has(sql) && params[0] ? poolOf(params[0]) : undefined;
    return found === undefined || found === 'lost' ? params.join() : found.host;
  };

  return {
    dialect: 'postgres',
    isDistributed: async () => (await current()).citus,
    workerProblems,
    position: async () => {
      const pool = await current();
      return checkPosition(pool, target, positions).catch((error) => {
        pools.discardAfter(error, pool);
        throw error;
      });
    },
    get: (sql, params) => read(tenantOf(sql, params), async (session) => queries(session).get(sql, params)),
    all: (sql, params) => read(tenantOf(sql, params), async (session) => queries(session).all(sql, params)),
    run: (sql, params) => shortTransaction(async (tx) => tx.run(sql, params), tenantOf(sql, params)),
    lookup: batched(
      (sql, wanted) => read(wanted[0]?.params[0], (session) => findRows(session, sql, wanted)),
      groupOf,
    ),
    transaction: shortTransaction,
    defer: (write, row) => shortTransaction((tx) => write(tx, [row])),
    change: (work, entity, tenant) =>
      bounded((call) => queueOf(tenant)(work, entity, tenant, () => checkDeadline(call.isLate))),
    exclusively: (work, pace) =>
      exclusively(
        work,
        timeouts.exclusive[pace ? 'slow' : 'usual'],
        advisoryLocks[pace === 'moving' ? pace : 'usual'],
      ),
    close,
  };
}

/**
 * Looks up one key after another in the unique index, and returns the row of each. A comparison with a list of keys would
 * be planned every time, and by the average tenant: PostgreSQL would read all rows of a large tenant. The length of a
 * list in a subquery is unknown to the planner, so the plan is cached.
 */
async function findRows(
  session: Session,
  sql: string,
  wanted: readonly Wanted[],
): Promise<readonly unknown[]> {
  const { pool } = session;
  const ofRows = pool.isWorker ? rowLookups.get(sql) : undefined;
  if (pool.citus && !ofRows) return findOnCitus(session, sql, wanted);
  const check = `${isWritable(pool.sameServer)} = 1`;
  const [{ key, params }] = wanted as readonly [Wanted];
  if (wanted.length === 1 && !ofRows)
    return execute(session, `${withKey(sql, '$1')} and ${check}`, [key, ...params]);
  const hasTenant = params.length > 0;
  const type = sql.includes(':uuid') ? 'uuid' : typeof key === 'string' ? 'text' : 'bytea';
  const lists = `(select cast($1 as ${type}[]))${hasTenant ? ', (select cast($2 as uuid[]))' : ''}`;
  const each = withKey(sql, 'wanted.key').replaceAll('$2', 'wanted.tenant');
  const inOrder = `select wanted.at, found.* from unnest(${lists}) with ordinality
    as wanted (key, ${hasTenant ? 'tenant, ' : ''}at), lateral (${each} offset 0) as found where true`;
  const rows = await execute<{ at: DbTime | undefined }>(session, `${ofRows ?? inOrder} and ${check}`, [
    keyList(pool, wanted),
    ...(hasTenant ? [tenantList(pool, wanted)] : []),
  ]);
  const found: unknown[] = [];
  for (const row of rows) {
    found[Number(row.at) - 1] = row;
    // Not a column of the lookup, and different in the next query.
    row.at = undefined;
  }
  return found;
}

/**
 * Through the coordinator, with one query for each tenant. A worker evaluates the check, and was started at another time.
 * A coordinator is checked when it is connected.
 */
async function findOnCitus(
  session: Session,
  sql: string,
  wanted: readonly Wanted[],
): Promise<readonly unknown[]> {
  const found = new Map<string, unknown>();
  const name = (key: Key, params: readonly string[]) => `${nameOf(key)} ${params}`;
  const find = async (some: readonly Wanted[]) => {
    const { key, params } = some[0] as Wanted;
    const text = `${withKey(sql, some.length === 1 ? '$1' : 'any($1)')} and ${isWritable()} = 1`;
    const keys = some.length === 1 ? key : keyList(session.pool, some);
    for (const row of await execute<{ key: Key }>(session, text, [keys, ...params]))
      found.set(name(row.key, params), row);
  };
  await Promise.all(
    Map.groupBy(wanted, ({ params }) => params.join())
      .values()
      .map(find),
  );
  return wanted.map(({ key, params }) => found.get(name(key, params)));
}

function withKey(sql: string, key: string): string {
  return sql.replace(keyMarker, () => key);
}

function keyList({ sql }: Pool, wanted: readonly Wanted[]): Value {
  const keys = wanted.map(({ key }) => key);
  return sql.array(keys, typeof keys[0] === 'string' ? 'TEXT' : 'BYTEA') as unknown as Value;
}

function tenantList({ sql }: Pool, wanted: readonly Wanted[]): Value {
  return sql.array(
    wanted.map(({ params }) => params[0]),
    'TEXT',
  ) as unknown as Value;
}

/**
 * Checks the deadline before and after the work, because a statement may wait longer for a connection than its caller
 * waits for the result.
 */
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

type Runner = Pick<SQL, 'unsafe'>;
type Result<R> = R[] & { count: number };

/** A pool, or a connection of it with an open transaction. */
interface Session {
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
const conflicts = new WeakMap<Runner, Conflict | Unsettled>();

/**
 * Runs work in a transaction with the settings of the pool, on the server that was checked. Throws `Conflict` if a statement or the commit conflicted
 * with another transaction.
 */
async function begin<T>(
  pool: Pool,
  clock: Session['clock'],
  work: (session: Session) => Awaitable<T>,
): Promise<T> {
  let failed: { error: unknown } | undefined;
  try {
    return (await pool.sql.begin(async (tx) => {
      if (pool.transactionSettings !== undefined) await tx.unsafe(pool.transactionSettings);
      // Sent together with the first statement of the work. With a parameter, the driver prepares it.
      const check = `select cast($1 as text), ${pool.sameServer}${pool.isWorker ? `, ${settled}` : ''}`;
      const checked = tx.unsafe(check, ['']).execute();
      try {
        const value = await work({ on: tx, pool, clock });
        await checked;
        return value;
      } catch (error) {
        const moved = await checked.then(
          () => undefined,
          (error) => mapWorkerError(pool, error),
        );
        failed = { error: moved ?? conflicts.get(tx) ?? error };
        throw error;
      }
    })) as T;
  } catch (error) {
    throw failed ? failed.error : mapDriverError(error);
  }
}

/**
 * Runs a read in a transaction with the settings. Takes two round trips: the settings and the check of the server are one
 * message, and the result does not wait for the commit, because a read changes nothing.
 */
async function readThroughPooler<T>(
  pool: Pool,
  settings: string,
  clock: Session['clock'],
  work: (session: Session) => Promise<T>,
): Promise<T> {
  const connection = await pool.sql.reserve().catch(rethrow);
  const release = () => connection.release();
  try {
    const check = pool.citus ? isWritable(pool.sameServer) : pool.sameServer;
    await connection.unsafe(`begin; ${settings}; select ${check}`).catch(rethrow);
    return await work({ on: connection, pool, clock });
  } finally {
    connection.unsafe('commit').then(release, release);
  }
}

/**
 * The coordinator is used for what a worker cannot do. It has no tables that are not distributed, the functions of
 * citus.ts may be missing, for example after the number of shards was changed, and the role may not be allowed to call
 * them.
 */
function mapWorkerError({ isWorker }: Pool, error: unknown): unknown {
  const mapped = mapDriverError(error);
  const isMissing = isWorker && (isUnsupported(error) || isUndefinedTable(error) || lacksPrivilege(mapped));
  return isMissing ? new Unsettled((error as Error).message, { cause: error }) : mapped;
}

function rethrow(error: unknown): never {
  throw mapDriverError(error);
}

function queries(session: Session): Queries {
  return {
    get: async <R>(sql: string, params: readonly Value[] = []) => (await execute<R>(session, sql, params))[0],
    all: (sql, params = []) => execute(session, sql, params),
    run: async (sql, params = []) => (await execute(session, sql, params)).count,
    lookup: batched((sql, wanted) => findRows(session, sql, wanted)),
  };
}

async function execute<R>(session: Session, sql: string, params: readonly Value[]): Promise<Result<R>> {
  const { on, pool, clock } = session;
  const [first, ...others] = (pool.citus && alternatives.get(sql)?.(params)) || [];
  if (first) {
    const send = <T>({ sql, params }: Statement) => execute<T>(session, sql, params);
    const { now = [], later = [] } = Object.groupBy(others, ({ atOnce }) => (atOnce ? 'now' : 'later'));
    const [result] = await Promise.all([send<R>(first), ...now.map(send)]);
    if (result.count > 0) await Promise.all(later.map(send));
    return result;
  }
  const now = clock === undefined ? databaseClock : `($${params.length + 1}::bigint)`;
  const text = sql.replace(/:now\b/g, now);
  const values = clock !== undefined && text.includes(now) ? [...params, clock()] : [...params];
  try {
    return (await on.unsafe(text, values)) as Result<R>;
  } catch (error) {
    // On Citus, an advisory lock of a worker does not exclude transactions that go through the coordinator.
    const isConflict = pool.citus && /"idempotency_/.test(String(error)) && isUniqueViolation(error);
    const mapped = isConflict
      ? new Conflict((error as Error).message, { cause: error })
      : mapWorkerError(pool, error);
    if ((mapped instanceof Conflict || mapped instanceof Unsettled) && !conflicts.has(on))
      conflicts.set(on, mapped);
    throw mapped;
  }
}
