import type { Db, Queries, Value } from './db.ts';

type Type = 'uuid' | 'text' | 'integer' | 'bigint' | 'bytea';

/** The fields of each row must be in the order of the columns. */
export type Insert<R> = (tx: Queries, rows: readonly R[]) => Promise<void>;

/** Inserts many rows into one table: on PostgreSQL in one statement, to save round trips. */
export function inserter<R extends Record<string, Value>>(
  table: string,
  columns: Record<keyof R & string, Type>,
): Record<Db['dialect'], Insert<R>> {
  const names = Object.keys(columns);
  const types = Object.entries<Type>(columns);
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
      await tx.run(many, [JSON.stringify(rows.map(inHex))]);
    },
  };
}

function inHex(row: Record<string, Value>): Record<string, Value> {
  const copy = { ...row };
  for (const name in copy) {
    const value = copy[name];
    if (value instanceof Uint8Array) copy[name] = value.toHex();
  }
  return copy;
}
