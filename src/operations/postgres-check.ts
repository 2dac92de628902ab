/** Checks a PostgreSQL server for `doctor`. */
import type { Db } from '../store/engine/db.ts';
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

/** `maxConnections` is the size of the connection pool of a process. */
export async function checkPostgres(db: Db, maxConnections: number): Promise<Check[]> {
  return [...(await checkServer(db, maxConnections)), await checkTimeouts(db)];
}

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

/** Reads the timeouts that apply to a request. */
async function checkTimeouts(db: Db): Promise<Check> {
  const sql = `select current_setting('statement_timeout') as statement, current_setting('lock_timeout') as lock,
    current_setting('idle_in_transaction_session_timeout') as idle,
    (select source = 'client' from pg_settings where name = 'statement_timeout') as "onConnection"`;
  const { statement, lock, idle, onConnection } = (await db.transaction(async (tx) =>
    tx.get<Timeouts>(sql),
  )) as Timeouts;
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
