/** The destinations of the tenant, and their names for rules that contain ids. */
import { useLoad } from '../frame/load.ts';
import { holds, useSignedIn } from '../frame/signed-in.ts';

const names = new Map<string, string>();

/** The name, or the id if the destination was deleted or not loaded. */
export function destinationName(id: string): string {
  return names.get(id) ?? id;
}

/** At most 100, which is the limit of a tenant. Empty without `destination:read`. */
export function useDestinations() {
  const signedIn = useSignedIn();
  const mayRead = holds(signedIn, 'destination:read');
  return useLoad(`destinations ${mayRead}`, async (signal) => {
    if (!mayRead) return [];
    const { data } = await signedIn.api.destinations.list({ size: 100 }, { signal });
    for (const { id, name } of data) names.set(id, name);
    return data;
  });
}
