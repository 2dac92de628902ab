/** Helpers for SQL text and its parameters. */
import type { Db, DbTime, Queries, Value } from './db.ts';

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

export interface Statement {
  readonly sql: string;
  readonly params: readonly Value[];
  /** Whether `onCitus` runs it even if the first statement changes no row, because the transaction then fails. */
  readonly atOnce?: true;
}

/** By the statement that they replace. */
export const alternatives = new Map<string, (params: readonly Value[]) => readonly Statement[]>();

/**
 * Says what a Citus cluster runs instead of `sql`, which it would commit in two phases, even if only one server has the
 * rows. If the first statement changes no row, the others do not run. They are sent together. Must be called inside a
 * transaction.
 */
export function onCitus(sql: string, instead: (params: readonly Value[]) => readonly Statement[]): string {
  alternatives.set(sql, instead);
  return sql;
}

/**
 * By the lookup that they replace. Their parameters are a list of keys and a list of their tenants. `at` is the place of
 * each row in the lists, from 1.
 */
export const rowLookups = new Map<string, string>();

interface JoinedLookup {
  readonly columns: string;
  /** The first table has the key. The alias of each table is one letter. */
  readonly from: string;
  /** The column with the key, such as `k.digest`. */
  readonly key: string;
  readonly where: string;
  /** A function that returns the joined rows, in columns with the names of the aliases: see citus.ts. */
  readonly rows: string;
  /** Replaces `where`, if that has subqueries. */
  readonly whereOfRows?: string;
}

/** The SQL of a lookup with joins. The worker of a Citus cluster with the rows of the tenant calls `rows` instead. */
export function joinedLookup({ columns, from, key, where, rows, whereOfRows = where }: JoinedLookup): string {
  const sql = `select ${columns} from ${from} where ${key[0]}.tenant_id = $2 and ${key} = :key and ${where}`;
  const ofRows = (text: string) => text.replace(/\b([a-z])\./g, '(r.$1).');
  const found = `${rows}((select cast($2 as uuid[])), (select cast($1 as bytea[]))) as r`;
  rowLookups.set(sql, `select r.at, ${ofRows(columns)} from ${found} where ${ofRows(whereOfRows)}`);
  return sql;
}

/** Rows per statement. A parameter has a number of 16 bits. */
const maxValues = 512;
const fewValues = 16;

/**
 * Statements that list rows in `values`. Bytes are in hex. A statement has up to 16 rows, or 32, 64 …, to limit the
 * number of prepared statements.
 */
export function insertValues(
  into: string,
  types: readonly ColumnType[],
  rows: readonly (readonly Value[])[],
  onConflict = '',
): Statement[] {
  const typed = (param: string, type: ColumnType | undefined) =>
    type === 'bytea' ? `decode(${param}, 'hex')` : `cast(${param} as ${type})`;
  const inserted: Statement[] = [];
  for (let from = 0, count = 0; from < rows.length; from += count) {
    const left = rows.length - from;
    count = left <= fewValues ? left : Math.min(maxValues, 2 ** Math.floor(Math.log2(left)));
    const params = new Params();
    const tuples = rows
      .slice(from, from + count)
      .map((row) => `(${row.map((value, at) => typed(params.add(value), types[at])).join(', ')})`);
    inserted.push({ sql: `${into} values ${tuples.join(', ')} ${onConflict}`, params: params.values });
  }
  return inserted;
}

export type ColumnType = 'uuid' | 'text' | 'smallint' | 'integer' | 'bigint' | 'bytea' | '"char"';

/** The fields of each row must be in the order of the columns. */
export type Insert<R> = (tx: Queries, rows: readonly R[]) => Promise<void>;

/** Inserts rows on PostgreSQL if `condition` finds a row for the tenant, and returns whether it did. */
export type InsertIf<R> = (tx: Queries, rows: readonly R[], tenant: string) => Promise<boolean>;

/**
 * Inserts many rows into one table: on PostgreSQL in one statement, to save round trips. `onConflict` is the end of the
 * statement.
 */
export function inserter<R extends Record<string, Value>>(
  table: string,
  columns: Record<keyof R & string, ColumnType>,
  onConflict = '',
): Record<Db['dialect'], Insert<R>> & { insertIf(condition: string): InsertIf<R> } {
  const names = Object.keys(columns);
  const types = Object.entries<ColumnType>(columns);
  const into = `insert into ${table} (${names.join(', ')})`;
  const one = `${into} values (${names.map((_, at) => `$${at + 1}`).join(', ')}) ${onConflict}`;
  const selected = types.map(([name, type]) => (type === 'bytea' ? `decode(${name}, 'hex')` : name));
  const declared = types.map(([name, type]) => `${name} ${type === 'bytea' ? 'text' : type}`);
  const fromJson = `${into} select ${selected.join(', ')}
    from json_to_recordset(cast(cast($1 as text) as json)) as rows (${declared.join(', ')})`;
  const listed = (json: Value | undefined) => {
    const rows = (JSON.parse(json as string) as Record<string, Value>[]).map((row) => Object.values(row));
    return insertValues(into, Object.values(columns), rows, onConflict);
  };
  const many = onCitus(`${fromJson} ${onConflict}`, ([json]) => listed(json));
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
    insertIf: (condition) => {
      const manyIf = onCitus(`${fromJson} where exists (${condition})`, ([json, tenant = null]) => [
        { sql: condition.replace('$2', '$1'), params: [tenant] },
        ...listed(json).map((each) => ({ ...each, atOnce: true as const })),
      ]);
      return async (tx, rows, tenant) =>
        (await tx.run(manyIf, [JSON.stringify(rows.map(bytesToHex)), tenant])) > 0;
    },
  };
}

function bytesToHex(row: Record<string, Value>): Record<string, Value> {
  const copy = { ...row };
  for (const [name, value] of Object.entries(copy))
    if (value instanceof Uint8Array) copy[name] = value.toHex();
  return copy;
}
