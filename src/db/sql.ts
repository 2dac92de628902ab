/** Helpers for SQL text and its parameters. */

import type { DbTime, Queries } from './db.ts';
import {
  type Bound,
  type Clause,
  clause,
  raw,
  type Statement,
  type Target,
  type Value,
} from './statement.ts';

/** Whether a column contains a text that is not empty. `like` takes 40 times as long on SQLite for chosen texts. */
export function includes(column: string, text: string): Clause {
  return clause`replace(${raw(column)}, ${text}, '') <> ${raw(column)}`;
}

export const everyTenantMark = '/* every tenant */';

/**
 * Marks a statement of a background job or a command that reads or changes rows of all tenants. The tests fail on other
 * statements that do not name the tenant.
 */
export const everyTenant = raw(everyTenantMark);

export async function databaseTime(db: Pick<Queries, 'get'>): Promise<number> {
  return Number((await db.get<{ now: DbTime }>('select :now as now'))?.now);
}

/** The number in the column `value` of the row. 0 if it is null, or without a row. */
export async function numberIn(db: Pick<Queries, 'get'>, statement: Statement): Promise<number> {
  return Number((await db.get<{ value: DbTime | null }>(statement))?.value ?? 0);
}

/** Groups rows by tenant, in the order of the ids, so that transactions that lock rows cannot deadlock. */
export function byTenant<T>(rows: readonly T[], tenantOf: (row: T) => string): [tenant: string, rows: T[]][] {
  return [...Map.groupBy(rows, tenantOf)].sort(([a], [b]) => (a < b ? -1 : 1));
}

export function rowsToJson(rows: readonly Readonly<Record<string, Value>>[]): string {
  return JSON.stringify(
    rows.map((row) => {
      const copy = { ...row };
      for (const name in copy) {
        const value = copy[name];
        if (value instanceof Uint8Array) copy[name] = value.toHex();
      }
      return copy;
    }),
  );
}

/** Rows per statement. A parameter has a number of 16 bits. */
const maxValues = 512;
const fewValues = 16;

/**
 * Statements that list the rows, as a Citus cluster needs it: it would copy those of a `select` in two phases. A
 * statement has up to 16 rows, or 32, 64 …, to limit the number of prepared statements.
 */
export function insertValues<R extends Record<string, Value>>(
  { columns, listed }: Target<R>,
  rows: readonly R[],
): Bound[] {
  const inserted: Bound[] = [];
  for (let from = 0, count = 0; from < rows.length; from += count) {
    const left = rows.length - from;
    count = left <= fewValues ? left : Math.min(maxValues, 2 ** Math.floor(Math.log2(left)));
    const some = rows.slice(from, from + count);
    const tuple = (_: R, at: number) =>
      `(${columns.map(([, type], column) => `cast($${at * columns.length + column + 1} as ${type})`).join(', ')})`;
    const values = some.flatMap((row) => columns.map(([name]) => row[name] as Value));
    inserted.push([listed(some.map(tuple).join(', ')), values]);
  }
  return inserted;
}
