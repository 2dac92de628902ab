/** The applications with an expiry. */
import type { Application } from '../../../sdk/src/sallyport.ts';
import { maxNewest, useNewestApplications } from '../applications/application-store.ts';
import { useLoad } from '../frame/load.ts';
import { useSignedIn } from '../frame/signed-in.ts';

export interface Expiring {
  readonly list: readonly Application[];
  readonly complete: boolean;
  /** Whether there are more of them than were loaded. */
  readonly hasMore: boolean;
  readonly error: unknown;
}

/** Later than every expiry. */
const never = '9999-12-31T23:59:59Z';

/** If not all applications are loaded, those with an expiry are loaded in addition. */
export function useExpiring(): Expiring {
  const { api, applications } = useSignedIn();
  const { list, complete, hasMore, error } = useNewestApplications(applications);
  const loaded = useLoad(`expiring ${hasMore}`, async (signal) => {
    const expiring: Application[] = [];
    if (!hasMore) return { expiring, hasMore };
    for await (const application of api.applications.all({ expires_before: never }, { signal })) {
      if (expiring.length === maxNewest) return { expiring, hasMore };
      expiring.push(application);
    }
    return { expiring, hasMore: false };
  });
  if (!hasMore) return { list, complete, hasMore, error };
  return {
    list: loaded.data?.expiring ?? [],
    complete: loaded.data !== undefined,
    hasMore: loaded.data?.hasMore ?? false,
    error: loaded.error,
  };
}
