/**
 * Quotas per application: pending sessions, and bytes of stored tokens. With them, a public key cannot fill the
 * disk. A count from the database is reused for one second; requests of this process since then are added to it.
 */
import type { Failure } from '../../domain/error.ts';

export interface Quota {
  /** Reserves `amount`, 1 by default. Throws if that would exceed the quota. */
  reserve(tenant: string, application: string, amount?: number): Promise<Release>;
}

/** Call it when the request is done. The amount stays reserved until the next count: the request may have used it. */
export type Release = () => void;

/** For how many milliseconds a count is reused. Rows that other processes add, or that are deleted, are noticed later. */
const maxCountAge = 1000;
/** Applications whose count is cached. */
const maxApplications = 10_000;

interface CachedCount {
  countedAt: number;
  counted: number;
  /** Released by this process since it was counted. */
  since: number;
  /** Reserved by requests in progress, which the count may or may not include. */
  reserved: number;
  counting: Promise<void> | undefined;
}

/** Counts up to `max`. */
type Count = (tenant: string, application: string, max: number) => Promise<number>;

/** A quota of 0 is no limit. */
export function quota(max: number, count: Count, now: () => number, exceeded: () => Failure): Quota {
  if (max === 0) return { reserve: async () => () => {} };
  const cache = new Map<string, CachedCount>();

  function cachedCount(application: string): CachedCount {
    const known = cache.get(application);
    if (known) return known;
    if (cache.size >= maxApplications) cache.clear();
    const entry: CachedCount = {
      countedAt: -maxCountAge,
      counted: 0,
      since: 0,
      reserved: 0,
      counting: undefined,
    };
    cache.set(application, entry);
    return entry;
  }

  const isExceeded = ({ counted, since, reserved }: CachedCount, amount: number) =>
    counted + since + reserved + amount > max;

  /** A recent count suffices, unless only later requests exceed the quota: rows may have been freed since. */
  function isUsable(entry: CachedCount, amount: number): boolean {
    const isRecent = now() - entry.countedAt < maxCountAge;
    return isRecent && (entry.counted + amount > max || !isExceeded(entry, amount));
  }

  async function recount(entry: CachedCount, tenant: string, application: string): Promise<void> {
    const before = entry.since;
    entry.counted = await count(tenant, application, max);
    entry.since -= before;
    entry.countedAt = now();
  }

  /** Concurrent requests share one count. */
  function refresh(entry: CachedCount, tenant: string, application: string): Promise<void> {
    entry.counting ??= recount(entry, tenant, application).finally(() => {
      entry.counting = undefined;
    });
    return entry.counting;
  }

  return {
    reserve: async (tenant, application, amount = 1) => {
      const entry = cachedCount(application);
      if (!isUsable(entry, amount)) await refresh(entry, tenant, application);
      if (isExceeded(entry, amount)) throw exceeded();
      entry.reserved += amount;
      return () => {
        entry.reserved -= amount;
        entry.since += amount;
      };
    },
  };
}
