/** Reads the entries of an audit log that were written since the last poll. */
import type { LogEntry, Sallyport } from '../../../sdk/src/sallyport.ts';

type Service = Pick<Sallyport, 'logs'>;
export type LogQuery = NonNullable<Parameters<Service['logs']['list']>[0]>;

export const maxPageSize = 100;

/**
 * Polls for new entries. Each poll reads the id of the newest entry. If the id has changed, it reads the sealed entries
 * after the previous position. So the cost depends neither on the length of the log nor on how rarely entries match the
 * filter. The newest entry may not be sealed yet, so a few more polls read the entries even if the id is the same.
 */
export class NewEntries {
  readonly #service: Service;
  readonly #filter: LogQuery;
  /** The entry up to which all were returned. Undefined if the log was empty. */
  #position: string | undefined;
  /** The newest entry at the last poll, and how many polls have found the same one. */
  #newest: string | undefined;
  #unchanged: number;
  /** Returned entries that may be after `#position`. */
  #returned = new Set<string>();

  private constructor(
    service: Service,
    filter: LogQuery,
    position: string | undefined,
    newest: string | undefined,
  ) {
    this.#service = service;
    this.#filter = filter;
    this.#position = position;
    this.#newest = newest;
    this.#unchanged = position === newest ? maxUnchanged : 0;
  }

  /** Starts after the given entry, or after the newest one. */
  static async after(service: Service, filter: LogQuery, id?: string): Promise<NewEntries> {
    const newest = await newestId(service);
    return new NewEntries(service, filter, id ?? newest, newest);
  }

  /** Makes `poll` leave out these entries. */
  skip(entries: readonly LogEntry[]): void {
    for (const { id } of entries) this.#returned.add(id);
  }

  /** Yields the new entries in pages, oldest first. If a poll fails, the next one continues after the last page. */
  async *poll(signal?: AbortSignal): AsyncGenerator<LogEntry[]> {
    const options = signal && { signal };
    const newest = await newestId(this.#service, options);
    if (newest === undefined || (newest === this.#newest && this.#unchanged >= maxUnchanged)) return;
    const isEmpty = this.#position === undefined;
    for (let more = true; more; ) {
      const after = this.#position;
      const query = { ...this.#filter, size: maxPageSize, ...(after !== undefined && { after }) };
      const { data, pagination } = await this.#service.logs.list(query, options);
      const added = data.filter(({ id }) => !this.#returned.has(id));
      yield isEmpty ? added.reverse() : added;
      if (isEmpty) this.skip(data);
      more = !isEmpty && pagination.next !== undefined;
      this.#position = isEmpty ? newest : (pagination.next ?? data.at(-1)?.id ?? after);
    }
    this.#unchanged = newest === this.#newest ? this.#unchanged + 1 : 0;
    this.#newest = newest;
  }
}

/** Polls with the same newest entry after which it was certainly sealed. */
const maxUnchanged = 5;

async function newestId(
  service: Service,
  options?: { readonly signal: AbortSignal },
): Promise<string | undefined> {
  return (await service.logs.list({ size: 1 }, options)).data[0]?.id;
}
