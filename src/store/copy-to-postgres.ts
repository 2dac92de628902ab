/** Copies the rows of a SQLite database into an empty PostgreSQL database. */

import type { Database } from 'bun:sqlite';
import { toolWriter } from '../audit/log.ts';
import type { Db, Queries } from '../db/db.ts';
import type { ChainKeys } from '../db/keys/keyring.ts';
import { tablesOf } from '../db/migrate.ts';
import { type ColumnType, sql, target, type Value } from '../db/statement.ts';
import { byOperator } from '../domain/audit.ts';

/**
 * `nodes` lists the running processes of an installation, `search_locks` has no rows. `schema_versions` is not created by
 * a migration, so it is not in the list.
 */
const notCopied = ['nodes', 'heartbeat', 'search_locks'];

export const copiedTables: readonly string[] = tablesOf('postgres').filter(
  (table) => !notCopied.includes(table),
);

/** The target has rows. */
export class NotEmpty extends Error {}

export interface CopyOptions {
  /** The time of the audit entry. */
  readonly at: number;
  /** The keys of the audit log in the source. */
  readonly chainKeys: ChainKeys;
  readonly onTable?: (table: string) => void;
}

/**
 * Copies all tables in one transaction, and adds an audit entry. No other process may use the source during the copy.
 * The target must have the newest schema. Returns the number of rows by table. Throws `NotEmpty` if the target has rows.
 */
export function copyToPostgres(
  source: Database,
  target: Db,
  { at, chainKeys, onTable }: CopyOptions,
): Promise<Record<string, number>> {
  return target.exclusively(async (tx) => {
    await requireEmpty(tx);
    const counts: Record<string, number> = {};
    for (const table of copiedTables) {
      onTable?.(table);
      counts[table] = await copyTable(source, tx, table);
    }
    await tx.run(`analyze ${copiedTables.join(', ')}`);
    const difference = { database: { from: 'sqlite', to: 'postgres' } };
    await toolWriter(target, chainKeys)(tx, [{ ...byOperator, at, operation: 'database.copy', difference }]);
    return counts;
  }, 'slow');
}

async function requireEmpty(tx: Queries): Promise<void> {
  for (const table of copiedTables)
    if (await tx.get(`select 1 as one from ${table} limit 1`))
      throw new NotEmpty(`the table ${table} has rows`);
}

/** The number of rows, and the approximate number of bytes, after which an insert is sent. */
const maxRows = 500;
const maxBytes = 4_000_000;

type Row = Record<string, Value>;

async function copyTable(source: Database, tx: Queries, table: string): Promise<number> {
  const columns = await columnsOf(tx, table);
  const types = Object.fromEntries(columns.map(({ name, type }) => [name, type]));
  const rows = target<Row>(table, types);
  const select = source.query<Row, []>(`select ${Object.keys(types).join(', ')} from ${table}`);
  for (const batch of batches(select.iterate())) await tx.insert(rows, batch);
  const count = `select count(*) as rows from ${table}`;
  const expected = source.query<{ rows: number }, []>(count).get()?.rows;
  const copied = Number((await tx.get<{ rows: string }>(count))?.rows);
  if (copied !== expected) throw new Error(`the table ${table} has ${copied} rows instead of ${expected}`);
  return copied;
}

interface Column {
  readonly name: string;
  readonly type: ColumnType;
}

export function columnsOf(tx: Queries, table: string): Promise<Column[]> {
  return Promise.resolve(
    tx.all<Column>(sql`select column_name as name, data_type as type
      from information_schema.columns where table_schema = current_schema() and table_name = ${table}
      order by ordinal_position`),
  );
}

function* batches(rows: Iterable<Row>): Generator<Row[]> {
  let batch: Row[] = [];
  let bytes = 0;
  for (const row of rows) {
    batch.push(row);
    for (const value of Object.values(row))
      bytes += typeof value === 'string' || value instanceof Uint8Array ? value.length : 8;
    if (batch.length < maxRows && bytes < maxBytes) continue;
    yield batch;
    batch = [];
    bytes = 0;
  }
  yield batch;
}
