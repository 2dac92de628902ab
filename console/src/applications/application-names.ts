/** Names and states of applications by id, loaded in batches when they are shown. */
import type { Application, Sallyport } from '../../../sdk/src/sallyport.ts';

const batchSize = 100;
/** Milliseconds in which ids are collected for one request. */
const delay = 10;

export type Summary = Pick<Application, 'name' | 'quarantined_at'>;

export class ApplicationNames {
  readonly #api: Sallyport;
  readonly #summaries = new Map<string, Summary | null>();
  readonly #wanted = new Set<string>();
  readonly #listeners = new Set<() => void>();
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(api: Sallyport) {
    this.#api = api;
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  get(id: string): Summary | null | undefined {
    return this.#summaries.get(id);
  }

  set(application: Application): void {
    this.#summaries.set(application.id, application);
    this.#notify();
  }

  request(id: string): void {
    if (this.#summaries.has(id)) return;
    this.#wanted.add(id);
    this.#timer ??= setTimeout(() => void this.#load(), delay);
  }

  async #load(): Promise<void> {
    this.#timer = undefined;
    const ids = [...this.#wanted];
    this.#wanted.clear();
    for (let at = 0; at < ids.length; at += batchSize) {
      const some = ids.slice(at, at + batchSize);
      const page = await this.#api.applications.list({ id: some, size: batchSize }).catch(() => undefined);
      for (const id of page ? some : []) {
        this.#summaries.set(id, page?.data.find((each) => each.id === id) ?? null);
      }
    }
    this.#notify();
  }

  #notify(): void {
    for (const listener of this.#listeners) listener();
  }
}
