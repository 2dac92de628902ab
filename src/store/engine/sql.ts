/** Helpers for SQL text and its parameters. */
import type { Db, DbTime, Queries, Value } from './db.ts';

/** Collects the parameters of a statement while its text is built. */
export class Params {
  readonly values: Value[] = [];

  /** Returns the placeholder for the value. */
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

export type ColumnType = 'uuid' | 'text' | 'smallint' | 'integer' | 'bigint' | 'bytea';

/** The fields of each row must be in the order of the columns. */
export type Insert<R> = (tx: Queries, rows: readonly R[]) => Promise<void>;

/** Inserts many rows into one table: on PostgreSQL in one statement, to save round trips. */
export function inserter<R extends Record<string, Value>>(
  table: string,
  columns: Record<keyof R & string, ColumnType>,
): Record<Db['dialect'], Insert<R>> {
  const names = Object.keys(columns);
  const types = Object.entries<ColumnType>(columns);
  const into = `insert into ${table} (${names.join(', ')})`;
  const one = `${into} values (${names.map((_, at) => `$${at + 1}`).join(', ')})`;
  const selected = types.map(([name, type]) => (type === 'bytea' ? `decode(${name}, 'hex')` : name));
  const declared = types.map(([name, type]) => `${name} ${type === 'bytea' ? 'text' : type}`);
  const many = `${into} select ${selected.join(', ')}
    from json_to_recordset(cast(cast($1 as text) as json)) as rows (${declared.join(', ')})`;
  return {
    sqlite: async (tx, rows) => {
      for (const row of rows) {
        const running = tx.run(one, Object.values(row));
        if (running instanceof Promise) await running;
      }
    },
    postgres: async (tx, rows) => {
      if (rows.length > 0) await tx.run(many, [JSON.stringify(rows.map(bytesToHex))]);
    },
  };
}

function bytesToHex(row: Record<string, Value>): Record<string, Value> {
  const copy = { ...row };
  for (const [name, value] of Object.entries(copy))
    if (value instanceof Uint8Array) copy[name] = value.toHex();
  return copy;
}
