/** The last four characters of the keys of the rows in sight, asked for once and only when one stays there. */
import { useEffect, useState } from 'react';
import type { Application, Sallyport } from '../../../sdk/src/sallyport.ts';
import { useSignedIn } from '../frame/signed-in.ts';

type Endings = ReadonlyMap<string, readonly string[]>;

const known = new WeakMap<Sallyport, Map<string, readonly string[]>>();
const atOnce = 8;
const pause = 120;

export function knownEndings(api: Sallyport): Map<string, readonly string[]> {
  const map = known.get(api) ?? new Map<string, readonly string[]>();
  known.set(api, map);
  return map;
}

export function useEndings(rows: readonly Application[]): Endings {
  const { api } = useSignedIn();
  const map = knownEndings(api);
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
        await Promise.all(ids.splice(0, atOnce).map((id) => fetchEndings(api, id, controller.signal)));
      }
      redraw((count) => count + 1);
    }, pause);
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
    knownEndings(api).set(
      id,
      keys.map(({ ending }) => ending),
    );
  } catch {
    if (!signal.aborted) knownEndings(api).set(id, []);
  }
}
