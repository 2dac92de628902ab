/** The applications with an expiry. */
import type { Application, Sallyport } from '../../../sdk/src/sallyport.ts';
import { maxNewest, useNewestApplications } from '../applications/application-store.ts';
import { useLoad } from '../frame/load.ts';
import { useSignedIn } from '../frame/signed-in.ts';
import { countsWithin, horizonEnds, never } from './summaries.ts';

export interface Expiring {
  /** Has those that expire next. */
  readonly list: readonly Application[];
  /** How many expire within each horizon. Undefined if they are those of the list. */
  readonly counts: readonly number[] | undefined;
  readonly complete: boolean;
  /** Whether older applications are missing from the list. */
  readonly hasMore: boolean;
  readonly error: unknown;
}

/** If not all applications are loaded, the service counts those that expire, and the next ones are loaded in addition. */
export function useExpiring(): Expiring {
  const { api, applications } = useSignedIn();
  const { list, complete, hasMore, error } = useNewestApplications(applications);
  const loaded = useLoad(`expiring ${hasMore}`, async (signal) =>
    hasMore ? loadExpiring(api, signal) : undefined,
  );
  if (!hasMore) return { list, counts: undefined, complete, hasMore, error };
  return {
    list: loaded.data?.list ?? [],
    counts: loaded.data?.counts,
    complete: loaded.data !== undefined,
    hasMore: loaded.data?.hasMore ?? false,
    error: loaded.error,
  };
}

async function loadExpiring(api: Sallyport, signal: AbortSignal) {
  const ends = horizonEnds(Date.now());
  const totals = await Promise.all(
    ends.map(async (expires_before) => {
      const { pagination } = await api.applications.list({ expires_before, size: 1 }, { signal });
      return pagination.total_items;
    }),
  );
  // Lists are sorted by age, so the longest period is chosen of which all can be loaded.
  const longest = totals.findLastIndex((total = 0) => total > 0 && total <= maxNewest);
  const before = ends[longest >= 0 ? longest : totals.findIndex((total = 0) => total > 0)] ?? never;
  const counts = countsWithin(totals);
  const list: Application[] = [];
  for await (const application of api.applications.all({ expires_before: before }, { signal })) {
    if (list.length === maxNewest) return { list, counts, hasMore: true };
    list.push(application);
  }
  return { list, counts, hasMore: false };
}
