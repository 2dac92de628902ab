/** What commands of the operator ask about the rows of all tenants, and about the database itself. */

import type { Db, DbTime } from '../db/db.ts';
import { everyTenant } from '../db/sql.ts';
import { type Clause, clause, raw, sql } from '../db/statement.ts';
import { timestamp } from '../domain/common-fields.ts';
import { notExpired } from './applications.ts';

export interface Expiring {
  readonly tenant_id: string;
  readonly tenant: string;
  readonly application_id: string;
  readonly application: string;
  /** Absent if the application itself expires, together with its keys. */
  readonly key?: { readonly id: string; readonly ending: string };
  readonly expires_at: string;
}

interface Row {
  readonly tenant_id: string;
  readonly tenant: string;
  readonly application_id: string;
  readonly application: string;
  readonly key_id: string | null;
  readonly ending: string | null;
  readonly expires_at: DbTime;
}

function isSoon(alias: string, within: number): Clause {
  const expiry = raw(`${alias}.expires_at`);
  return clause`${expiry} > :now and ${expiry} <= :now + ${within}`;
}

const columns = raw(
  'select t.id as tenant_id, t.name as tenant, a.id as application_id, a.name as application',
);
const ownTenant = raw('join tenants t on t.id = a.tenant_id and t.deleted_at is null');

/** Selects the rows that the metrics `sallyport_applications_expiring` and `sallyport_keys_expiring` count. */
const expiring = (within: number, limit: number) => sql`
  ${columns}, null as key_id, null as ending, a.expires_at
  from applications a ${ownTenant} where ${isSoon('a', within)}
  union all
  ${columns}, k.id as key_id, k.ending, k.expires_at
  from application_keys k join applications a on a.tenant_id = k.tenant_id and a.id = k.application_id
  ${ownTenant} where ${isSoon('k', within)} and k.trust is null
  order by expires_at, tenant_id, application_id, key_id limit ${limit} ${everyTenant}`;

/** Lists at most `limit` that expire within `within` milliseconds, earliest first. */
export async function listExpiring(db: Db, within: number, limit: number): Promise<Expiring[]> {
  const rows = await db.all<Row>(expiring(within, limit));
  return rows.map(({ key_id: id, ending, expires_at, ...row }) => ({
    ...row,
    ...(id !== null && ending !== null && { key: { id, ending } }),
    expires_at: timestamp(Number(expires_at)),
  }));
}

/** An application or key that exceeds the maximum lifetime of its tenant. */
export interface TooLong {
  readonly id: string;
  readonly name: string;
  /** The last characters of the key. Null if the application itself exceeds the maximum lifetime. */
  readonly ending: string | null;
}

const valid = clause`from tenants t join applications a on a.tenant_id = t.id and ${notExpired('a')}`;
const isLimited = raw('t.max_lifetime is not null and t.deleted_at is null');

const applicationsTooLong = (limit: number) => sql`select a.id, a.name, null as ending ${valid}
  where ${isLimited} and (a.expires_at is null or a.expires_at > :now + t.max_lifetime)
  order by a.id limit ${limit} ${everyTenant}`;

/** Checks the expiry of the application, too, because a key expires with its application. */
const keysTooLong = (limit: number) => sql`select a.id, a.name, k.ending ${valid}
  join application_keys k on k.tenant_id = a.tenant_id and k.application_id = a.id and ${notExpired('k')}
  where ${isLimited}
    and (k.expires_at is null or k.expires_at > k.created_at + t.max_lifetime)
    and (a.expires_at is null or a.expires_at > k.created_at + t.max_lifetime)
  order by a.id, k.id limit ${limit} ${everyTenant}`;

/** Lists at most `limit` applications and as many keys. */
export async function listTooLong(db: Db, limit: number): Promise<TooLong[]> {
  return [
    ...(await db.all<TooLong>(applicationsTooLong(limit))),
    ...(await db.all<TooLong>(keysTooLong(limit))),
  ];
}

const requiringApplication = sql`select a.id, a.name from applications a
  where a.require_bound_sessions = 1 and ${notExpired('a')} order by a.id limit 1 ${everyTenant}`;

const boundSession = sql`select id from sessions where jkt is not null and expires_at > :now limit 1 ${everyTenant}`;

/** An application that requires bound sessions. `true` if none does, but a bound session exists. */
export async function findBoundSessions(db: Db): Promise<{ id: string; name: string } | boolean> {
  const application = await db.get<{ id: string; name: string }>(requiringApplication);
  return application ?? (await db.get(boundSession)) !== undefined;
}

export async function findLargestApplication(db: Db): Promise<{ id: string; bytes: number } | undefined> {
  const row = await db.get<{ id: string; bytes: DbTime }>(sql`
    select application_id as id, sum(bytes) as bytes from application_storage
      group by tenant_id, application_id order by 2 desc limit 1 ${everyTenant}`);
  return row && { id: row.id, bytes: Number(row.bytes) };
}

const setting = (name: string) => `current_setting('${name}')`;

const serverState = `select split_part(${setting('server_version')}, ' ', 1) as version,
     ${setting('server_version_num')}::int as number, pg_is_in_recovery() as standby,
     ${setting('default_transaction_read_only')} = 'on' as "readOnly",
     ${setting('server_encoding')} as encoding, ${setting('fsync')} as fsync,
     ${setting('full_page_writes')} as "fullPageWrites",
     ${setting('synchronous_commit')} as "synchronousCommit",
     (${setting('max_connections')}::int - ${setting('superuser_reserved_connections')}::int -
       (select count(*) from pg_stat_activity where backend_type = 'client backend'))::int as left`;

/** A PostgreSQL server and the settings that durability depends on. */
export interface ServerState {
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

export async function readServerState(db: Db): Promise<ServerState> {
  return (await db.get<ServerState>(serverState)) as ServerState;
}

export interface Timeouts {
  readonly statement: string;
  readonly lock: string;
  readonly idle: string;
  /** Whether the timeouts are set on the connection. Behind a connection pooler, each transaction sets them. */
  readonly onConnection: boolean;
}

const timeouts = `select current_setting('statement_timeout') as statement, current_setting('lock_timeout') as lock,
  current_setting('idle_in_transaction_session_timeout') as idle,
  (select source = 'client' from pg_settings where name = 'statement_timeout') as "onConnection"`;

export async function readTimeouts(db: Db): Promise<Timeouts> {
  return (await db.transaction((tx) => tx.get<Timeouts>(timeouts))) as Timeouts;
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

export interface SqliteSettings {
  readonly version: string;
  readonly journal_mode: string;
  readonly synchronous: number;
}

export async function readSqliteSettings(db: Db): Promise<SqliteSettings> {
  const version = await db.get<{ version: string }>('select sqlite_version() as version');
  const journal = await db.get<{ journal_mode: string }>('pragma journal_mode');
  const synchronous = await db.get<{ synchronous: number }>('pragma synchronous');
  return { ...version, ...journal, ...synchronous } as SqliteSettings;
}

/** The columns and indexes of the tables, and the migrations that created them, as text. PostgreSQL only. */
export async function readTables(db: Db): Promise<string> {
  const rows = await db.all<{ line: string }>(`
    select table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable as line
      from information_schema.columns where table_schema = current_schema()
    union all select indexdef from pg_indexes where schemaname = current_schema()
    union all select 'migration ' || version || ' ' || name || ' ' || hash from schema_versions
    order by line`);
  return rows.map(({ line }) => `${line}\n`).join('');
}

/**
 * The plans of the ten statements of this role with the longest mean time. The server has replaced their values by
 * parameters. Throws an error with the reason if the server does not
 * record statements.
 */
export async function readSlowPlans(db: Db): Promise<string> {
  const plans: string[] = [];
  for (const { query, calls, mean } of await slowest(db)) {
    const plan = await planOf(db, query);
    plans.push(`${calls} calls, mean ${Number(mean).toFixed(2)} ms\n${query}\n${plan}\n`);
  }
  return plans.join('\n');
}

async function slowest(db: Db) {
  try {
    return await db.all<{ query: string; calls: DbTime; mean: number }>(
      `select query, calls, mean_exec_time as mean from pg_stat_statements s
       join pg_roles r on r.oid = s.userid and r.rolname = current_user
       join pg_database d on d.oid = s.dbid and d.datname = current_database()
       where query ~* '^\\s*(select|insert|update|delete|with)\\M' order by mean_exec_time desc limit 10`,
    );
  } catch (error) {
    throw new Error(`pg_stat_statements cannot be read: ${(error as Error).message}`);
  }
}

/** The types of parameters are guessed, which is not possible in every statement. */
async function planOf(db: Db, query: string): Promise<string> {
  try {
    const lines = await db.all<{ 'QUERY PLAN': string }>(`explain (generic_plan) ${query}`);
    return lines.map((line) => line['QUERY PLAN']).join('\n');
  } catch (error) {
    return `no plan: ${(error as Error).message}`;
  }
}
