/**
 * Quotas per application for pending sessions and for bytes of stored tokens. They stop clients with a public key from
 * filling the disk. A count from the database is used for one second. Requests of this process since then are added.
 */
import type { Failure } from '../../domain/error.ts';

export interface Quota {
  /** Reserves `amount`, 1 by default. Throws if that would exceed the quota. */
  reserve(tenant: string, application: string, amount?: number): Promise<Release>;
}

/**
 * Call this when the request is done. The reserved amount then counts as used, until the next count from the database.
 */
export type Release = () => void;

/** Milliseconds for which a count is reused. Rows that are deleted, or added by other processes, are noticed later. */
const maxCountAge = 1000;
/** Maximum applications whose count is cached. */
const maxApplications = 10_000;

interface CachedCount {
  countedAt: number;
  counted: number;
  /** Amount that requests of this process released since the count. */
  since: number;
  /** Amount reserved by requests in progress. The count may already include their rows. */
  reserved: number;
  counting: Promise<void> | undefined;
}

/** Returns the amount that the application uses. May stop counting at `max`. */
type Count = (tenant: string, application: string, max: number) => Promise<number>;

/** A `max` of 0 means no limit. `exceeded` makes the error to throw. */
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

  /**
   * Returns false if the count is old. Also returns false if the quota is exceeded only together with requests since
   * the count, because rows may have been deleted since then.
   */
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
