/** Reads the entries of an audit log that were written since the last poll. */
import type { LogEntry, Sallyport } from '../../../sdk/src/sallyport.ts';

type Service = Pick<Sallyport, 'logs'>;
export type LogQuery = NonNullable<Parameters<Service['logs']['list']>[0]>;

export const maxPageSize = 100;

/**
 * Polls for new entries. Each poll reads the id of the newest entry. If the id has changed, it reads the entries after
 * the previous position. So the cost depends neither on the length of the log nor on how rarely entries match the
 * filter.
 */
export class NewEntries {
  readonly #service: Service;
  readonly #filter: LogQuery;
  /** The entry up to which all were returned. Undefined if the log was empty. */
  #position: string | undefined;
  /** Returned entries that may be after `#position`. */
  #returned = new Set<string>();

  private constructor(service: Service, filter: LogQuery, position: string | undefined) {
    this.#service = service;
    this.#filter = filter;
    this.#position = position;
  }

  /** Starts after the given entry, or after the newest one. */
  static async after(service: Service, filter: LogQuery, id?: string): Promise<NewEntries> {
    return new NewEntries(service, filter, id ?? (await newestId(service)));
  }

  /** Makes `poll` leave out these entries. */
  skip(entries: readonly LogEntry[]): void {
    for (const { id } of entries) this.#returned.add(id);
  }

  /** Yields the new entries in pages, oldest first. If a poll fails, the next one continues after the last page. */
  async *poll(signal?: AbortSignal): AsyncGenerator<LogEntry[]> {
    const options = signal && { signal };
    const newest = await newestId(this.#service, options);
    if (newest === undefined || newest === this.#position) return;
    const returned = new Set<string>();
    for (let after = this.#position; ; ) {
      const query = { ...this.#filter, size: maxPageSize, ...(after !== undefined && { after }) };
      const { data, pagination } = await this.#service.logs.list(query, options);
      const added = data.filter(({ id }) => !this.#returned.has(id));
      yield after === undefined ? added.reverse() : added;
      for (const { id } of data) returned.add(id);
      after = pagination.next;
      if (after === undefined || this.#position === undefined) break;
      this.#position = after;
    }
    this.#position = newest;
    this.#returned = returned;
  }
}

async function newestId(
  service: Service,
  options?: { readonly signal: AbortSignal },
): Promise<string | undefined> {
  return (await service.logs.list({ size: 1 }, options)).data[0]?.id;
}
