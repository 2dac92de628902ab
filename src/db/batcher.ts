import type { Key } from './db.ts';

/** Maximum time in milliseconds that an item waits for a running batch to finish. */
const maxDelay = 2;

export interface BatchLimits {
  readonly maxBatch: number;
  /** Batches of one group that are sent at a time. */
  readonly maxInFlight: number;
  /** Batches of all groups that are sent at a time. */
  readonly maxTotal?: number;
}

interface Group<T> {
  readonly name: string;
  readonly waiting: T[];
  inFlight: number;
  timer?: ReturnType<typeof setTimeout> | undefined;
}

/**
 * Collects the items of each group into batches: everything added in one tick, or while earlier batches of the group are
 * in flight, is sent together. The higher the load, the larger the batches. `send` must not reject.
 */
export function batcher<T>(
  send: (batch: T[]) => Promise<void>,
  { maxBatch, maxInFlight, maxTotal = Number.POSITIVE_INFINITY }: BatchLimits,
  groupOf: (item: T) => string = () => '',
): (item: T) => void {
  const groups = new Map<string, Group<T>>();
  /** Groups that wait because of `maxTotal`, in the order in which they began to wait. */
  const delayed = new Set<Group<T>>();
  let total = 0;

  function sendOrWait(group: Group<T>): void {
    if (group.inFlight === 0 || group.waiting.length >= maxBatch) sendNext(group);
    else group.timer ??= setTimeout(sendNext, maxDelay, group);
  }

  async function sendNext(group: Group<T>): Promise<void> {
    clearTimeout(group.timer);
    group.timer = undefined;
    delayed.delete(group);
    if (group.waiting.length === 0 || group.inFlight >= maxInFlight) return;
    if (total >= maxTotal) {
      delayed.add(group);
      return;
    }
    const batch = group.waiting.splice(0, maxBatch);
    group.inFlight++;
    total++;
    if (group.waiting.length > 0) sendOrWait(group);
    await send(batch);
    group.inFlight--;
    total--;
    // Lets requests that have just arrived join the next batch.
    if (group.waiting.length > 0) setImmediate(sendNext, group);
    else if (group.inFlight === 0) groups.delete(group.name);
    for (const next of delayed) {
      setImmediate(sendNext, next);
      break;
    }
  }

  function groupNamed(name: string): Group<T> {
    const existing = groups.get(name);
    if (existing) return existing;
    const created = { name, waiting: [], inFlight: 0 };
    groups.set(name, created);
    return created;
  }

  return (item) => {
    const group = groupNamed(groupOf(item));
    const count = group.waiting.push(item);
    if (count === 1 || count === maxBatch) setImmediate(sendOrWait, group);
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

export type Wanted = Pick<Lookup, 'key' | 'params'>;

/**
 * Returns a lookup function. Concurrent lookups of the same group share one query, which is sent after the last of them
 * was requested: those with the same `params`, unless `groupOf` says otherwise. `fetch` returns the row of each, in
 * their order.
 */
export function batched(
  fetch: (sql: string, wanted: readonly Wanted[]) => Promise<readonly unknown[]>,
  groupOf: (sql: string, params: readonly string[]) => string = (_, params) => params.join(),
) {
  const batchers = new Map<string, (lookup: Lookup) => void>();

  async function send(sql: string, lookups: readonly Lookup[]): Promise<void> {
    const same = Map.groupBy(lookups, ({ name }) => name);
    const wanted = [...same.values()].map(([first]) => first as Lookup);
    try {
      const rows = await fetch(sql, wanted);
      for (const [at, { name }] of wanted.entries())
        for (const { resolve } of same.get(name) ?? []) resolve(rows[at]);
    } catch (error) {
      for (const { reject } of lookups) reject(error);
    }
  }

  function batcherOf(sql: string): (lookup: Lookup) => void {
    const existing = batchers.get(sql);
    if (existing) return existing;
    const created = batcher<Lookup>(
      (lookups) => send(sql, lookups),
      lookupLimits,
      ({ params }) => groupOf(sql, params),
    );
    batchers.set(sql, created);
    return created;
  }

  return <R>(sql: string, key: Key, params: readonly string[]): Promise<R | undefined> =>
    new Promise((resolve, reject) => {
      batcherOf(sql)({
        key,
        name: `${nameOf(key)} ${params}`,
        params,
        resolve: resolve as (row: unknown) => void,
        reject,
      });
    });
}

export function nameOf(key: Key): string {
  if (typeof key === 'string') return key;
  const bytes = key instanceof Buffer ? key : Buffer.from(key.buffer, key.byteOffset, key.byteLength);
  return bytes.toString('latin1');
}
