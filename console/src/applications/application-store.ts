/** The applications visible to the key. Loaded page by page, and updated by the user's own changes. */
import { useSyncExternalStore } from 'react';
import type { Application, Sallyport } from '../../../sdk/src/sallyport.ts';
import type { ApplicationNames } from './application-names.ts';

export interface Snapshot {
  readonly list: readonly Application[];
  readonly byId: ReadonlyMap<string, Application>;
  /** Whether loading has ended. */
  readonly complete: boolean;
  /** Whether there are older applications that were not loaded. */
  readonly hasMore: boolean;
  readonly error: unknown;
}

const emptySnapshot: Snapshot = {
  list: [],
  byId: new Map(),
  complete: false,
  hasMore: false,
  error: undefined,
};
/** Applications that a page loads if it does not need all of them: ten requests. */
export const maxNewest = 1000;
/** The list is rendered again each time this many applications were loaded. */
const renderBatch = 500;
/** Milliseconds after which `refresh` loads the list again. */
const maxAge = 10_000;

export class ApplicationStore {
  readonly #api: Sallyport;
  readonly #names: ApplicationNames;
  readonly #listeners = new Set<() => void>();
  #snapshot = emptySnapshot;
  #run: AbortController | undefined;
  #loadedAt = Number.POSITIVE_INFINITY;
  /** The largest number of applications that a page needed so far. */
  #limit = 0;

  constructor(api: Sallyport, names: ApplicationNames) {
    this.#api = api;
    this.#names = names;
  }

  readonly subscribe = (listener: () => void) => this.#subscribe(listener, Number.POSITIVE_INFINITY);

  readonly subscribeToNewest = (listener: () => void) => this.#subscribe(listener, maxNewest);

  #subscribe(listener: () => void, limit: number): () => void {
    this.#listeners.add(listener);
    const { complete, hasMore } = this.#snapshot;
    const needsMore = limit > this.#limit && (!complete || hasMore);
    this.#limit = Math.max(limit, this.#limit);
    if (needsMore) {
      if (hasMore) this.#publish({ ...this.#snapshot, complete: false });
      void this.load();
    }
    return () => this.#listeners.delete(listener);
  }

  readonly snapshot = (): Snapshot => this.#snapshot;

  /** Replaces the current list only after the new one is complete. */
  async load(): Promise<void> {
    this.#run?.abort();
    const run = new AbortController();
    this.#run = run;
    const list: Application[] = [];
    const first = this.#snapshot.list.length === 0;
    let rendered = 0;
    let hasMore = false;
    try {
      for await (const application of this.#api.applications.all({}, { signal: run.signal })) {
        hasMore = list.length >= this.#limit;
        if (hasMore) break;
        list.push(application);
        if (!first || list.length - rendered < (rendered === 0 ? 100 : renderBatch)) continue;
        rendered = list.length;
        this.#publish({ list: [...list], complete: false, hasMore });
      }
      this.#publish({ list, complete: true, hasMore });
      this.#loadedAt = Date.now();
    } catch (error) {
      if (!run.signal.aborted)
        this.#publish({ list: first ? list : this.#snapshot.list, complete: true, hasMore, error });
    }
  }

  /** Loads the list again if it is older than `maxAge`. */
  refresh(): void {
    if (Date.now() - this.#loadedAt > maxAge) void this.load();
  }

  put(application: Application): void {
    this.#names.set(application);
    const { list, byId } = this.#snapshot;
    const known = byId.has(application.id);
    this.#publish({
      ...this.#snapshot,
      list: known
        ? list.map((each) => (each.id === application.id ? application : each))
        : [application, ...list],
    });
  }

  remove(id: string): void {
    this.#publish({ ...this.#snapshot, list: this.#snapshot.list.filter((each) => each.id !== id) });
  }

  #publish({ list, complete, hasMore, error }: Omit<Snapshot, 'byId' | 'error'> & { error?: unknown }): void {
    const byId = new Map(list.map((each) => [each.id, each]));
    this.#snapshot = { list, complete, hasMore, byId, error };
    for (const listener of this.#listeners) listener();
  }
}

export function useApplications(store: ApplicationStore): Snapshot {
  return useSyncExternalStore(store.subscribe, store.snapshot);
}

/** Loads the newest applications only. The list has more if another page has loaded them. */
export function useNewestApplications(store: ApplicationStore): Snapshot {
  return useSyncExternalStore(store.subscribeToNewest, store.snapshot);
}
