import type { Key } from './db.ts';

/** Maximum time in milliseconds that an item waits for a running batch to finish. */
const maxDelay = 2;

export interface BatchLimits {
  readonly maxBatch: number;
  readonly maxInFlight: number;
}

/**
 * Collects items into batches: everything added in one tick, or while earlier batches are in flight, is sent
 * together. The higher the load, the larger the batches. `send` must not reject.
 */
export function batcher<T>(
  send: (batch: T[]) => Promise<void>,
  { maxBatch, maxInFlight }: BatchLimits,
): (item: T) => void {
  let waiting: T[] = [];
  let inFlight = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;

  function sendOrWait(): void {
    if (inFlight === 0 || waiting.length >= maxBatch) sendNext();
    else timer ??= setTimeout(sendNext, maxDelay);
  }

  async function sendNext(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    if (waiting.length === 0 || inFlight >= maxInFlight) return;
    const batch = waiting.slice(0, maxBatch);
    waiting = waiting.slice(batch.length);
    inFlight++;
    if (waiting.length > 0) sendOrWait();
    await send(batch);
    inFlight--;
    // Lets requests that have just arrived join the next batch.
    if (waiting.length > 0) setImmediate(sendNext);
  }

  return (item) => {
    const count = waiting.push(item);
    if (count === 1 || count === maxBatch) setImmediate(sendOrWait);
  };
}

/** A row can have a megabyte. More rows per query would save little. */
const lookupLimits = { maxBatch: 32, maxInFlight: Infinity };

interface Lookup {
  readonly key: Key;
  readonly name: string;
  readonly params: readonly string[];
  readonly resolve: (row: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Returns a lookup function. Concurrent lookups with the same `params` share one query, which is sent after the last of
 * them was requested. `fetch` returns rows with their `key`, in any order.
 */
export function batched(fetch: (sql: string, keys: Key[], params: readonly string[]) => Promise<unknown[]>) {
  const batchers = new Map<string, (lookup: Lookup) => void>();

  async function send(sql: string, lookups: readonly Lookup[]): Promise<void> {
    const groups = Map.groupBy(lookups, ({ params }) => params.join());
    await Promise.all(Array.from(groups.values(), (group) => sendGroup(sql, group)));
  }

  async function sendGroup(sql: string, lookups: readonly Lookup[]): Promise<void> {
    const keys = new Map(lookups.map(({ name, key }) => [name, key]));
    try {
      const rows = await fetch(sql, [...keys.values()], (lookups[0] as Lookup).params);
      const found = new Map(rows.map((row) => [nameOf((row as { key: Key }).key), row]));
      for (const { name, resolve } of lookups) resolve(found.get(name));
    } catch (error) {
      for (const { reject } of lookups) reject(error);
    }
  }

  function batcherOf(sql: string): (lookup: Lookup) => void {
    const existing = batchers.get(sql);
    if (existing) return existing;
    const created = batcher<Lookup>((lookups) => send(sql, lookups), lookupLimits);
    batchers.set(sql, created);
    return created;
  }

  return <R>(sql: string, key: Key, params: readonly string[]): Promise<R | undefined> =>
    new Promise((resolve, reject) => {
      batcherOf(sql)({ key, name: nameOf(key), params, resolve: resolve as (row: unknown) => void, reject });
    });
}

function nameOf(key: Key): string {
  if (typeof key === 'string') return key;
  const bytes = key instanceof Buffer ? key : Buffer.from(key.buffer, key.byteOffset, key.byteLength);
  return bytes.toString('latin1');
}
