import type { Db, Queries } from './db.ts';
import initialPostgres from './migrations/0001_initial.postgres.sql' with { type: 'text' };
import initial from './migrations/0001_initial.sql' with { type: 'text' };
import initialSqlite from './migrations/0001_initial.sqlite.sql' with { type: 'text' };

type Dialect = Db['dialect'];

export interface Migration {
  readonly name: string;
  /** Statements for both databases, with PostgreSQL's types. */
  readonly sql: string;
  /** Statements that only one database runs after `sql`, in its own dialect. */
  readonly only?: Partial<Record<Dialect, string>>;
}

/** In order. A released migration never changes: every database stores the hash of each one that it has applied. */
export const migrations: readonly Migration[] = [
  { name: '0001_initial', sql: initial, only: { sqlite: initialSqlite, postgres: initialPostgres } },
  // New migrations go here.
];

export const newestSchema = migrations.length;

/** The database has another schema than this program. `todo` says what the operator can do. */
export class IncompatibleSchema extends Error {
  readonly todo: string;

  constructor(message: string, todo: string) {
    super(message);
    this.todo = todo;
  }
}

/** A newer version of the program has migrated the database. */
export class SchemaTooNew extends IncompatibleSchema {}

/** The database is empty. */
export class NoSchema extends Error {}

const versionsTable =
  'create table if not exists schema_versions (version integer primary key, name text not null, hash text not null)';

/** A row of `schema_versions`. Builds before 0.2.0 stored no hash. */
export interface AppliedMigration {
  readonly version: number;
  readonly name: string;
  readonly hash?: string;
}

export const selectApplied = 'select * from schema_versions order by version';

export interface Migrated {
  readonly from: number;
  readonly to: number;
}

/** The migrations that the database has applied; none if it is empty. */
export async function appliedMigrations(db: Db): Promise<AppliedMigration[]> {
  const exists =
    db.dialect === 'sqlite'
      ? "select 1 as one from sqlite_master where name = 'schema_versions'"
      : "select 1 as one where to_regclass('schema_versions') is not null";
  return (await db.get(exists)) ? db.all<AppliedMigration>(selectApplied) : [];
}

/** 0 if the database is empty. */
export async function schemaOf(db: Db): Promise<number> {
  return versionOf(await appliedMigrations(db));
}

export function versionOf(applied: readonly AppliedMigration[]): number {
  return Number(applied.at(-1)?.version ?? 0);
}

/** Compares what a database has applied with the migrations of this program. Missing migrations are no problem. */
export function schemaProblem(
  dialect: Dialect,
  applied: readonly AppliedMigration[],
  known: readonly Migration[] = migrations,
): IncompatibleSchema | undefined {
  if (applied.some(({ hash }) => !hash)) {
    return new IncompatibleSchema(
      'the database was created by a build before 0.2.0, which this version cannot open',
      'export the applications and the audit log with that build, then start with a new database',
    );
  }
  const version = versionOf(applied);
  if (version > known.length) {
    return new SchemaTooNew(
      `the database has schema ${version}, but this version of Sallyport supports up to ${known.length}`,
      'run a newer version of Sallyport',
    );
  }
  for (const [at, { version, name, hash }] of applied.entries()) {
    const ours = known[at];
    if (ours && Number(version) === at + 1 && name === ours.name && hash === hashOf(dialect, ours)) continue;
    return new IncompatibleSchema(
      `migration ${name} of the database differs from that of this version of Sallyport`,
      'run the version of Sallyport that created the database, or restore a backup made by an official build',
    );
  }
  return undefined;
}

/** Also finds a database that has tables with our names, but no migration applied. */
export async function findSchemaProblem(
  db: Pick<Db, 'dialect' | 'all'>,
  applied: readonly AppliedMigration[],
  known: readonly Migration[] = migrations,
): Promise<IncompatibleSchema | undefined> {
  const [table] = applied.length === 0 ? await existingTables(db, known) : [];
  if (table === undefined) return schemaProblem(db.dialect, applied, known);
  return new IncompatibleSchema(
    `the database has a table ${table}, but no record that Sallyport created it`,
    'use an empty database, or restore a backup',
  );
}

/** Those that the migrations would create. */
async function existingTables(
  { dialect, all }: Pick<Db, 'dialect' | 'all'>,
  known: readonly Migration[],
): Promise<string[]> {
  const ours = known
    .flatMap((migration) => statementsFor(dialect, migration))
    .flatMap((statement) => /^create table (\w+)/.exec(statement)?.[1] ?? []);
  const tables =
    dialect === 'sqlite'
      ? "select name from sqlite_master where type = 'table'"
      : 'select table_name as name from information_schema.tables where table_schema = current_schema()';
  const names = (await all<{ name: string }>(tables)).map(({ name }) => name);
  return ours.filter((name) => names.includes(name));
}

/** SHA-256 of the statements that a migration runs. Comments do not count. */
export function hashOf(dialect: Dialect, migration: Migration): string {
  const sql = statementsFor(dialect, migration).join(';\n');
  return new Bun.CryptoHasher('sha256').update(sql).digest('hex');
}

/**
 * Applies the missing migrations. If several nodes start concurrently, one migrates and the others wait. Throws
 * `IncompatibleSchema` if the database has applied other migrations than these.
 *
 * Next to nodes that serve requests, every migration runs in a separate transaction and alters one existing table.
 * A transaction that holds a lock on one table while it waits for another could deadlock with a request.
 */
export async function migrate(db: Db, known: readonly Migration[] = migrations): Promise<Migrated> {
  const to = known.length;
  const from = await db.exclusively((tx) => begin(db, tx, known), 'slow');
  if (hasNoOtherUsers(db, from)) return { from, to };
  for (let version = from; version < to; version++) {
    await db.exclusively(async (tx) => {
      const applied = await tx.all<AppliedMigration>(selectApplied);
      if (versionOf(applied) === version) await apply(db, tx, version, known);
    }, 'slow');
  }
  return { from, to };
}

/** Returns the version before. If the database has no other users, applies all migrations in this transaction. */
async function begin(db: Db, tx: Queries, known: readonly Migration[]): Promise<number> {
  await tx.run(versionsTable);
  const applied = await tx.all<AppliedMigration>(selectApplied);
  const problem = await findSchemaProblem({ dialect: db.dialect, all: tx.all }, applied, known);
  if (problem) throw problem;
  const from = versionOf(applied);
  if (!hasNoOtherUsers(db, from)) return from;
  for (let version = from; version < known.length; version++) await apply(db, tx, version, known, isNotLock);
  return from;
}

/** SQLite has a single lock, and no node serves from an empty database. */
function hasNoOtherUsers(db: Db, from: number): boolean {
  return db.dialect === 'sqlite' || from === 0;
}

async function apply(
  { dialect }: Db,
  tx: Queries,
  version: number,
  known: readonly Migration[],
  wanted: (statement: string) => boolean = () => true,
): Promise<void> {
  const migration = known[version] as Migration;
  for (const statement of statementsFor(dialect, migration).filter(wanted)) await tx.run(statement);
  await tx.run('insert into schema_versions (version, name, hash) values ($1, $2, $3)', [
    version + 1,
    migration.name,
    hashOf(dialect, migration),
  ]);
}

/** The statements that create a SQLite database of this version. */
export function sqliteStatements(version: number): string[] {
  const statements = migrations.slice(0, version).flatMap((one) => statementsFor('sqlite', one));
  return [versionsTable, ...statements.filter(isNotLock)];
}

function statementsFor(dialect: Dialect, { sql, only }: Migration): string[] {
  const common = statements(sql);
  return [...(dialect === 'sqlite' ? common.map(toSqlite) : common), ...statements(only?.[dialect] ?? '')];
}

/** Without other users no lock is needed, and some databases compatible with PostgreSQL have no `lock table`. */
function isNotLock(statement: string): boolean {
  return !statement.startsWith('lock table');
}

/** Splits at semicolons, except those inside the `begin` and `end` of a trigger. */
function statements(sql: string): string[] {
  return sql
    .replace(/^\s*--.*$/gm, '')
    .split(/;(?!\s*end\b)/)
    .map((statement) => statement.trim())
    .filter((statement) => statement !== '');
}

const sqliteTypes: Record<string, string> = { uuid: 'text', bigint: 'integer', bytea: 'blob' };

function toSqlite(statement: string): string {
  const typed = statement.replace(/\b(uuid|bigint|bytea)\b/g, (type) => sqliteTypes[type] as string);
  const plain = typed.replace(/ collate "C"/g, '');
  return statement.startsWith('create table') ? `${plain} strict` : plain;
}
