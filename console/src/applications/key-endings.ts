/** Loads the last four characters of the keys of visible rows, once per application, after scrolling stops. */
import { useEffect, useState } from 'react';
import type { Application, Sallyport } from '../../../sdk/src/sallyport.ts';
import { useSignedIn } from '../frame/signed-in.ts';

type Endings = ReadonlyMap<string, readonly string[]>;

const endingsByClient = new WeakMap<Sallyport, Map<string, readonly string[]>>();
const concurrency = 8;
const debounce = 120;

export function keyEndingCache(api: Sallyport): Map<string, readonly string[]> {
  const map = endingsByClient.get(api) ?? new Map<string, readonly string[]>();
  endingsByClient.set(api, map);
  return map;
}

export function useKeyEndings(rows: readonly Application[]): Endings {
  const { api } = useSignedIn();
  const map = keyEndingCache(api);
  const [, redraw] = useState(0);
  const wanted = rows
    .map(({ id }) => id)
    .filter((id) => !map.has(id))
    .join();
  useEffect(() => {
    if (wanted === '') return;
    const controller = new AbortController();
    const timer = setTimeout(async () => {
      const ids = wanted.split(',');
      while (ids.length > 0 && !controller.signal.aborted) {
        await Promise.all(ids.splice(0, concurrency).map((id) => fetchEndings(api, id, controller.signal)));
      }
      redraw((count) => count + 1);
    }, debounce);
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [api, wanted]);
  return map;
}

async function fetchEndings(api: Sallyport, id: string, signal: AbortSignal): Promise<void> {
  try {
    const keys = await api.applications.keys(id, { signal });
    keyEndingCache(api).set(
      id,
      keys.map(({ ending }) => ending),
    );
  } catch {
    // Not cached, so that a later visit tries again.
  }
}
