/** Helpers for SQL text and its parameters. */
import type { DbTime, Queries } from './db.ts';
import type { Statement, Target, Value } from './statement.ts';

/** Collects the parameters of a statement while its text is built. */
export class Params {
  readonly values: Value[] = [];

  add(value: Value): string {
    return `$${this.values.push(value)}`;
  }
  /** Returns a list of placeholders for `in`. An empty list matches nothing. */
  list(values: readonly Value[]): string {
    if (values.length === 0) return '(null)';
    return `(${padded(values)
      .map((value) => this.add(value))
      .join(', ')})`;
  }
}

/** Repeats the last value until there are 1, 2, 4, 8 … of them, to limit the number of prepared statements. */
export function padded<T>(values: readonly T[]): readonly T[] {
  const last = values.at(-1);
  if (last === undefined) return [];
  const length = 2 ** Math.ceil(Math.log2(values.length));
  return Array.from({ length }, (_, at) => values[at] ?? last);
}

/** Joins conditions with `and`. Leaves out missing ones. */
export function all(...conditions: (string | false | undefined)[]): string {
  return conditions.filter(Boolean).join(' and ');
}

/** Whether a column contains a text that is not empty. `like` takes 40 times as long on SQLite for chosen texts. */
export function includes(column: string, text: string): string {
  return `replace(${column}, ${text}, '') <> ${column}`;
}

export const everyTenantMark = '/* every tenant */';

/**
 * Marks a statement of a background job or a command that reads or changes rows of all tenants. The tests fail on other
 * statements that do not name the tenant.
 */
export function everyTenant(sql: string): string {
  return `${sql} ${everyTenantMark}`;
}

export async function databaseTime(db: Pick<Queries, 'get'>): Promise<number> {
  return Number((await db.get<{ now: DbTime }>('select :now as now'))?.now);
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
): Statement[] {
  const inserted: Statement[] = [];
  for (let from = 0, count = 0; from < rows.length; from += count) {
    const left = rows.length - from;
    count = left <= fewValues ? left : Math.min(maxValues, 2 ** Math.floor(Math.log2(left)));
    const params = new Params();
    const tuples = rows
      .slice(from, from + count)
      .map(
        (row) =>
          `(${columns.map(([name, type]) => `cast(${params.add(row[name] as Value)} as ${type})`).join(', ')})`,
      );
    inserted.push({ sql: listed(tuples.join(', ')), params: params.values });
  }
  return inserted;
}
