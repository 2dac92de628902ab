/**
 * Finds a server that accepts writes and opens a connection pool to it.
 *
 * The timeouts are startup parameters of each connection. A pooler such as PgBouncer in transaction mode rejects or
 * ignores startup parameters. It may also run each transaction on another connection to the server, where statements
 * that were prepared before do not exist. With a pooler, every transaction sets the timeouts, and statements are not
 * prepared.
 */
import { readFileSync, statSync } from 'node:fs';
import { SQL } from 'bun';
import {
  describePosition,
  isCopy,
  type KnownPositions,
  newerThan,
  type Position,
  type ServerPosition,
} from '../../domain/database-position.ts';
import { DbUnavailable } from '../db.ts';
import { isServer } from './postgres-checks.ts';
import {
  isUndefinedTable,
  isUnsupported,
  mapDriverError,
  NotWritable,
  noAnswer,
  rejectsStartupParameters,
  Unreachable,
} from './postgres-errors.ts';
import type { PostgresHost, PostgresTarget } from './postgres-url.ts';

/**
 * The store locks rows and then reads their newest version, for which this isolation level is enough. A stricter level
 * would only add conflicts.
 */
const isolation = 'read committed';

export interface Pool {
  readonly sql: SQL;
  /** Statements to run at the beginning of every transaction. Undefined if the connections have these settings. */
  readonly transactionSettings: string | undefined;
  readonly host: string;
  /** SQL that fails unless a connection leads to the server that was checked. */
  readonly sameServer: string;
  /** Whether the server belongs to a Citus cluster. */
  readonly citus: boolean;
  /** The number of reads and transactions that succeeded. */
  answers: number;
}

export interface PoolOptions {
  readonly maxConnections: number;
  /** In milliseconds, for a connection and for its first answer. */
  readonly connectTimeout: number;
  /** Settings of every transaction, by name. */
  readonly settings: Readonly<Record<string, string>>;
  readonly positions: KnownPositions;
}

export interface Pools {
  /** Undefined before the first connection and after a failure. */
  current(): Pool | undefined;
  /**
   * Connects to the host that accepts writes, or to the only host. Throws `Unreachable` if it is behind, or if several
   * accept writes. Concurrent calls share one search.
   */
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

const copied = 'has a restored or copied database. Revoked keys may be valid in it: run `sallyport recover`';
/** Nodes whose positions are read before a server is used. */
const maxAskedNodes = 20;

/** The timeline is the first part of the names of WAL files. A standby has none. */
const timeline =
  'case when not pg_is_in_recovery() then substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) end';

/** The server and the database. A standby that is promoted has the same; a restored dump has another. */
const here = `(select system_identifier from pg_control_system()) || '/' ||
  (select oid from pg_database where datname = current_database())`;

/** Undefined if the database has no schema yet. */
async function readPosition(sql: SQL, schema: string | undefined): Promise<ServerPosition | undefined> {
  const read = (selected: string) =>
    sql.unsafe(
      `select installation, era, beat, home, ${selected}
       from ${schema === undefined ? '' : `"${schema}".`}heartbeat`,
    );
  try {
    const [row] = await read(`${timeline} as timeline, ${here} as here`).catch((error) => {
      if (!isUnsupported(error)) throw error;
      return read('null as timeline, null as here');
    });
    if (!row) return undefined;
    const { installation, era, home, here: server } = row;
    const [beat, number] = [Number(row.beat), Number.parseInt(row.timeline ?? '0', 16)];
    return { installation, era, timeline: number, beat, home: home ?? undefined, here: server ?? undefined };
  } catch (error) {
    if (isUndefinedTable(error)) return undefined;
    throw error;
  }
}

/** Throws `Unreachable`, so that the node looks for another server, if this one is behind. */
export async function checkPosition(
  { sql, host }: Pool,
  { schema }: PostgresTarget,
  positions: KnownPositions,
): Promise<ServerPosition | undefined> {
  const seen = await positions.newest();
  const found = await readPosition(sql, schema).catch((error) => {
    throw mapDriverError(error);
  });
  const newer = found && newerThan(found, seen);
  if (newer) throw new Unreachable(`${host} is behind: ${describePosition(newer)} was seen`);
  if (found && isCopy(found) && !positions.acceptsCopies) throw new Unreachable(`${host} ${copied}`);
  if (found) positions.saw(found, host);
  return found;
}

async function findServer(target: PostgresTarget, options: PoolOptions): Promise<Pool> {
  const { hosts } = target;
  const seen = await options.positions.newest();
  const tried = await Promise.allSettled(hosts.map((host) => openServer(host, target, options, seen)));
  const opened = tried.filter((each) => each.status === 'fulfilled').map(({ value }) => value);
  const usable = opened.filter(({ problem }) => problem === undefined);
  const [chosen] = usable;
  for (const { pool } of opened) if (pool !== chosen?.pool) pool.sql.close({ timeout: 0 }).catch(() => {});
  if (chosen && usable.every(({ pool }) => pool.sameServer === chosen.pool.sameServer)) {
    if (chosen.position) options.positions.saw(chosen.position, chosen.pool.host);
    return chosen.pool;
  }
  chosen?.pool.sql.close({ timeout: 0 }).catch(() => {});
  if (chosen) {
    const names = usable.map(({ pool }) => pool.host).join(' and ');
    throw new Unreachable(`${names} both accept writes: stop the server that is not the primary`);
  }
  const failed = tried.filter((each) => each.status === 'rejected').map(({ reason }) => reason);
  const unexpected = failed.find((error) => hosts.length === 1 || !(error instanceof DbUnavailable));
  if (unexpected) throw unexpected;
  const problems = [...opened.map(({ problem }) => problem), ...failed.map(({ message }) => message)];
  throw new Unreachable(
    hosts.length === 1 ? problems.join() : `no host accepts writes (${problems.join('; ')})`,
  );
}

interface OpenedServer {
  readonly pool: Pool;
  readonly position: ServerPosition | undefined;
  /** Why the server cannot be used. */
  readonly problem: string | undefined;
}

/** The messages of errors begin with the host if there are several. */
async function openServer(
  host: PostgresHost,
  target: PostgresTarget,
  options: PoolOptions,
  seen: readonly Position[],
): Promise<OpenedServer> {
  const name = nameOf(host);
  try {
    const { pool, readOnly, ...opened } = await openPool(host, target, options);
    let { position } = opened;
    // The nodes that this database knows may have seen a newer server. Their answers must be older than its position.
    const others = opened.nodes.length > 0 ? await options.positions.ask(opened.nodes) : [];
    if (others.length > 0) position = await readPosition(pool.sql, target.schema);
    const newer = position && newerThan(position, [...seen, ...others]);
    // A standby has no timeline, so it is always older.
    if (readOnly && (newer || target.hosts.length > 1))
      return { pool, position, problem: `${name} is read-only` };
    if (position && isCopy(position) && !options.positions.acceptsCopies)
      return {
        pool,
        position,
        problem: `${name} ${copied}`,
      };
    if (!position || !newer) return { pool, position, problem: undefined };
    const problem = `${name} is behind: it has ${describePosition(position)}, but ${describePosition(newer)} was seen. If no server has these changes, accept the loss with \`sallyport recover\``;
    return { pool, position, problem };
  } catch (error) {
    if (target.hosts.length > 1 && error instanceof DbUnavailable)
      error.message = `${name}: ${error.message}`;
    throw error;
  }
}

function nameOf({ host, port }: PostgresHost): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}

interface Opened extends Pick<Probed, 'readOnly' | 'position' | 'nodes'> {
  readonly pool: Pool;
}

/**
 * A standby refuses connections with this startup parameter. For the coordinator of a Citus cluster, whose workers
 * evaluate the condition of a lookup: a standby may not know that a tenant was moved to another worker.
 */
const refusedByStandbys = { transaction_read_only: 'off' };

async function openPool(host: PostgresHost, target: PostgresTarget, options: PoolOptions): Promise<Opened> {
  const startup = { default_transaction_isolation: isolation, ...options.settings };
  // A single connection until the server has answered: during an outage, every search would open many.
  const single = { ...options, maxConnections: 1 };
  const direct = connect(host, target, single, startup);
  const toOpened = (sql: SQL, transactionSettings: string | undefined, probed: Probed): Opened => {
    const { readOnly, position, nodes, server, citus } = probed;
    const pool = {
      sql,
      transactionSettings,
      host: nameOf(host),
      sameServer: isServer(server),
      citus,
      answers: 0,
    };
    return { pool, readOnly, position, nodes };
  };
  try {
    const probed = await probe(direct, target, options, Object.keys(startup));
    await direct.close();
    const all = { ...startup, ...(probed.citus && refusedByStandbys) };
    if (probed.applied) return toOpened(connect(host, target, options, all), undefined, probed);
  } catch (error) {
    await direct.close({ timeout: 0 }).catch(() => {});
    if (!rejectsStartupParameters(error)) throw mapDriverError(error);
  }
  const pooled = connect(host, target, single, undefined);
  try {
    const probed = await probe(pooled, target, options, []);
    const local = Object.entries(options.settings).map(([name, value]) => `set local ${name} = ${value}`);
    const settings = [`set transaction isolation level ${isolation}`, ...local].join('; ');
    await pooled.close();
    return toOpened(connect(host, target, options, undefined), settings, probed);
  } catch (error) {
    await pooled.close({ timeout: 0 }).catch(() => {});
    throw mapDriverError(error);
  }
}

interface Probed {
  /** Whether the startup parameters have taken effect. */
  readonly applied: boolean;
  readonly readOnly: boolean;
  readonly citus: boolean;
  /** When the server was started. */
  readonly server: string;
  readonly position: ServerPosition | undefined;
  /** URLs of nodes that have used the database. */
  readonly nodes: readonly string[];
}

async function probe(
  sql: SQL,
  { schema }: PostgresTarget,
  { connectTimeout }: PoolOptions,
  parameters: readonly string[],
): Promise<Probed> {
  const names = parameters.map((name) => `'${name}'`);
  const query = `select current_setting('transaction_read_only') = 'on' as "readOnly",
    cast(pg_postmaster_start_time() as text) as server,
    exists (select 1 from pg_extension where extname = 'citus') as citus,
    (select count(*) from pg_settings
     where source = 'client' and name in (${names.join() || 'null'})) = ${names.length} as applied`;
  const timeout = Promise.withResolvers<never>();
  const timer = setTimeout(() => timeout.reject(new Unreachable(noAnswer)), connectTimeout);
  const read = async () => {
    const answer = (await sql.unsafe(query))[0] as Pick<Probed, 'applied' | 'readOnly' | 'citus' | 'server'>;
    const position = await readPosition(sql, schema);
    return { ...answer, position, nodes: position ? await nodesIn(sql, schema) : [] };
  };
  try {
    return await Promise.race([read(), timeout.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** The newest URLs, also of nodes that have stopped since: a server that is behind knows no others. */
async function nodesIn(sql: SQL, schema: string | undefined): Promise<string[]> {
  const rows = await sql.unsafe(
    `select url from ${schema === undefined ? '' : `"${schema}".`}nodes
     where url is not null group by url order by max(seen_at) desc limit ${maxAskedNodes}`,
  );
  return rows.map(({ url }: { url: string }) => url);
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

/**
 * Returns undefined if the file does not exist or has no matching line. Throws if other users can read the file; libpq
 * ignores such a file. Secrets that Kubernetes or systemd mounts are accepted: they belong to root, and a group may
 * read them.
 */
function passwordFromFile(
  { host, port }: PostgresHost,
  { database, user, passfile: path }: PostgresTarget,
): string | undefined {
  const file = statSync(path, { throwIfNoEntry: false });
  if (!file?.isFile()) return undefined;
  const isMounted = file.uid === 0 && (file.mode & 0o777) === 0o440;
  if (file.mode & 0o077 && !isMounted)
    throw new DbUnavailable(`the password file ${path} is readable by other users: run chmod 600 ${path}`);
  const wanted = [host.startsWith('/') ? 'localhost' : host, String(port), database, user];
  for (const line of readFileSync(path, 'utf8').split(/\r?\n/)) {
    const fields = line.startsWith('#') ? [] : fieldsOf(line);
    const password = fields[wanted.length];
    if (password && wanted.every((value, at) => fields[at] === '*' || fields[at] === value)) return password;
  }
  return undefined;
}

/** Splits at colons; `\:` and `\\` stand for the character itself. */
function fieldsOf(line: string): string[] {
  const fields = line.matchAll(/((?:\\.|[^:\\])*)(?::|$)/g);
  return [...fields].map(([, field = '']) => field.replace(/\\(.)/g, '$1'));
}
