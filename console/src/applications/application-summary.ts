/** The name and state of an application, as a React hook. */
import { useCallback, useEffect, useSyncExternalStore } from 'react';
import { useSignedIn } from '../frame/signed-in.ts';
import type { Summary } from './application-names.ts';

/** Undefined until it is loaded, and if the key may not read it. Null if the application does not exist. */
export function useApplicationSummary(id: string | undefined): Summary | null | undefined {
  const { names } = useSignedIn();
  useEffect(() => {
    if (id !== undefined) names.request(id);
  }, [names, id]);
  const get = useCallback(() => (id === undefined ? undefined : names.get(id)), [names, id]);
  return useSyncExternalStore(names.subscribe, get);
}
