import { SQL } from 'bun';
import { batched } from './batch.ts';
import { type Db, DbUnavailable, type Queries, type Value } from './db.ts';

/** Milliseconds after which a caller is told that the database is out of reach. */
const patience = 900;
const connections = 10;
const databaseClock = '(floor(extract(epoch from clock_timestamp()) * 1000)::bigint)';
/** The advisory lock of what must happen once: migrations and the first tenant. */
const onceLock = 7_255_901_877;

type Runner = Pick<SQL, 'unsafe'>;
type Result<R> = R[] & { count: number };

/** `clock` stands in for the database's own clock in tests. */
export function openPostgres(url: string, clock?: () => number): Db {
  let pool = connect(url);

  /**
   * Never waits longer than `patience`. A pool that does not answer is replaced whole, since its connections
   * may hang for as long as the network swallows what they send; what is under way there may still finish.
   */
  async function bounded<T>(work: (pool: SQL) => Promise<T>): Promise<T> {
    const mine = pool;
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(() => late.reject(new DbUnavailable('the database does not answer')), patience);
    try {
      return await Promise.race([work(mine), late.promise]);
    } catch (error) {
      if (error instanceof DbUnavailable && mine === pool) {
        pool = connect(url);
        mine.close({ timeout: 5 }).catch(() => {});
      }
      throw unavailable(error);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Reading twice does no harm, so a connection that turns out to be cut is worth a second try. */
  async function read<T>(work: (pool: SQL) => Promise<T>): Promise<T> {
    try {
      return await bounded(work);
    } catch (error) {
      if (!(error instanceof DbUnavailable) || error.cause === undefined) throw error;
      return await bounded(work);
    }
  }

  const transaction = <T>(pool: SQL, work: (tx: Queries) => Promise<T>) =>
    pool.begin((tx) => work(queries(tx, clock))) as Promise<T>;

  return {
    dialect: 'postgres',
    get: (sql, params) => read(async (pool) => queries(pool, clock).get(sql, params)),
    all: (sql, params) => read(async (pool) => queries(pool, clock).all(sql, params)),
    run: (sql, params) => bounded(async (pool) => queries(pool, clock).run(sql, params)),
    lookup: batched((sql, keys) =>
      read((pool) => execute(pool, sql, [pool.array(keys, 'BYTEA') as unknown as Value], clock)),
    ),
    transaction: (work) => bounded((pool) => transaction(pool, work)),
    exclusively: async (work) => {
      try {
        return await transaction(pool, async (tx) => {
          await tx.get(`select pg_advisory_xact_lock(${onceLock})`);
          return work(tx);
        });
      } catch (error) {
        throw unavailable(error);
      }
    },
    close: () => pool.close({ timeout: 5 }),
  };
}

function connect(url: string): SQL {
  return new SQL(url, {
    max: connections,
    connectionTimeout: 1,
    connection: { application_name: 'sallyport' },
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
  const withClock = clock !== undefined && /:now\b/.test(sql);
  const now = withClock ? `($${params.length + 1}::bigint)` : databaseClock;
  const text = sql.replace(/:now\b/g, now).replace(/:key\b/g, 'any($1)');
  return (await on.unsafe(text, withClock ? [...params, clock()] : [...params])) as Result<R>;
}

/** Classes of SQLSTATE that speak of the server's state and not of the statement. */
const serverState = /^(08|25|28|3D|40|53|55|57|58|XX)/;

function unavailable(error: unknown): unknown {
  if (!(error instanceof SQL.PostgresError)) return error;
  const speaksOfStatement =
    error.code === 'ERR_POSTGRES_SERVER_ERROR' && !serverState.test(String(error.errno));
  return speaksOfStatement ? error : new DbUnavailable(error.message, { cause: error });
}
