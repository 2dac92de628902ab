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
export type TableName = (table: string) => Clause;

type KeyType = 'uuid' | 'text' | 'bytea';

/**
 * `wanted` must select a column as `key` and compare it with `= ${key}`, and end with a `where` clause, to which a condition
 * can be appended. `key` and `tenant` may be any SQL. Tables of tenants must be named by `table`.
 */
export function lookup<R>(
  type: KeyType,
  wanted: (key: Clause, tenant: Clause, table: TableName) => Clause,
): Lookup<R> {
  const shards = new WeakMap<Tables, LookupTexts>();
  const textsIn = (table: TableName) => {
    const text = (key: string, tenant: string) => sql`${wanted(raw(key), raw(tenant), table)}`[0];
    return { one: text('$1', '$2'), some: text('any($1)', '$2'), each: text('wanted.key', 'wanted.tenant') };
  };
  return {
    type,
    ...textsIn(raw),
    inShard: (tables) => {
      const texts = shards.get(tables) ?? textsIn((name) => raw(tables[name] ?? name));
      shards.set(tables, texts);
      return texts;
    },
  };
}

/** A statement with its parameters. */
export type Bound = readonly [text: string, params: readonly Value[]];

/** What `Queries` run. A text has no parameters. */
export type Statement = string | Bound;

export function boundOf(statement: Statement): Bound {
  return typeof statement === 'string' ? [statement, []] : statement;
}

/** A value that stands in a statement several times, as one parameter. */
export class Param {
  readonly value: Value;

  constructor(value: Value) {
    this.value = value;
  }
}

/** A piece of SQL with the values in it. */
export class Clause {
  /** Before, between and after the pieces. */
  readonly texts: readonly string[];
  readonly pieces: readonly Piece[];

  constructor(texts: readonly string[], pieces: readonly Piece[]) {
    this.texts = texts;
    this.pieces = pieces;
  }
}

/** A value or a piece of SQL. Undefined is null; false is no SQL. */
export type Piece = Value | undefined | Param | Clause | false;

/** SQL of this program, such as the name of a column. Never a value of a caller. */
export function raw(text: string): Clause {
  return new Clause([text], []);
}

export const none = raw('');

export function clause(texts: TemplateStringsArray, ...pieces: readonly Piece[]): Clause {
  return new Clause(texts, pieces);
}

/** A statement. Its values become parameters. */
export function sql(texts: readonly string[], ...pieces: readonly Piece[]): Bound {
  const params: (Value | Param)[] = [];
  let text = '';
  function write(texts: readonly string[], pieces: readonly Piece[]): void {
    text += texts[0];
    for (let at = 0; at < pieces.length; at++) {
      const piece = pieces[at] as Piece;
      if (piece instanceof Clause) write(piece.texts, piece.pieces);
      else if (piece !== false) {
        const known = piece instanceof Param ? params.indexOf(piece) : -1;
        text += `$${known < 0 ? params.push(piece ?? null) : known + 1}`;
      }
      text += texts[at + 1];
    }
  }
  write(texts, pieces);
  return [text, params.map((param) => (param instanceof Param ? param.value : param))];
}

/** A list of values for `in`. An empty list matches nothing. */
export function list(values: readonly (Value | Param)[]): Clause {
  return values.length === 0 ? raw('(null)') : tuple(padded(values));
}

export function tuple(values: readonly (Value | Param)[]): Clause {
  return new Clause(['(', ...values.slice(1).map(() => ', '), ')'], values);
}

/** Repeats the last value until there are 1, 2, 4, 8 … of them, to limit the number of prepared statements. */
export function padded<T>(values: readonly T[]): readonly T[] {
  const last = values.at(-1);
  if (last === undefined) return [];
  const length = 2 ** Math.ceil(Math.log2(values.length));
  return Array.from({ length }, (_, at) => values[at] ?? last);
}

/** Joins conditions with `and`. Leaves out missing ones. */
export function all(...conditions: readonly (Clause | string | false | undefined)[]): Clause {
  return conditions
    .flatMap((one) => (one ? [typeof one === 'string' ? raw(one) : one] : []))
    .reduce((before, next) => clause`${before} and ${next}`);
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
