/** All applications visible to the key. Loaded page by page, and updated by the user's own changes. */
import { useSyncExternalStore } from 'react';
import type { Application, Sallyport } from '../../../sdk/src/sallyport.ts';
import type { ApplicationNames } from './application-names.ts';

export interface Snapshot {
  readonly list: readonly Application[];
  readonly byId: ReadonlyMap<string, Application>;
  readonly complete: boolean;
  readonly error: unknown;
}

const emptySnapshot: Snapshot = { list: [], byId: new Map(), complete: false, error: undefined };
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

  constructor(api: Sallyport, names: ApplicationNames) {
    this.#api = api;
    this.#names = names;
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    if (!this.#run) void this.load();
    return () => this.#listeners.delete(listener);
  };

  readonly snapshot = (): Snapshot => this.#snapshot;

  /** Replaces the current list only after the new one is complete. */
  async load(): Promise<void> {
    this.#run?.abort();
    const run = new AbortController();
    this.#run = run;
    const list: Application[] = [];
    const first = this.#snapshot.list.length === 0;
    let rendered = 0;
    try {
      for await (const application of this.#api.applications.all({}, { signal: run.signal })) {
        list.push(application);
        if (!first || list.length - rendered < (rendered === 0 ? 100 : renderBatch)) continue;
        rendered = list.length;
        this.#publish({ list: [...list], complete: false });
      }
      this.#publish({ list, complete: true });
      this.#loadedAt = Date.now();
    } catch (error) {
      if (!run.signal.aborted)
        this.#publish({ list: first ? list : this.#snapshot.list, complete: true, error });
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

  #publish(next: Pick<Snapshot, 'list' | 'complete'> & { error?: unknown }): void {
    const byId = new Map(next.list.map((each) => [each.id, each]));
    this.#snapshot = { list: next.list, complete: next.complete, byId, error: next.error };
    for (const listener of this.#listeners) listener();
  }
}

export function useApplications(store: ApplicationStore): Snapshot {
  return useSyncExternalStore(store.subscribe, store.snapshot);
}
