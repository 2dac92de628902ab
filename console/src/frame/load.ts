/** Hooks for loading data and for the current time. */
import { useCallback, useEffect, useRef, useState } from 'react';
import { idleLimit, inputs } from './kept-key.ts';

export interface Loaded<T> {
  readonly data: T | undefined;
  readonly error: unknown;
  readonly reload: () => void;
}

/** Loads data, and again when `name` changes. If a reload fails, `data` is the earlier result. */
export function useLoad<T>(name: string, load: (signal: AbortSignal) => Promise<T>): Loaded<T> {
  const [state, setState] = useState<{ name: string; data?: T; error?: unknown }>({ name });
  const [attempt, setAttempt] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    void attempt;
    latest.current(signal).then(
      (data) => signal.aborted || setState({ name, data }),
      (error: unknown) =>
        signal.aborted || setState((old) => (old.name === name ? { ...old, error } : { name, error })),
    );
    return () => controller.abort();
  }, [name, attempt]);
  const reload = useCallback(() => setAttempt((count) => count + 1), []);
  const current = state.name === name;
  const failed = current && state.error !== undefined;
  useEffect(() => {
    if (!failed) return;
    addEventListener('online', reload);
    return () => removeEventListener('online', reload);
  }, [failed, reload]);
  return { data: current ? state.data : undefined, error: current ? state.error : undefined, reload };
}

/** The current time, updated every `every` milliseconds. */
export function useNow(every = 1000): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), every);
    return () => clearInterval(timer);
  }, [every]);
  return now;
}

/** The value, once it has not changed for `delay` milliseconds. */
export function useDebounced<T>(value: T, delay = 200): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), delay);
    return () => clearTimeout(timer);
  }, [value, delay]);
  return settled;
}

let lastInput = performance.now();
for (const name of inputs)
  globalThis.addEventListener?.(
    name,
    () => {
      lastInput = performance.now();
    },
    { passive: true, capture: true },
  );

/**
 * Calls `reload` every `every` milliseconds while the page is visible. Pauses after `idleLimit` without input: requests of
 * an unused page would renew the session of a person.
 */
export function useLiveUpdates(reload: () => void, every: number): void {
  useEffect(() => {
    const isUsed = () => document.visibilityState === 'visible' && performance.now() - lastInput < idleLimit;
    const update = () => isUsed() && reload();
    const timer = setInterval(update, every);
    document.addEventListener('visibilitychange', update);
    return () => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', update);
    };
  }, [reload, every]);
}
