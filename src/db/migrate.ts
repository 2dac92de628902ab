import { Database } from 'bun:sqlite';
import { alterShards, distributeTables, undoPlacement, WrongPlacement } from './citus.ts';
import type { Db } from './db.ts';
import { lacksPrivilege } from './postgres/postgres-errors.ts';
import schemaForPostgres from './schema.postgres.sql' with { type: 'text' };
import schema from './schema.sql' with { type: 'text' };
import schemaForSqlite from './schema.sqlite.sql' with { type: 'text' };
import { sql } from './statement.ts';

type Dialect = Db['dialect'];

export interface Migration {
  readonly name: string;
  /** Statements for both databases, with PostgreSQL's types. */
  readonly sql: string;
  /** Statements that only one database runs after `sql`, in its own dialect. */
  readonly only?: Partial<Record<Dialect, string>>;
}

/**
 * In the order of their versions. A released migration never changes: every database stores the hash of each migration
 * that it has applied.
 */
export const migrations: readonly Migration[] = [
  { name: '0001_initial', sql: schema, only: { sqlite: schemaForSqlite, postgres: schemaForPostgres } },
  // Migrations of released versions follow here.
];

export const newestSchema = migrations.length;

/** The schema of the database does not fit this program. `todo` says what the operator can do. */
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

/** A row of `schema_versions`. */
export interface AppliedMigration {
  readonly version: number;
  readonly name: string;
  readonly hash: string;
}

const selectApplied = 'select * from schema_versions order by version';

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

/** The version of the schema; 0 if the database is empty. */
export async function schemaOf(db: Db): Promise<number> {
  return versionOf(await appliedMigrations(db));
}

export function versionOf(applied: readonly AppliedMigration[]): number {
  return applied.at(-1)?.version ?? 0;
}

/**
 * Compares the migrations that a database has applied with those of this program. Returns undefined if they agree, even
 * if the database has not applied all of them.
 */
function schemaProblem(
  dialect: Dialect,
  applied: readonly AppliedMigration[],
  known: readonly Migration[] = migrations,
): IncompatibleSchema | undefined {
  const differs = applied.slice(0, known.length).find(({ version, name, hash }, at) => {
    const ours = known[at] as Migration;
    return version !== at + 1 || name !== ours.name || hash !== hashOf(dialect, ours);
  });
  if (differs) {
    return new IncompatibleSchema(
      `migration ${differs.name} of the database differs from that of this version of Sallyport`,
      'run the version of Sallyport that created the database',
    );
  }
  const version = versionOf(applied);
  if (version > known.length) {
    return new SchemaTooNew(
      `the database has schema ${version}, but this version of Sallyport supports up to ${known.length}`,
      'run a newer version of Sallyport',
    );
  }
  return undefined;
}

/**
 * Like `schemaProblem`. Also reports a database that has applied no migration, but has tables with the names of ours.
 */
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

/** The tables that exist and that the migrations would create. */
async function existingTables(
  { dialect, all }: Pick<Db, 'dialect' | 'all'>,
  known: readonly Migration[],
): Promise<string[]> {
  const tables =
    dialect === 'sqlite'
      ? "select name from sqlite_master where type = 'table'"
      : 'select table_name as name from information_schema.tables where table_schema = current_schema()';
  const names = (await all<{ name: string }>(tables)).map(({ name }) => name);
  return tablesOf(dialect, known).filter((name) => names.includes(name));
}

/** The tables that the migrations create, in an order in which foreign keys refer to earlier tables. */
export function tablesOf(dialect: Dialect, known: readonly Migration[] = migrations): string[] {
  return [...keysOfTables(dialect, known).keys()];
}

/** The columns of the primary key of each table. */
export function keysOfTables(
  dialect: Dialect,
  known: readonly Migration[] = migrations,
): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, readonly string[]>();
  for (const statement of known.flatMap((migration) => statementsFor(dialect, migration))) {
    const [, table] = /^create table (\w+)/.exec(statement) ?? [];
    const [, list, column = ''] =
      /^ {2}primary key \((.*)\)|^ {2}(\w+) .*\bprimary key\b/m.exec(statement) ?? [];
    if (table !== undefined) found.set(table, list?.split(', ') ?? [column]);
  }
  return found;
}

/**
 * SHA-256 of the statements that a migration runs. The text of comments does not count, but the number of comment lines
 * inside a statement does.
 */
export function hashOf(dialect: Dialect, migration: Migration): string {
  const sql = statementsFor(dialect, migration).join(';\n');
  return new Bun.CryptoHasher('sha256').update(sql).digest('hex');
}

/**
 * Applies the missing migrations. If several nodes start concurrently, one migrates and the others wait. Throws
 * `IncompatibleSchema` if the database has applied other migrations than these.
 *
 * Every migration runs in a separate transaction and alters at most one existing table. A transaction that holds a lock
 * on one table while it waits for another could deadlock with a request of another node.
 *
 * In a Citus cluster, also distributes the tables.
 *
 * If no migration is missing, takes no lock and needs only the privilege to read `schema_versions`.
 */
export async function migrate(db: Db, known: readonly Migration[] = migrations): Promise<Migrated> {
  const version = await compatibleSchema(db, known);
  const to = known.length;
  let from = version;
  if (version < to)
    await asOwner(
      `the database has schema ${version}, this version of Sallyport needs ${to}, and the role of DATABASE_URL may not change the schema`,
      async () => {
        from = await applyNext(db, known);
        for (let next = from; next < to - 1; ) next = await applyNext(db, known);
      },
    );
  if (await db.isDistributed?.()) await distribute(db, tablesOf(db.dialect, known));
  return { from, to };
}

/** The version of the schema. Throws `IncompatibleSchema` if the database has applied other migrations than these. */
export async function compatibleSchema(db: Db, known: readonly Migration[] = migrations): Promise<number> {
  const applied = await appliedMigrations(db);
  const problem = schemaProblem(db.dialect, applied, known);
  if (problem) throw problem;
  return versionOf(applied);
}

async function distribute(db: Db, tables: readonly string[]): Promise<void> {
  await asOwner(
    'some tables are not distributed over the Citus cluster, and the role of DATABASE_URL may not distribute them',
    () => distributeTables(db, tables),
  ).catch((error) => {
    throw error instanceof WrongPlacement ? new IncompatibleSchema(error.message, undoPlacement) : error;
  });
  await alterShards(db, tables);
}

/** Throws `IncompatibleSchema` with the message `problem` if the role lacks a privilege. */
async function asOwner(problem: string, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!lacksPrivilege(error)) throw error;
    const todo = 'run `sallyport migrate` of this version with the URL of the role that owns the tables';
    throw new IncompatibleSchema(problem, todo);
  }
}

/** Applies the next missing migration, if there is one. Returns the version of the schema before that. */
function applyNext(db: Db, known: readonly Migration[]): Promise<number> {
  return db.exclusively(async (tx) => {
    await tx.run(versionsTable);
    const applied = await tx.all<AppliedMigration>(selectApplied);
    const problem = await findSchemaProblem({ dialect: db.dialect, all: tx.all }, applied, known);
    if (problem) throw problem;
    const version = versionOf(applied);
    const next = known[version];
    if (!next) return version;
    for (const statement of statementsFor(db.dialect, next)) await tx.run(statement);
    await tx.run(sql`insert into schema_versions (version, name, hash)
      values (${version + 1}, ${next.name}, ${hashOf(db.dialect, next)})`);
    return version;
  }, 'slow');
}

function statementsFor(dialect: Dialect, { sql, only }: Migration): string[] {
  const common = statements(sql);
  return [...(dialect === 'sqlite' ? common.map(toSqlite) : common), ...statements(only?.[dialect] ?? '')];
}

/** Splits at semicolons, except those inside `$$` and those before the `end` of a trigger. */
function statements(sql: string): string[] {
  const parts = sql.replace(/^\s*--.*$/gm, '').match(/(?:\$\$.*?\$\$|;(?=\s*end\b)|[^;])+/gs) ?? [];
  return parts.map((statement) => statement.trim()).filter((statement) => statement !== '');
}

const sqliteTypes: Record<string, string> = {
  uuid: 'text',
  bigint: 'integer',
  smallint: 'integer',
  bytea: 'blob',
};

function toSqlite(statement: string): string {
  const typed = statement.replace(/\b(uuid|bigint|smallint|bytea)\b/g, (type) => sqliteTypes[type] as string);
  const plain = typed.replace(/ collate "C"| generated by default as identity/g, '');
  return statement.startsWith('create table') ? `${plain} strict` : plain;
}

type SchemaRow = [type: string, name: string, table: string, sql: string | null];

/** Tables that `analyze` creates. They contain only statistics, so they are not compared. */
const statistics = ['table sqlite_stat1', 'table sqlite_stat4'];

/**
 * Lists tables, columns, indexes, triggers and views of a SQLite file that are missing, unknown or different. Returns
 * an empty list if the database has applied other migrations than this program knows, because opening the database
 * reports this.
 */
export function schemaDifferences(db: Database): string[] {
  const applied = db.query(selectApplied).all() as AppliedMigration[];
  if (schemaProblem('sqlite', applied)) return [];
  const actual = objectsOf(db);
  const expected = expectedObjects(versionOf(applied));
  const names = [...new Set([...actual.keys(), ...expected.keys()])].filter(
    (name) => !statistics.includes(name),
  );
  return names.flatMap((name) => {
    if (!expected.has(name)) return [`the ${name} is not ours`];
    if (!actual.has(name)) return [`the ${name} is missing`];
    return actual.get(name) === expected.get(name) ? [] : [`the ${name} differs from ours`];
  });
}

function expectedObjects(version: number): Map<string, string> {
  const db = new Database(':memory:');
  try {
    db.run(versionsTable);
    for (const migration of migrations.slice(0, version))
      for (const statement of statementsFor('sqlite', migration)) db.run(statement);
    return objectsOf(db);
  } finally {
    db.close();
  }
}

function objectsOf(db: Database): Map<string, string> {
  const rows = db.query('select type, name, tbl_name, sql from sqlite_schema').values() as SchemaRow[];
  return new Map(
    rows.map(([type, name, table, sql]) => [
      `${type} ${name}`,
      JSON.stringify([table, sql?.replace(/\s+/g, ' ')]),
    ]),
  );
}
