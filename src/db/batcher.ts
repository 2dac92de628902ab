import type { Key, Queries } from './db.ts';
import type { Lookup } from './statement.ts';

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

export interface Wanted {
  readonly key: Key;
  readonly tenant: string | undefined;
  /** Names key and tenant. */
  readonly name: string;
}

interface Waiting extends Wanted {
  readonly resolve: (row: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Returns a lookup function. Concurrent lookups of a group share one query, which is sent after the last of them was
 * requested. `fetch` returns the row of each, in their order.
 */
export function batched(
  fetch: (lookup: Lookup<unknown>, wanted: readonly Wanted[]) => Promise<readonly unknown[]>,
  groupOf: (tenant: string | undefined) => string = () => '',
): Queries['lookup'] {
  const batchers = new Map<Lookup<unknown>, (waiting: Waiting) => void>();

  async function send(lookup: Lookup<unknown>, lookups: readonly Waiting[]): Promise<void> {
    const same = Map.groupBy(lookups, ({ name }) => name);
    const wanted = [...same.values()].map(([first]) => first as Waiting);
    try {
      const rows = await fetch(lookup, wanted);
      for (const [at, { name }] of wanted.entries())
        for (const { resolve } of same.get(name) ?? []) resolve(rows[at]);
    } catch (error) {
      for (const { reject } of lookups) reject(error);
    }
  }

  function batcherOf(lookup: Lookup<unknown>): (waiting: Waiting) => void {
    const existing = batchers.get(lookup);
    if (existing) return existing;
    const created = batcher<Waiting>(
      (lookups) => send(lookup, lookups),
      lookupLimits,
      ({ tenant }) => groupOf(tenant),
    );
    batchers.set(lookup, created);
    return created;
  }

  return <R>(lookup: Lookup<R>, key: Key, tenant?: string): Promise<R | undefined> =>
    new Promise((resolve, reject) => {
      const name = nameOf(key, tenant);
      batcherOf(lookup)({ key, name, tenant, resolve: resolve as (row: unknown) => void, reject });
    });
}

export function nameOf(key: Key, tenant = ''): string {
  if (typeof key === 'string') return `${key} ${tenant}`;
  const bytes = key instanceof Buffer ? key : Buffer.from(key.buffer, key.byteOffset, key.byteLength);
  return `${bytes.toString('latin1')} ${tenant}`;
}
