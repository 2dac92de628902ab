/**
 * Counts authenticated requests by tenant, interval and duration. Collected in memory and added to the database by a
 * background job: requests do not wait for it.
 */
import type { Principal } from '../../domain/principal.ts';
import {
  bucketOf,
  durationLimits,
  type IntervalCounts,
  storedInterval,
} from '../../domain/request-counts.ts';
import { writePending } from '../../domain/write-pending.ts';
import type { Store } from '../../store/store.ts';

export interface RequestCounter {
  count(principal: Principal, status: number, milliseconds: number): void;
  /** Writes what was counted. If that fails, it is written by the next flush. */
  flush(): Promise<void>;
}

/** Intervals of all tenants in memory. Requests in further ones are not counted until a flush succeeds. */
const maxIntervals = 20_000;
/** Intervals per transaction. */
const batchSize = 100;

interface PendingInterval {
  readonly tenantId: string;
  readonly start: number;
  denied: number;
  readonly durations: number[];
}

export function requestCounter(store: Pick<Store, 'requestCounts'>): RequestCounter {
  /** By tenant and start. */
  let pending = new Map<string, PendingInterval>();
  /** The interval of the last request of each tenant. All of them are in `pending`. */
  let current = new Map<string, PendingInterval>();

  function intervalAt(tenantId: string, time: number): PendingInterval | undefined {
    const start = Math.floor(time / storedInterval) * storedInterval;
    const name = `${tenantId} ${start}`;
    let interval = pending.get(name);
    if (!interval) {
      if (pending.size >= maxIntervals) return undefined;
      interval = { tenantId, start, denied: 0, durations: Array(durationLimits.length + 1).fill(0) };
      pending.set(name, interval);
    }
    current.set(tenantId, interval);
    return interval;
  }

  function putBack(unwritten: readonly PendingInterval[]): void {
    for (const { tenantId, start, ...counts } of unwritten) {
      const interval = intervalAt(tenantId, start);
      if (interval) add(interval, counts);
    }
  }

  return {
    count: ({ tenantId, now }, status, milliseconds) => {
      let interval = current.get(tenantId);
      if (!interval || now < interval.start || now >= interval.start + storedInterval) {
        interval = intervalAt(tenantId, now);
        if (!interval) return;
      }
      if (status === 403) interval.denied++;
      interval.durations[bucketOf(milliseconds)]!++;
    },

    flush: async () => {
      const intervals = [...pending.values()];
      pending = new Map();
      current = new Map();
      await writePending(intervals, batchSize, store.requestCounts.add, putBack);
    },
  };
}

function add(interval: PendingInterval, { denied, durations }: IntervalCounts): void {
  interval.denied += denied;
  for (const [bucket, count] of durations.entries()) interval.durations[bucket]! += count;
}
