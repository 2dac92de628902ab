/** Statements as values. */

export type Value = string | number | null | Uint8Array;

/** Finds one row by a unique key, from the primary: see `Queries.lookup`. */
export interface Lookup<R> extends LookupTexts {
  readonly type: KeyType;
  /** For a shard of a Citus cluster, on its worker, which plans a join of shards once instead of for every request. */
  readonly inShard: (tables: Tables) => LookupTexts;
  /** Only for the type checker. */
  readonly row?: R;
}

interface LookupTexts {
  /** By one key, $1, of the tenant $2. */
  readonly one: string;
  /** By a list of keys of one tenant. */
  readonly some: string;
  /** By a key and its tenant in a row `wanted`. */
  readonly each: string;
}

/** Names of shards by the tables to which they belong. */
export type Tables = Readonly<Record<string, string>>;

/** Returns the name of a table, or of its shard. */
export type TableName = (table: string) => string;

type KeyType = 'uuid' | 'text' | 'bytea';

/**
 * `sql` must select a column as `key` and compare it with `= ${key}`, and end with a `where` clause, to which a condition
 * can be appended. `key` and `tenant` may be any SQL. Tables of tenants must be named by `table`.
 */
export function lookup<R>(
  type: KeyType,
  sql: (key: string, tenant: string, table: TableName) => string,
): Lookup<R> {
  const shards = new WeakMap<Tables, LookupTexts>();
  const textsIn = (table: TableName) => ({
    one: sql('$1', '$2', table),
    some: sql('any($1)', '$2', table),
    each: sql('wanted.key', 'wanted.tenant', table),
  });
  return {
    type,
    ...textsIn((name) => name),
    inShard: (tables) => {
      const texts = shards.get(tables) ?? textsIn((name) => tables[name] ?? name);
      shards.set(tables, texts);
      return texts;
    },
  };
}

export interface Statement {
  readonly sql: string;
  readonly params: readonly Value[];
}

/** A statement with its parameters, for `Queries.run(...bound)`. */
export type Bound = readonly [sql: string, params: readonly Value[]];

/**
 * A statement with named parameters, which `sql` gets as SQL. Returns a function of their values. Undefined values are
 * null.
 */
export function statement<P extends string>(
  sql: (params: Readonly<Record<P, string>>) => string,
): (values: Readonly<Record<P, Value | undefined>>) => Bound {
  const names: P[] = [];
  const numbered = (_: unknown, name: string) => {
    if (!names.includes(name as P)) names.push(name as P);
    return `$${names.indexOf(name as P) + 1}`;
  };
  const params = new Proxy<Record<string, string>>({}, { get: numbered });
  const text = sql(params as Record<P, string>);
  return (values) => [text, names.map((name) => values[name] ?? null)];
}

export type ColumnType = 'uuid' | 'text' | 'smallint' | 'integer' | 'bigint' | 'bytea' | '"char"';

/** Where rows are inserted: see `Queries.insert`. The fields of each row must be in the order of the columns. */
export interface Target<R> {
  readonly columns: readonly (readonly [name: keyof R & string, type: ColumnType])[];
  /** Inserts one row. The parameters are its columns. */
  readonly one: string;
  /** Inserts the rows in `values`. */
  readonly listed: (values: string) => string;
  /** Inserts rows that a parameter has as JSON, bytes in hex, where a condition is true. */
  readonly fromJson: (param: string, where?: string) => string;
}

/** `onConflict` is the end of each statement. */
export function target<R extends Record<string, Value>>(
  table: string,
  columns: Record<keyof R & string, ColumnType>,
  onConflict = '',
): Target<R> {
  const types = Object.entries<ColumnType>(columns);
  const into = `insert into ${table} (${types.map(([name]) => name).join(', ')})`;
  const selected = types
    .map(([name, type]) => (type === 'bytea' ? `decode(${name}, 'hex')` : name))
    .join(', ');
  const declared = types.map(([name, type]) => `${name} ${type === 'bytea' ? 'text' : type}`).join(', ');
  const listed = (values: string) => `${into} values ${values} ${onConflict}`;
  return {
    columns: types,
    one: listed(`(${types.map((_, at) => `$${at + 1}`).join(', ')})`),
    listed,
    fromJson: (param, where = '') => `${into} select ${selected}
      from json_to_recordset(cast(cast(${param} as text) as json)) as rows (${declared}) ${where} ${onConflict}`,
  };
}
