import type { Db, Queries } from './db.ts';
import core from './migrations/0001_core.sql' with { type: 'text' };
import tokens from './migrations/0002_tokens.sql' with { type: 'text' };
import audit from './migrations/0003_audit.sql' with { type: 'text' };
import auditMac from './migrations/0004_audit_mac.sql' with { type: 'text' };
import keys from './migrations/0005_keys.sql' with { type: 'text' };
import waiting from './migrations/0006_waiting.sql' with { type: 'text' };
import usage from './migrations/0007_usage.sql' with { type: 'text' };
import expiry from './migrations/0008_expiry.sql' with { type: 'text' };
import allowedOrigins from './migrations/0009_allowed_origins.sql' with { type: 'text' };
import tenants from './migrations/0010_tenants.sql' with { type: 'text' };
import sessions from './migrations/0011_sessions.sql' with { type: 'text' };
import tokenContainers from './migrations/0012_token_containers.sql' with { type: 'text' };
import tokenListsPostgres from './migrations/0013_token_lists.postgres.sql' with { type: 'text' };
import tokenListsSqlite from './migrations/0013_token_lists.sqlite.sql' with { type: 'text' };
import tokensByType from './migrations/0013_tokens_by_type.sql' with { type: 'text' };
import applicationStorage from './migrations/0014_application_storage.sql' with { type: 'text' };

interface Migration {
  readonly name: string;
  /** In PostgreSQL's types for both databases, or by database. A database that is not named is left as it is. */
  readonly sql: string | Partial<Record<Db['dialect'], string>>;
}

/** In order. Migrations that were released never change. */
const migrations: readonly Migration[] = [
  { name: '0001_core', sql: core },
  { name: '0002_tokens', sql: tokens },
  { name: '0003_audit', sql: audit },
  { name: '0004_audit_mac', sql: auditMac },
  { name: '0005_keys', sql: keys },
  { name: '0006_waiting', sql: waiting },
  { name: '0007_usage', sql: usage },
  { name: '0008_expiry', sql: expiry },
  { name: '0009_allowed_origins', sql: allowedOrigins },
  { name: '0010_tenants', sql: tenants },
  { name: '0011_sessions', sql: sessions },
  { name: '0012_token_containers', sql: { sqlite: tokenContainers } },
  { name: '0013_token_lists', sql: { sqlite: tokenListsSqlite, postgres: tokenListsPostgres } },
  { name: '0013_tokens_by_type', sql: tokensByType },
  { name: '0014_application_storage', sql: applicationStorage },
];

export const newestSchema = migrations.length;

/** The database was made by a newer program than this one. */
export class SchemaTooNew extends Error {}

/** There is nothing in the database yet. */
export class NoSchema extends Error {}

const versionsTable =
  'create table if not exists schema_versions (version integer primary key, name text not null)';

export interface Migrated {
  readonly from: number;
  readonly to: number;
}

/** The version that it has; 0 if there is none yet. */
export async function schemaOf(db: Db): Promise<number> {
  const there =
    db.dialect === 'sqlite'
      ? "select 1 as one from sqlite_master where name = 'schema_versions'"
      : "select 1 as one where to_regclass('schema_versions') is not null";
  if (!(await db.get(there))) return 0;
  return versionIn(db);
}

/**
 * Brings the schema up to date; of several nodes that start at once, one does it and the others wait. Beside
 * nodes that serve, each migration has a transaction of its own: one that has a table and waits for the next
 * would in the end wait for a change that waits for the first. So each alters one table that others use.
 */
export async function migrate(db: Db): Promise<Migrated> {
  const from = await db.exclusively((tx) => begin(db, tx), 'slow');
  if (isAlone(db, from)) return { from, to: newestSchema };
  for (let version = from; version < newestSchema; version++) {
    await db.exclusively(async (tx) => {
      if ((await versionIn(tx)) === version) await apply(db, tx, version);
    }, 'slow');
  }
  return { from, to: newestSchema };
}

/** Which version it finds. Where nobody can be in the way, it is up to date when this is done. */
async function begin(db: Db, tx: Queries): Promise<number> {
  await tx.run(versionsTable);
  const from = await versionIn(tx);
  if (from > newestSchema) {
    throw new SchemaTooNew(
      `the database has schema ${from}, this program knows up to ${newestSchema}: run a newer program`,
    );
  }
  if (!isAlone(db, from)) return from;
  for (let version = from; version < newestSchema; version++) await apply(db, tx, version, isNoLock);
  return from;
}

/** Whether nobody can be in the way: SQLite has a single lock, and nobody serves from an empty database. */
function isAlone(db: Db, from: number): boolean {
  return db.dialect === 'sqlite' || from === 0;
}

async function versionIn(tx: Queries): Promise<number> {
  const row = await tx.get<{ version: number | null }>('select max(version) as version from schema_versions');
  return Number(row?.version ?? 0);
}

async function apply(
  db: Db,
  tx: Queries,
  version: number,
  wanted: (statement: string) => boolean = () => true,
): Promise<void> {
  const migration = migrations[version] as Migration;
  for (const statement of statementsFor(db, migration).filter(wanted)) await tx.run(statement);
  await tx.run('insert into schema_versions (version, name) values ($1, $2)', [version + 1, migration.name]);
}

/** All that makes a SQLite database of this version. */
export function sqliteStatements(version: number): string[] {
  const made = migrations.slice(0, version).flatMap((one) => statementsFor({ dialect: 'sqlite' }, one));
  return [versionsTable, ...made.filter(isNoLock)];
}

function statementsFor({ dialect }: Pick<Db, 'dialect'>, { sql }: Migration): string[] {
  if (typeof sql !== 'string') return statements(sql[dialect] ?? '');
  return dialect === 'sqlite' ? statements(sql).map(inSqlite) : statements(sql);
}

/** Where nobody can be in the way there is nothing to lock; some databases that speak PostgreSQL's language cannot. */
function isNoLock(statement: string): boolean {
  return !statement.startsWith('lock table');
}

/** What is between the `begin` and the `end` of a trigger belongs to it. */
function statements(sql: string): string[] {
  return sql
    .replace(/^\s*--.*$/gm, '')
    .split(/;(?!\s*end\b)/)
    .map((statement) => statement.trim())
    .filter((statement) => statement !== '');
}

const sqliteTypes: Record<string, string> = { uuid: 'text', bigint: 'integer', bytea: 'blob' };

function inSqlite(statement: string): string {
  const typed = statement.replace(/\b(uuid|bigint|bytea)\b/g, (type) => sqliteTypes[type] as string);
  const plain = typed.replace(/ collate "C"/g, '');
  return statement.startsWith('create table') ? `${plain} strict` : plain;
}
