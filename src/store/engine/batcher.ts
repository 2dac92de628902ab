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
  { maxBatch, maxInFlight }: BatchLimits = { maxBatch: Infinity, maxInFlight: Infinity },
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

interface Lookup {
  readonly key: Uint8Array;
  readonly name: string;
  readonly resolve: (row: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Returns a lookup function. Concurrent lookups share one query, which is sent after the last of them was requested.
 * `fetch` returns rows with their `key`, in any order.
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
