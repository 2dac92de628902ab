/** Loads a list page by page, by cursor. */
import { useCallback, useEffect, useRef, useState } from 'react';

export interface ListPage<T> {
  readonly data: readonly T[];
  readonly next: string | undefined;
}

export interface Paged<T> {
  readonly items: readonly T[];
  readonly loading: boolean;
  readonly error: unknown;
  /** Loads the next page. Undefined on the last page. */
  readonly more: (() => void) | undefined;
  readonly reload: () => void;
}

interface State<T> {
  readonly name: string;
  readonly items: readonly T[];
  readonly next: string | undefined;
  readonly loading: boolean;
  readonly error: unknown;
}

/** Maximum number of requests for one page. A filtered page can be empty although later ones are not. */
const maxEmpty = 10;

/** Starts from the first page again when `name` changes. */
export function usePaged<T>(
  name: string,
  load: (start: string | undefined, signal: AbortSignal) => Promise<ListPage<T>>,
): Paged<T> {
  const empty = { name, items: [], next: undefined, loading: true, error: undefined };
  const [state, setState] = useState<State<T>>(empty);
  const [attempt, setAttempt] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  const run = useRef<AbortController>(undefined);
  const fetchPage = useCallback(async (from: State<T>) => {
    run.current?.abort();
    const controller = new AbortController();
    const { signal } = controller;
    run.current = controller;
    setState({ ...from, loading: true, error: undefined });
    let { next } = from;
    try {
      for (let pages = 0; pages < maxEmpty; pages++) {
        const page = await latest.current(next, signal);
        next = page.next;
        if (page.data.length > 0 || next === undefined) {
          if (!signal.aborted)
            setState({
              ...from,
              items: [...from.items, ...page.data],
              next,
              loading: false,
              error: undefined,
            });
          return;
        }
      }
      if (!signal.aborted) setState({ ...from, next, loading: false, error: undefined });
    } catch (error) {
      if (!signal.aborted) setState({ ...from, next, loading: false, error });
    }
  }, []);
  useEffect(() => {
    void attempt;
    void fetchPage({ name, items: [], next: undefined, loading: true, error: undefined });
    return () => run.current?.abort();
  }, [name, attempt, fetchPage]);
  const current = state.name === name ? state : empty;
  return {
    ...current,
    more: current.next === undefined || current.loading ? undefined : () => void fetchPage(current),
    reload: useCallback(() => setAttempt((count) => count + 1), []),
  };
}
