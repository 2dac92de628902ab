/** Every Application that the key may see, fetched page after page, and kept up to date by what is done here. */
import { useSyncExternalStore } from 'react';
import type { Application, Sallyport } from '../../../sdk/src/sallyport.ts';

export interface Snapshot {
  readonly list: readonly Application[];
  readonly byId: ReadonlyMap<string, Application>;
  readonly complete: boolean;
  readonly error: unknown;
}

const nothing: Snapshot = { list: [], byId: new Map(), complete: false, error: undefined };
/** How many are waited for before they are shown. */
const portion = 500;
/** Milliseconds after which somebody who comes back to the list wants to see it anew. */
const lasting = 10_000;

export class Roll {
  readonly #api: Sallyport;
  readonly #listeners = new Set<() => void>();
  #snapshot = nothing;
  #run: AbortController | undefined;
  #loadedAt = Number.POSITIVE_INFINITY;

  constructor(api: Sallyport) {
    this.#api = api;
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    if (!this.#run) void this.load();
    return () => this.#listeners.delete(listener);
  };

  readonly snapshot = (): Snapshot => this.#snapshot;

  /** What is shown stays until all of the new ones are there. */
  async load(): Promise<void> {
    this.#run?.abort();
    const run = new AbortController();
    this.#run = run;
    const list: Application[] = [];
    const first = this.#snapshot.list.length === 0;
    let shown = 0;
    try {
      for await (const application of this.#api.applications.all({}, { signal: run.signal })) {
        list.push(application);
        if (!first || list.length - shown < (shown === 0 ? 100 : portion)) continue;
        shown = list.length;
        this.#show({ list: [...list], complete: false });
      }
      this.#show({ list, complete: true });
      this.#loadedAt = Date.now();
    } catch (error) {
      if (!run.signal.aborted)
        this.#show({ list: first ? list : this.#snapshot.list, complete: true, error });
    }
  }

  /** Loads them again if they were loaded a while ago. */
  refresh(): void {
    if (Date.now() - this.#loadedAt > lasting) void this.load();
  }

  put(application: Application): void {
    const { list, byId } = this.#snapshot;
    const known = byId.has(application.id);
    this.#show({
      ...this.#snapshot,
      list: known
        ? list.map((each) => (each.id === application.id ? application : each))
        : [application, ...list],
    });
  }

  remove(id: string): void {
    this.#show({ ...this.#snapshot, list: this.#snapshot.list.filter((each) => each.id !== id) });
  }

  #show(next: Pick<Snapshot, 'list' | 'complete'> & { error?: unknown }): void {
    const byId = new Map(next.list.map((each) => [each.id, each]));
    this.#snapshot = { list: next.list, complete: next.complete, byId, error: next.error };
    for (const listener of this.#listeners) listener();
  }
}

export function useRoll(roll: Roll): Snapshot {
  return useSyncExternalStore(roll.subscribe, roll.snapshot);
}
