/** Loads the code of a page when it is first opened. A failed load can be retried without reloading the console. */
import { type ComponentType, use } from 'react';

/**
 * - `offline`: the service did not answer.
 * - `unavailable`: it answered with an error.
 * - `updated`: it serves another version of the console.
 * - `missing`: it serves this version, but not all of its files.
 */
export type LoadFailure = 'offline' | 'unavailable' | 'updated' | 'missing';

export class PageLoadError extends Error {
  override name = 'PageLoadError';
  readonly failure: LoadFailure;
  /** Makes the next rendering load the page again. */
  readonly retry: () => void;

  constructor(failure: LoadFailure, retry: () => void, cause: unknown) {
    super(`the page could not be loaded: ${failure}`, { cause });
    this.failure = failure;
    this.retry = retry;
  }
}

const timeout = 5000;

/** Finds out why a file of the console could not be loaded, by comparing the served page with the running one. */
async function findFailure(): Promise<LoadFailure> {
  const running = document.querySelector('script[type="module"]')?.getAttribute('src');
  try {
    const response = await fetch('/console', { cache: 'no-store', signal: AbortSignal.timeout(timeout) });
    if (!response.ok) return 'unavailable';
    return (await response.text()).includes(`"${running}"`) ? 'missing' : 'updated';
  } catch {
    return 'offline';
  }
}

/** Whether a file could not be fetched, by the messages of Chromium, Firefox and Safari. */
function isFetchFailure(error: unknown): boolean {
  return error instanceof TypeError && /dynamically imported module|module script/i.test(error.message);
}

/** The component throws `PageLoadError` if its code cannot be loaded. */
export function lazyPage<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
  let loading: Promise<ComponentType<P>> | undefined;
  const retry = () => {
    loading = undefined;
  };
  return function LazyPage(props: P) {
    loading ??= load().catch(async (cause) => {
      if (!isFetchFailure(cause)) throw cause;
      throw new PageLoadError(await findFailure(), retry, cause);
    });
    const Page = use(loading);
    return <Page {...props} />;
  };
}
