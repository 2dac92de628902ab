interface Wanted<R> {
  readonly key: Uint8Array;
  readonly asked: PromiseWithResolvers<R | undefined>[];
}

/**
 * Look-ups that are asked for within one tick share one query, sent after the last of them was asked for.
 * `fetch` answers with rows that carry their `key`, in any order; a key without a row means there is none.
 */
export function batched(fetch: (sql: string, keys: Uint8Array[]) => Promise<unknown[]>) {
  const waiting = new Map<string, Map<string, Wanted<unknown>>>();

  async function send(sql: string): Promise<void> {
    const wanted = waiting.get(sql) as Map<string, Wanted<unknown>>;
    waiting.delete(sql);
    try {
      const rows = await fetch(
        sql,
        Array.from(wanted.values(), ({ key }) => key),
      );
      const found = new Map(rows.map((row) => [nameOf((row as { key: Uint8Array }).key), row]));
      for (const [name, { asked }] of wanted) for (const { resolve } of asked) resolve(found.get(name));
    } catch (error) {
      for (const { asked } of wanted.values()) for (const { reject } of asked) reject(error);
    }
  }

  return <R>(sql: string, key: Uint8Array): Promise<R | undefined> => {
    let wanted = waiting.get(sql);
    if (!wanted) {
      wanted = new Map();
      waiting.set(sql, wanted);
      setImmediate(send, sql);
    }
    const name = nameOf(key);
    const entry = wanted.get(name) ?? { key, asked: [] };
    wanted.set(name, entry);
    const asking = Promise.withResolvers<unknown>();
    entry.asked.push(asking);
    return asking.promise as Promise<R | undefined>;
  };
}

function nameOf(key: Uint8Array): string {
  return Buffer.from(key.buffer, key.byteOffset, key.byteLength).toString('latin1');
}
