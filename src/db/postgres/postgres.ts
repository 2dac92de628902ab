import type { SQL } from 'bun';
import type { Awaitable } from '../../domain/awaitable.ts';
import { anyPosition } from '../../domain/database-position.ts';
import { nilTenant } from '../../domain/key.ts';
import { batched, nameOf, type Wanted } from '../batcher.ts';
import { CitusWorkers, connectionsToWorker, type Shard } from '../citus-workers.ts';
import {
  type Db,
  type DbTime,
  DbUnavailable,
  defaultConnections,
  defaultTimeout,
  type Key,
  type Queries,
} from '../db.ts';
import { groupCommit } from '../group-commit.ts';
import { insertValues, rowsToJson } from '../sql.ts';
import { type Bound, boundOf, type Lookup, type Statement, type Value } from '../statement.ts';
import { isSettled, isWritable } from './postgres-checks.ts';
import {
  Conflict,
  isUndefinedTable,
  isUniqueViolation,
  isUnsupported,
  mapDriverError,
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
  const shardOf = (tenant: string | undefined, coordinator = pools.current()) =>
    tenant === undefined || tenant === nilTenant
      ? undefined
      : coordinator && workers.shardOf(tenant, coordinator);

  /** A lost worker is not replaced by the coordinator: its tenants would wait there, and others behind them. */
  async function onPool<T>(
    call: Call,
    tenant: string | undefined,
    work: (to: Destination) => Promise<T>,
  ): Promise<T> {
    const coordinator = pools.current() ?? (await pools.find());
    const shard = shardOf(tenant, coordinator);
    const owner = shard ? workers.poolsOf(shard) : pools;
    const pool = owner.current() ?? (await owner.find());
    call.used = { pool, answers: pool.answers };
    try {
      const value = await work({ pool, shard, tenant, clock });
      pool.answers++;
      return value;
    } catch (error) {
      if (error instanceof Unsettled) return onPool(call, undefined, work);
      owner.discardAfter(error, pool);
      throw error;
    }
  }

  function transaction<T>(work: Work<T>, call: Call, tenant?: string): Promise<T> {
    const attempt = () =>
      onPool(call, tenant, (to) => begin(to, (session) => withDeadline(work, call.isLate)(queries(session))));
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
          onPool(call, tenant, (to) =>
            to.pool.transactionSettings === undefined
              ? work({ on: to.pool.sql, ...to })
              : readThroughPooler(to, to.pool.transactionSettings, work),
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
    shardOf,
    workerProblems: workers.problems.bind(workers),
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
  const { pools, bounded, read, shardOf } = connections;
  const current = async () => pools.current() ?? (await pools.find());
  const exclusively = exclusiveWork(connections);
  const queueOf = queues(connections, timeout, maxConnections);
  const db: Db = {
    ...engine,
    writesTogether: false,
    of: (tenant) => ({ ...db, ...statementsOf(connections, tenant) }),
    isDistributed: async () => (await current()).citus,
    workerProblems: async () => connections.workerProblems(await current()),
    position: async () => {
      const pool = await current();
      return checkPosition(pool, target, positions).catch((error) => {
        pools.discardAfter(error, pool);
        throw error;
      });
    },
    ...statementsOf(connections, undefined),
    lookup: batched(
      (lookup, wanted) => read(wanted[0]?.tenant, (session) => findRows(session, lookup, wanted)),
      (tenant = '') => shardOf(tenant || undefined)?.id ?? (pools.current()?.citus ? tenant : ''),
    ),
    change: (work, entity, tenant) =>
      bounded((call) => queueOf(tenant)(work, entity, tenant, () => checkDeadline(call.isLate))),
    exclusively: (work, pace) =>
      exclusively(
        work,
        timeouts.exclusive[pace ? 'slow' : 'usual'],
        advisoryLocks[pace === 'moving' ? pace : 'usual'],
      ),
    close: connections.close,
  };
  return db;
}

type Connections = ReturnType<typeof connectionsTo>;

/** Statements about one tenant, or those that go to the coordinator of a cluster. */
function statementsOf({ read, shortTransaction }: Connections, of: string | undefined) {
  return {
    get: (statement) => read(of, async (session) => queries(session).get(statement)),
    all: (statement) => read(of, async (session) => queries(session).all(statement)),
    run: (statement) => shortTransaction(async (tx) => tx.run(statement), of),
    returning: (statement) => shortTransaction(async (tx) => tx.returning(statement), of),
    insert: (...inserted) => shortTransaction(async (tx) => tx.insert(...inserted), of),
    transaction: (work, tenant = of) => shortTransaction(work, tenant),
    defer: (write, row) => shortTransaction((tx) => write(tx, [row]), of),
  } satisfies Partial<Db>;
}

/** Queues of changes. By worker, so that changes on others do not wait for one that is slow or lost. */
function queues({ shortTransaction, shardOf }: Connections, timeout: number, maxConnections: number) {
  const queueFor = (connections: number) =>
    groupCommit({
      transaction: shortTransaction,
      maxTotal: Math.max(1, Math.round(connections * groupShare)),
      maxQueueTime: timeout * latestStart,
      ...grouping,
    });
  const queues = new Map([['', queueFor(maxConnections)]]);
  return (tenant: string | undefined) => {
    const shard = shardOf(tenant);
    const name = shard ? `${shard.host}:${shard.port}` : '';
    const queue = queues.get(name) ?? queueFor(connectionsToWorker(maxConnections));
    queues.set(name, queue);
    return queue;
  };
}

/**
 * Looks up one key after another in the unique index, and returns the row of each. A comparison with a list of keys would
 * be planned every time, and by the average tenant: PostgreSQL would read all rows of a large tenant. The length of a
 * list in a subquery is unknown to the planner, so the plan is cached.
 */
async function findRows(
  session: Session,
  lookup: Lookup<unknown>,
  wanted: readonly Wanted[],
): Promise<readonly unknown[]> {
  const { pool, shard } = session;
  if (pool.citus && !shard) return findOnCitus(session, lookup, wanted);
  const { type } = lookup;
  const { one, each } = shard ? lookup.inShard(shard.tables) : lookup;
  const check = `${shard ? `${isSettled(shard.id)} + ` : ''}${isWritable(pool.sameServer)}`;
  const [{ key, tenant }] = wanted as readonly [Wanted];
  const hasTenant = tenant !== undefined;
  if (wanted.length === 1)
    return execute(session, [`${one} and ${check} = 1`, hasTenant ? [key, tenant] : [key]]);
  const lists = `(select cast($1 as ${type}[]))${hasTenant ? ', (select cast($2 as uuid[]))' : ''}`;
  const inOrder = `select wanted.at, found.* from unnest(${lists}) with ordinality
    as wanted (key, ${hasTenant ? 'tenant, ' : ''}at), lateral (${each} offset 0) as found where ${check} = 1`;
  const tenants = hasTenant ? [listOf(pool, wanted, ({ tenant }) => tenant as string)] : [];
  const bound: Bound = [inOrder, [keysOf(pool, wanted), ...tenants]];
  const rows = await execute<{ at: DbTime | undefined }>(session, bound);
  const found: unknown[] = [];
  for (const row of rows) {
    found[Number(row.at) - 1] = row;
    // Not a column of the lookup, and different in the next query.
    row.at = undefined;
  }
  return found;
}

/**
 * Through the coordinator, with one query for each tenant. The worker evaluates the check, and was started at
 * another time. A coordinator is checked when it is connected.
 */
async function findOnCitus(
  session: Session,
  { one, some }: Lookup<unknown>,
  wanted: readonly Wanted[],
): Promise<readonly unknown[]> {
  const found = new Map<string, unknown>();
  const find = async ([tenant, group]: [string | undefined, Wanted[]]) => {
    const [first, ...others] = group as [Wanted, ...Wanted[]];
    const keys = others.length === 0 ? first.key : keysOf(session.pool, group);
    const sql = `${others.length === 0 ? one : some} and ${isWritable()} = 1`;
    const bound: Bound = [sql, tenant === undefined ? [keys] : [keys, tenant]];
    for (const row of await execute<{ key: Key }>(session, bound)) found.set(nameOf(row.key, tenant), row);
  };
  await Promise.all([...Map.groupBy(wanted, ({ tenant }) => tenant)].map(find));
  return wanted.map(({ name }) => found.get(name));
}

function keysOf(pool: Pool, wanted: readonly Wanted[]): Value {
  return listOf(pool, wanted, ({ key }) => key);
}

function listOf({ sql }: Pool, wanted: readonly Wanted[], part: (one: Wanted) => Key): Value {
  const values = wanted.map(part);
  return sql.array(values, typeof values[0] === 'string' ? 'TEXT' : 'BYTEA') as unknown as Value;
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

/** Where statements are sent. */
interface Destination {
  readonly pool: Pool;
  readonly tenant: string | undefined;
  /** Of the tenant, if the pool is that of a worker. */
  readonly shard: Shard | undefined;
  readonly clock: (() => number) | undefined;
}

/** A pool, or a connection of it with an open transaction. */
interface Session extends Destination {
  readonly on: Runner;
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
async function begin<T>(to: Destination, work: (session: Session) => Awaitable<T>): Promise<T> {
  const { pool, shard } = to;
  let failed: { error: unknown } | undefined;
  try {
    return (await pool.sql.begin(async (tx) => {
      if (pool.transactionSettings !== undefined) await tx.unsafe(pool.transactionSettings);
      // Sent together with the first statement of the work. With a parameter, the driver prepares it.
      const check = `select cast($1 as text), ${pool.sameServer}${shard ? `, ${isSettled(shard.id)}` : ''}`;
      const checked = tx.unsafe(check, ['']).execute();
      try {
        const value = await work({ on: tx, ...to });
        await checked;
        return value;
      } catch (error) {
        const moved = await checked.then(
          () => undefined,
          (error) => mapErrorIn(to, error),
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
  to: Destination,
  settings: string,
  work: (session: Session) => Promise<T>,
): Promise<T> {
  const { pool } = to;
  const connection = await pool.sql.reserve().catch(rethrow);
  const release = () => connection.release();
  try {
    const check = pool.citus ? isWritable(pool.sameServer) : pool.sameServer;
    await connection.unsafe(`begin; ${settings}; select ${check}`).catch(rethrow);
    return await work({ on: connection, ...to });
  } finally {
    connection.unsafe('commit').then(release, release);
  }
}

/** A worker has no tables that are not distributed, and may not have a shard any more. */
function mapErrorIn({ shard }: Destination, error: unknown): unknown {
  const isMissing = shard && (isUnsupported(error) || isUndefinedTable(error));
  return isMissing ? new Unsettled((error as Error).message, { cause: error }) : mapDriverError(error);
}

function rethrow(error: unknown): never {
  throw mapDriverError(error);
}

const engine = { dialect: 'postgres', isEmbedded: false } as const;

function queries(session: Session): Queries {
  const { citus } = session.pool;
  const all = <R>(statement: Statement) => execute<R>(session, statement);
  return {
    ...engine,
    writesTogether: !citus,
    get: async <R>(statement: Statement) => (await all<R>(statement))[0],
    all,
    run: async (statement) => (await all(statement)).count,
    returning: all,
    insert: async (target, rows, onlyIf) => {
      if (citus) {
        const inserting = insertValues(target, rows).map((bound) => all(bound));
        // In the order in which they are sent: if the first one fails, the others say only that the transaction failed.
        const found = onlyIf && all(onlyIf);
        const results = await Promise.all([...inserting, ...(found ? [found] : [])]);
        if (found && results.pop()?.count === 0) return 0;
        return results.reduce((sum, { count }) => sum + count, 0);
      }
      if (rows.length === 0) return 0;
      const [sql = '', params = []] = onlyIf ?? [];
      const text = target.fromJson(`$${params.length + 1}`, onlyIf && `where exists (${sql})`);
      return (await all([text, [...params, rowsToJson(rows)]])).count;
    },
    lookup: batched(
      (lookup, wanted) => {
        const isOwn = wanted[0]?.tenant === session.tenant;
        return findRows(isOwn ? session : { ...session, shard: undefined }, lookup, wanted);
      },
      (tenant = '') => tenant,
    ),
  };
}

async function execute<R>(session: Session, statement: Statement): Promise<Result<R>> {
  const [sql, params] = boundOf(statement);
  const { on, pool, clock } = session;
  const now = clock === undefined ? databaseClock : `($${params.length + 1}::bigint)`;
  const text = sql.replaceAll(':now', now);
  const values = clock !== undefined && text.includes(now) ? [...params, clock()] : [...params];
  try {
    return (await on.unsafe(text, values)) as Result<R>;
  } catch (error) {
    // On Citus, an advisory lock of a worker does not exclude transactions that go through the coordinator.
    const isConflict = pool.citus && /"idempotency_/.test(String(error)) && isUniqueViolation(error);
    const mapped = isConflict
      ? new Conflict((error as Error).message, { cause: error })
      : mapErrorIn(session, error);
    if ((mapped instanceof Conflict || mapped instanceof Unsettled) && !conflicts.has(on))
      conflicts.set(on, mapped);
    throw mapped;
  }
}
