/** Compares the schema of a SQLite file with the one that the migrations create. */
import { Database } from 'bun:sqlite';
import {
  type AppliedMigration,
  schemaProblem,
  selectApplied,
  sqliteStatements,
  versionOf,
} from './migrate.ts';

type SchemaRow = [type: string, name: string, table: string, sql: string | null];

/** Created by `analyze`. They hold no code. */
const statistics = ['table sqlite_stat1', 'table sqlite_stat4'];

/**
 * Lists tables, columns, indexes, triggers and views that are missing, unknown or different. Returns nothing for a
 * database that has applied other migrations than this program knows: opening it reports that.
 */
export function schemaDifferences(db: Database): string[] {
  const applied = db.query(selectApplied).all() as AppliedMigration[];
  if (schemaProblem('sqlite', applied)) return [];
  const found = schemaOf(db);
  const ours = expected(versionOf(applied));
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
