/** Checks a PostgreSQL server for `doctor`. */
import type { Config } from '../config/settings.ts';
import { type Db, DbUnavailable } from '../store/engine/db.ts';
import { openPostgres } from '../store/engine/postgres.ts';
import { isTimeout } from '../store/engine/postgres-errors.ts';
import { type Check, fail, ok, warn } from './check.ts';

const oldestPostgres = 140_000;

interface PostgresState {
  readonly version: string;
  readonly number: number;
  readonly standby: boolean;
  /** Whether transactions are read-only by default. */
  readonly readOnly: boolean;
  readonly encoding: string;
  readonly fsync: string;
  readonly fullPageWrites: string;
  readonly synchronousCommit: string;
  /** Free connections for users who are not superusers. */
  readonly left: number;
}

export async function checkPostgres(db: Db, config: Config): Promise<Check[]> {
  return [...(await checkServer(db, config.databaseConnections)), await checkTimeouts(config)];
}

/** `maxConnections` is the size of the connection pool of a process. */
async function checkServer(db: Db, maxConnections: number): Promise<Check[]> {
  const setting = (name: string) => `current_setting('${name}')`;
  const state = (await db.get<PostgresState>(
    `select split_part(${setting('server_version')}, ' ', 1) as version,
       ${setting('server_version_num')}::int as number, pg_is_in_recovery() as standby,
       ${setting('default_transaction_read_only')} = 'on' as "readOnly",
       ${setting('server_encoding')} as encoding, ${setting('fsync')} as fsync,
       ${setting('full_page_writes')} as "fullPageWrites",
       ${setting('synchronous_commit')} as "synchronousCommit",
       (${setting('max_connections')}::int - ${setting('superuser_reserved_connections')}::int -
         (select count(*) from pg_stat_activity where backend_type = 'client backend'))::int as left`,
  )) as PostgresState;
  const problems: Check[] = [];
  const failed = (message: string, hint: string) => problems.push(fail('database', message, hint));
  const warned = (message: string, hint: string) => problems.push(warn('database', message, hint));
  if (state.standby) failed('the server is a standby and read-only', 'set DATABASE_URL to the primary');
  if (state.readOnly)
    failed(
      'default_transaction_read_only is on: every write fails with 503',
      'set it to off; hosting providers turn it on when storage runs out',
    );
  if (state.fsync !== 'on')
    failed('fsync is off: a crash can corrupt the database', 'set fsync = on in postgresql.conf');
  if (state.fullPageWrites !== 'on')
    failed(
      'full_page_writes is off: a crash can corrupt the database',
      'set full_page_writes = on in postgresql.conf',
    );
  if (state.synchronousCommit === 'off')
    failed('synchronous_commit is off: a crash can lose acknowledged writes', 'set synchronous_commit = on');
  if (state.encoding !== 'UTF8')
    failed(`the encoding of the database is ${state.encoding}`, 'create a database with encoding UTF8');
  if (state.number < oldestPostgres)
    warned(`PostgreSQL ${state.version} is not supported`, 'use PostgreSQL 14 or later');
  if (state.left < maxConnections)
    warned(
      `only ${Math.max(0, state.left)} connections are free`,
      `raise max_connections: one process uses up to ${maxConnections}`,
    );
  return problems.length > 0
    ? problems
    : [ok('database', `PostgreSQL ${state.version}, ${state.left} connections free`)];
}

interface Timeouts {
  readonly statement: string;
  readonly lock: string;
  readonly idle: string;
  /** Whether the timeouts are set on the connection. Behind a connection pooler, each transaction sets them. */
  readonly onConnection: boolean;
}

/** Connects with the timeouts of the service, and reads those that apply to a request. */
async function checkTimeouts({ databaseUrl, databaseTimeout }: Config): Promise<Check> {
  const db = openPostgres(databaseUrl, undefined, databaseTimeout, 1);
  try {
    return formatTimeouts((await db.transaction(async (tx) => tx.get<Timeouts>(timeoutsSql))) as Timeouts);
  } catch (error) {
    if (!(error instanceof DbUnavailable)) throw error;
    const reason = isTimeout(error)
      ? `took longer than SALLYPORT_DATABASE_TIMEOUT, ${databaseTimeout} ms`
      : `failed: ${error.message}`;
    return fail(
      'timeouts',
      `a new connection ${reason}: the service would respond with 503`,
      'check the load of the database and the network to it, or raise SALLYPORT_DATABASE_TIMEOUT',
    );
  } finally {
    await db.close();
  }
}

const timeoutsSql = `select current_setting('statement_timeout') as statement, current_setting('lock_timeout') as lock,
  current_setting('idle_in_transaction_session_timeout') as idle,
  (select source = 'client' from pg_settings where name = 'statement_timeout') as "onConnection"`;

function formatTimeouts({ statement, lock, idle, onConnection }: Timeouts): Check {
  const values = `statement_timeout ${statement}, lock_timeout ${lock}, idle_in_transaction_session_timeout ${idle}`;
  if ([statement, lock, idle].includes('0'))
    return warn('timeouts', `${values}: 0 is no timeout`, 'use PostgreSQL 14 or later');
  const how = onConnection
    ? 'set for each connection'
    : 'set for each transaction, because a connection pooler does not pass them on';
  return ok('timeouts', `${values}; ${how}`);
}

export interface SchemaAccess {
  /** The search path, if it contains no schema that exists and that the role may use. Otherwise undefined. */
  readonly missing: string | undefined;
  /** Whether the role may create tables and alter those of Sallyport. */
  readonly mayMigrate: boolean;
}

export async function readSchemaAccess(db: Db): Promise<SchemaAccess> {
  const row = await db.get<{ path: string; schema: string | null; may: boolean | null }>(
    `select current_setting('search_path') as path, current_schema() as schema,
       has_schema_privilege(current_schema(), 'create') and coalesce(
         (select pg_has_role(relowner, 'usage') from pg_class where oid = to_regclass('schema_versions')),
         true) as may`,
  );
  return { missing: row?.schema ? undefined : row?.path, mayMigrate: row?.may === true };
}
