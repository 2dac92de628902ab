/** Routing by URL fragment, which browsers do not send to the server. */
import { useCallback, useSyncExternalStore } from 'react';

export interface Route {
  readonly parts: readonly string[];
  readonly query: URLSearchParams;
}

export function href(...parts: string[]): string {
  return `#/${parts.map(encodeURIComponent).join('/')}`;
}

export function navigate(...parts: string[]): void {
  location.hash = href(...parts);
}

export function parseRoute(hash: string): Route {
  const [path = '', ...query] = hash.replace(/^#\/?/, '').split('?');
  return {
    parts: path.split('/').filter(Boolean).map(decode),
    query: new URLSearchParams(query.join('?')),
  };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function subscribe(changed: () => void): () => void {
  addEventListener('hashchange', changed);
  return () => removeEventListener('hashchange', changed);
}

export function useHash(): string {
  return useSyncExternalStore(subscribe, () => location.hash);
}

/** The path of the current route, without its query. */
export function useRoutePath(): string {
  return useSyncExternalStore(subscribe, () => location.hash.split('?')[0] as string);
}

type Query = Readonly<Record<string, string>>;
type Setter<Q extends Query> = (change: Partial<Q>, how?: 'push' | 'replace') => void;

/**
 * State that is stored in the query of the URL, so that back, reload and shared links restore it. Values that equal
 * their default are not in the URL. Unknown parameters are ignored. Use `replace` while the user types: it adds no
 * history entry.
 */
export function useRouteQuery<Q extends Query>(defaults: Q): [query: Q, setQuery: Setter<Q>] {
  const { query } = parseRoute(useHash());
  const names = JSON.stringify(defaults);
  const set = useCallback<Setter<Q>>(
    (change, how = 'push') => {
      const [path = '', text = ''] = location.hash.split('?');
      const next = new URLSearchParams(text);
      for (const [name, fallback] of Object.entries(JSON.parse(names) as Query)) {
        const value = change[name] ?? next.get(name) ?? fallback;
        next.delete(name);
        if (value !== fallback) next.set(name, value);
      }
      const hash = [path || '#/', next.toString()].filter(Boolean).join('?');
      if (hash === location.hash) return;
      if (how === 'push') history.pushState(null, '', hash);
      else history.replaceState(null, '', hash);
      dispatchEvent(new HashChangeEvent('hashchange'));
    },
    [names],
  );
  const current = Object.fromEntries(
    Object.entries(defaults).map(([name, fallback]) => [name, query.get(name) ?? fallback]),
  );
  return [current as Q, set];
}
