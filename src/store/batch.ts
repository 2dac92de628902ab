interface Wanted<R> {
  readonly key: Uint8Array;
  readonly asked: PromiseWithResolvers<R | undefined>[];
}

/** Milliseconds that look-ups wait at most for a query under way to come back. */
const hold = 2;

interface Line {
  wanted: Map<string, Wanted<unknown>>;
  /** How many queries are under way. */
  out: number;
  held: ReturnType<typeof setTimeout> | undefined;
}

/**
 * Look-ups that are asked for within one tick, or while an earlier query is under way, share one query, sent
 * after the last of them was asked for: the busier it is, the more of them share one. `fetch` answers with rows
 * that carry their `key`, in any order; a key without a row means there is none.
 */
export function batched(fetch: (sql: string, keys: Uint8Array[]) => Promise<unknown[]>) {
  const lines = new Map<string, Line>();

  function lineOf(sql: string): Line {
    const known = lines.get(sql);
    if (known) return known;
    const line = { wanted: new Map(), out: 0, held: undefined };
    lines.set(sql, line);
    return line;
  }

  function sendOrHold(sql: string, line: Line): void {
    if (line.out === 0) send(sql, line);
    else line.held ??= setTimeout(send, hold, sql, line);
  }

  async function send(sql: string, line: Line): Promise<void> {
    const { wanted } = line;
    clearTimeout(line.held);
    line.held = undefined;
    if (wanted.size === 0) return;
    line.wanted = new Map();
    line.out++;
    try {
      const rows = await fetch(
        sql,
        Array.from(wanted.values(), ({ key }) => key),
      );
      const found = new Map(rows.map((row) => [nameOf((row as { key: Uint8Array }).key), row]));
      for (const [name, { asked }] of wanted) for (const { resolve } of asked) resolve(found.get(name));
    } catch (error) {
      for (const { asked } of wanted.values()) for (const { reject } of asked) reject(error);
    } finally {
      line.out--;
      if (line.held) send(sql, line);
    }
  }

  return <R>(sql: string, key: Uint8Array): Promise<R | undefined> => {
    const line = lineOf(sql);
    if (line.wanted.size === 0) setImmediate(sendOrHold, sql, line);
    const name = nameOf(key);
    const entry = line.wanted.get(name) ?? { key, asked: [] };
    line.wanted.set(name, entry);
    const asking = Promise.withResolvers<unknown>();
    entry.asked.push(asking);
    return asking.promise as Promise<R | undefined>;
  };
}

function nameOf(key: Uint8Array): string {
  return Buffer.from(key.buffer, key.byteOffset, key.byteLength).toString('latin1');
}
