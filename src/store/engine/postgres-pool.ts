/**
 * Finds a server that accepts writes and opens a connection pool to it.
 *
 * The timeouts are startup parameters of each connection. A pooler such as PgBouncer in transaction mode rejects or
 * ignores startup parameters. It may also run each transaction on another connection to the server, where statements
 * that were prepared before do not exist. With a pooler, every transaction sets the timeouts, and statements are not
 * prepared.
 */
import { readFileSync } from 'node:fs';
import { SQL } from 'bun';
import { DbUnavailable } from './db.ts';
import {
  isUnsupported,
  mapDriverError,
  NotWritable,
  noAnswer,
  rejectsStartupParameters,
  Unreachable,
} from './postgres-errors.ts';
import { passwordFromFile } from './postgres-password.ts';
import type { PostgresHost, PostgresTarget } from './postgres-url.ts';

/**
 * The store locks rows and then reads their newest version, for which this isolation level is enough. A stricter level
 * would only add conflicts. Databases that do not support this level use a stricter one, and conflicts are retried.
 */
const isolation = 'read committed';

export interface Pool {
  readonly sql: SQL;
  /** Statements to run at the beginning of every transaction. Undefined if the connections have these settings. */
  readonly transactionSettings: string | undefined;
  /** False if the database has none, or if the role may not use them. */
  readonly advisoryLocks: boolean;
}

export interface PoolOptions {
  readonly maxConnections: number;
  /** In milliseconds, for a connection and for its first answer. */
  readonly connectTimeout: number;
  /** Settings of every transaction, by name. */
  readonly settings: Readonly<Record<string, string>>;
}

export interface Pools {
  /** Undefined before the first connection and after a failure. */
  current(): Pool | undefined;
  /** Connects to the first host that accepts writes, or to the only host. Concurrent calls share one search. */
  find(): Promise<Pool>;
  /** Closes the pool after the statements in progress, for at most five seconds. */
  discard(pool: Pool): void;
  /** Discards the pool if the error means that another server or a new connection may work. */
  discardAfter(error: unknown, pool: Pool): void;
  close(): Promise<void>;
}

export function postgresPools(target: PostgresTarget, options: PoolOptions): Pools {
  const severalHosts = target.hosts.length > 1;
  let current: Pool | undefined;
  let search: Promise<Pool> | undefined;

  function find(): Promise<Pool> {
    search ??= findServer(target, options)
      .then((pool) => {
        current = pool;
        return pool;
      })
      .finally(() => {
        search = undefined;
      });
    return search;
  }

  function discard(pool: Pool): void {
    if (pool !== current) return;
    current = undefined;
    pool.sql.close({ timeout: 5 }).catch(() => {});
  }

  return {
    current: () => current,
    find,
    discard,
    discardAfter: (error, pool) => {
      const mayMove = severalHosts && error instanceof NotWritable;
      if (mayMove || error instanceof Unreachable) discard(pool);
    },
    close: async () => {
      await search?.catch(() => {});
      await current?.sql.close({ timeout: 5 });
    },
  };
}

/** With several hosts, takes the first that accepts writes. */
async function findServer(target: PostgresTarget, options: PoolOptions): Promise<Pool> {
  const problems: string[] = [];
  for (const host of target.hosts) {
    try {
      const { pool, readOnly } = await openPool(host, target, options);
      if (target.hosts.length === 1 || !readOnly) return pool;
      await pool.sql.close();
      problems.push(`${host.host} is read-only`);
    } catch (error) {
      if (target.hosts.length === 1 || !(error instanceof DbUnavailable)) throw error;
      problems.push(`${host.host}: ${error.message}`);
    }
  }
  throw new Unreachable(`no host accepts writes (${problems.join('; ')})`);
}

interface Opened {
  readonly pool: Pool;
  readonly readOnly: boolean;
}

async function openPool(host: PostgresHost, target: PostgresTarget, options: PoolOptions): Promise<Opened> {
  const startup = { default_transaction_isolation: isolation, ...options.settings };
  const direct = connect(host, target, options, startup);
  try {
    const { applied, readOnly, advisoryLocks } = await probe(direct, options, Object.keys(startup));
    if (applied) return { pool: { sql: direct, transactionSettings: undefined, advisoryLocks }, readOnly };
    await direct.close();
  } catch (error) {
    await direct.close({ timeout: 0 }).catch(() => {});
    if (!rejectsStartupParameters(error)) throw mapDriverError(error);
  }
  const pooled = connect(host, target, options, undefined);
  try {
    const { readOnly, advisoryLocks } = await probe(pooled, options, []);
    const local = Object.entries(options.settings).map(([name, value]) => `set local ${name} = ${value}`);
    const transactionSettings = [`set transaction isolation level ${isolation}`, ...local].join('; ');
    return { pool: { sql: pooled, transactionSettings, advisoryLocks }, readOnly };
  } catch (error) {
    await pooled.close({ timeout: 0 }).catch(() => {});
    throw mapDriverError(error);
  }
}

interface Probed {
  /** Whether the startup parameters have taken effect. */
  readonly applied: boolean;
  readonly readOnly: boolean;
  readonly advisoryLocks: boolean;
}

async function probe(
  sql: SQL,
  { connectTimeout }: PoolOptions,
  parameters: readonly string[],
): Promise<Probed> {
  const names = parameters.map((name) => `'${name}'`);
  const query = `select current_setting('transaction_read_only') = 'on' as "readOnly",
    (select count(*) from pg_settings
     where source = 'client' and name in (${names.join() || 'null'})) = ${names.length} as applied`;
  const timeout = Promise.withResolvers<never>();
  const timer = setTimeout(() => timeout.reject(new Unreachable(noAnswer)), connectTimeout);
  try {
    const [row] = await Promise.race([sql.unsafe(query), timeout.promise]);
    return { ...row, advisoryLocks: await Promise.race([hasAdvisoryLocks(sql), timeout.promise]) };
  } finally {
    clearTimeout(timer);
  }
}

/** Calls both functions that are used. The number is that of the server process, so no other connection waits for it. */
async function hasAdvisoryLocks(sql: SQL): Promise<boolean> {
  try {
    await sql.unsafe(
      'select pg_advisory_xact_lock(pg_backend_pid()), pg_try_advisory_xact_lock(pg_backend_pid())',
    );
    return true;
  } catch (error) {
    if (isUnsupported(error)) return false;
    throw error;
  }
}

/**
 * `settings` are startup parameters of each connection. Undefined for a pooler: then statements are not prepared
 * either.
 */
function connect(
  host: PostgresHost,
  target: PostgresTarget,
  { maxConnections, connectTimeout }: PoolOptions,
  settings: PoolOptions['settings'] | undefined,
): SQL {
  const { user, database, sslmode } = target;
  const isSocket = host.host.startsWith('/');
  const address = isSocket ? { path: host.host } : { hostname: host.host };
  return new SQL(`postgres://localhost/?sslmode=${isSocket ? 'disable' : sslmode}`, {
    ...address,
    port: host.port,
    username: user,
    password: target.password ?? passwordFromFile(host, target) ?? '',
    database,
    ...(!isSocket && tlsOptions(target)),
    max: maxConnections,
    connectionTimeout: Math.ceil(connectTimeout / 1000),
    prepare: settings !== undefined,
    connection: { application_name: 'sallyport', ...settings },
  });
}

function tlsOptions({ sslmode, sslrootcert, sslcert, sslkey }: PostgresTarget) {
  if (sslrootcert === undefined && sslcert === undefined) return {};
  return {
    tls: {
      rejectUnauthorized: sslmode.startsWith('verify-'),
      ...(sslrootcert !== undefined && { ca: readPem('sslrootcert', sslrootcert) }),
      ...(sslcert !== undefined && { cert: readPem('sslcert', sslcert) }),
      ...(sslkey !== undefined && { key: readPem('sslkey', sslkey) }),
    },
  };
}

function readPem(parameter: string, path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new DbUnavailable(`cannot read ${parameter} of DATABASE_URL: ${(error as Error).message}`);
  }
}
