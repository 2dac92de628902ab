/** Compares the schema of a SQLite file with the one that the migrations make. */
import { Database } from 'bun:sqlite';
import { newestSchema, sqliteStatements } from './migrate.ts';

type SchemaRow = [type: string, name: string, table: string, sql: string | null];

/** SQLite's own, made by `analyze`. They hold no code. */
const statistics = ['table sqlite_stat1', 'table sqlite_stat4'];

/**
 * Names what is missing, what is not ours and what differs: tables, columns, indexes, triggers, views. A schema that is
 * newer than this program is not compared.
 */
export function schemaDifferences(db: Database): string[] {
  const [[version]] = db.query('select max(version) from schema_versions').values() as [[number | null]];
  if (version !== null && version > newestSchema) return [];
  const found = schemaOf(db);
  const ours = expected(version ?? 0);
  const names = [...new Set([...found.keys(), ...ours.keys()])].filter((name) => !statistics.includes(name));
  return names.flatMap((name) => {
    if (!ours.has(name)) return [`the ${name} is not ours`];
    if (!found.has(name)) return [`the ${name} is missing`];
    return found.get(name) === ours.get(name) ? [] : [`the ${name} differs from ours`];
  });
}

function expected(version: number): Map<string, string> {
  const db = new Database(':memory:');
  try {
    for (const statement of sqliteStatements(version)) db.run(statement);
    return schemaOf(db);
  } finally {
    db.close();
  }
}

function schemaOf(db: Database): Map<string, string> {
  const rows = db.query('select type, name, tbl_name, sql from sqlite_schema').values() as SchemaRow[];
  return new Map(
    rows.map(([type, name, table, sql]) => [
      `${type} ${name}`,
      JSON.stringify([table, sql?.replace(/\s+/g, ' ')]),
    ]),
  );
}
