import { batcher } from './batcher.ts';

interface Lookup {
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
  const batchers = new Map<string, (lookup: Lookup) => void>();

  async function send(sql: string, lookups: readonly Lookup[]): Promise<void> {
    const keys = new Map(lookups.map(({ name, key }) => [name, key]));
    try {
      const rows = await fetch(sql, [...keys.values()]);
      const found = new Map(rows.map((row) => [nameOf((row as { key: Uint8Array }).key), row]));
      for (const { name, resolve } of lookups) resolve(found.get(name));
    } catch (error) {
      for (const { reject } of lookups) reject(error);
    }
  }

  function batcherOf(sql: string): (lookup: Lookup) => void {
    const existing = batchers.get(sql);
    if (existing) return existing;
    const created = batcher<Lookup>((lookups) => send(sql, lookups));
    batchers.set(sql, created);
    return created;
  }

  return <R>(sql: string, key: Uint8Array): Promise<R | undefined> =>
    new Promise((resolve, reject) => {
      batcherOf(sql)({ key, name: nameOf(key), resolve: resolve as (row: unknown) => void, reject });
    });
}

function nameOf(key: Uint8Array): string {
  const bytes = key instanceof Buffer ? key : Buffer.from(key.buffer, key.byteOffset, key.byteLength);
  return bytes.toString('latin1');
}
