import { batcher } from './batcher.ts';

interface Wanted {
  readonly key: Uint8Array;
  readonly name: string;
  readonly resolve: (row: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Concurrent lookups share one query, which is sent after the last of them was requested. `fetch` returns rows with
 * their `key`, in any order.
 */
export function batched(fetch: (sql: string, keys: Uint8Array[]) => Promise<unknown[]>) {
  const lines = new Map<string, (wanted: Wanted) => void>();

  async function send(sql: string, load: readonly Wanted[]): Promise<void> {
    const keys = new Map(load.map(({ name, key }) => [name, key]));
    try {
      const rows = await fetch(sql, [...keys.values()]);
      const found = new Map(rows.map((row) => [nameOf((row as { key: Uint8Array }).key), row]));
      for (const { name, resolve } of load) resolve(found.get(name));
    } catch (error) {
      for (const { reject } of load) reject(error);
    }
  }

  function lineOf(sql: string): (wanted: Wanted) => void {
    const known = lines.get(sql);
    if (known) return known;
    const line = batcher<Wanted>((load) => send(sql, load));
    lines.set(sql, line);
    return line;
  }

  return <R>(sql: string, key: Uint8Array): Promise<R | undefined> =>
    new Promise((resolve, reject) => {
      lineOf(sql)({ key, name: nameOf(key), resolve: resolve as (row: unknown) => void, reject });
    });
}

function nameOf(key: Uint8Array): string {
  const bytes = key instanceof Buffer ? key : Buffer.from(key.buffer, key.byteOffset, key.byteLength);
  return bytes.toString('latin1');
}
