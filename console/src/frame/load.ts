/** What a page shows is loaded when it opens, and again when asked. */
import { useCallback, useEffect, useRef, useState } from 'react';

export interface Loaded<T> {
  readonly data: T | undefined;
  readonly error: unknown;
  readonly reload: () => void;
}

/** `name` says what is loaded: when it changes, it is loaded anew. */
export function useLoad<T>(name: string, load: (signal: AbortSignal) => Promise<T>): Loaded<T> {
  const [state, setState] = useState<{ name: string; data?: T; error?: unknown }>({ name });
  const [turn, setTurn] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    void turn;
    latest.current(signal).then(
      (data) => signal.aborted || setState({ name, data }),
      (error: unknown) => signal.aborted || setState({ name, error }),
    );
    return () => controller.abort();
  }, [name, turn]);
  const reload = useCallback(() => setTurn((count) => count + 1), []);
  const mine = state.name === name;
  return { data: mine ? state.data : undefined, error: mine ? state.error : undefined, reload };
}

/** The moment, moving on as often as it is looked at. */
export function useNow(every = 1000): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), every);
    return () => clearInterval(timer);
  }, [every]);
  return now;
}
