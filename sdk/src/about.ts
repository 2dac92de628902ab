/** Finds in the audit log which tokens a subject has seen, and who has seen the data about it. */
import type { LogEntry, LogGap } from './api.ts';
import type { Sallyport } from './client.ts';
import { PermissionError } from './errors.ts';

/** Responses with plaintext: their number, and the times of the first and the last. */
export interface Reads {
  responses: number;
  /** How many of them are decisions that an application recorded. Sallyport did not see what it returned. */
  reported: number;
  first: string;
  last: string;
}

/** Counts the entries of each name, with the first and the last time. */
export class ReadCounts<T> {
  readonly #counts = new Map<string, Reads & { readonly about: T }>();

  add(name: string, about: T, { at, count = 1, reported_by }: LogEntry): void {
    const reported = reported_by === undefined ? 0 : count;
    const known = this.#counts.get(name);
    if (!known) {
      this.#counts.set(name, { about, responses: count, reported, first: at, last: at });
      return;
    }
    known.responses += count;
    known.reported += reported;
    if (at < known.first) known.first = at;
    if (at > known.last) known.last = at;
  }

  /** Sorted by the time of the last response, latest first. */
  list(): (T & Reads)[] {
    const all = [...this.#counts.values()].sort((a, b) => b.last.localeCompare(a.last));
    return all.map(({ about, ...reads }) => ({ ...about, ...reads }));
  }
}

/** The ids of the tokens that an entry is about. */
export function tokensOf({ resource, entity }: LogEntry): readonly string[] {
  return resource?.ids ?? (entity?.kind === 'token' ? [entity.id] : []);
}

/** Identifies who has received a response: the application, session or delegation, and the person who signed in. */
export function readerName({ actor }: LogEntry): string {
  return JSON.stringify([actor.id, actor.kind, actor.person?.subject]);
}

export interface AboutOptions {
  /** The subject of the sessions, such as `user:42`. */
  readonly subject: string;
  /** Where the data about the subject is stored, such as `/customers/42/`. */
  readonly container: string;
  /** Only responses at or after this time, in ISO 8601. Default: all that are in the log. */
  readonly from?: string;
  /** The number of log entries to read for each of the lists. Default: all. */
  readonly maxEntries?: number;
  readonly signal?: AbortSignal;
}

/** Both lists are sorted by the time of the last response, latest first. */
export interface AboutSubject {
  /** The tokens whose plaintext sessions, delegations and workloads of the subject have received. */
  readonly seen: readonly (Reads & { readonly token: string })[];
  /** Everyone who has received plaintext of the container, or of a token that was in it. */
  readonly readers: readonly (Reads & LogEntry['actor'])[];
  /** Periods in which entries may be missing. */
  readonly gaps: readonly LogGap[];
  /**
   * The parts of the log that were not searched, and whether responses were only reported, as sentences. Empty if the
   * lists are complete, apart from the gaps.
   */
  readonly omissions: readonly string[];
}

/** Tokens of the container that are searched one by one. */
const maxTokens = 500;
const pageSize = 100;

/**
 * Lists the tokens that a subject has seen, and everyone who has seen the data in a container. An entry of the log about
 * several tokens has the container that includes all of them, so each token of the container is searched by its id, too:
 * those that exist now, and those that were created in it or moved into it. Requires `log:read`; without `token:read`,
 * only tokens that the log knows are searched.
 */
export async function aboutSubject(client: Sallyport, options: AboutOptions): Promise<AboutSubject> {
  const { subject, container, from, maxEntries = Number.POSITIVE_INFINITY, signal } = options;
  const request = signal ? { signal } : {};
  const omissions = new Set<string>();
  const gaps = new Map<string, LogGap>();
  type Query = NonNullable<Parameters<Sallyport['logs']['list']>[0]>;

  /** The entries that match, newest first, at most `maxEntries`. */
  async function read(query: Query, what: string, onGap: (gap: LogGap) => void): Promise<LogEntry[]> {
    const entries: LogEntry[] = [];
    for (let start: string | undefined; ; ) {
      const page = await client.logs.list({ ...query, size: pageSize, ...(start && { start }) }, request);
      page.gaps?.forEach(onGap);
      entries.push(...page.data);
      start = page.pagination.next;
      if (start === undefined) return entries;
      if (entries.length < maxEntries) continue;
      omissions.add(`${what} before ${entries.at(-1)?.at} are left out, because there are too many.`);
      return entries;
    }
  }

  /** The ids of the tokens that are, or were created or moved, in the container. */
  async function tokensIn(): Promise<string[]> {
    const ids = new Set<string>();
    const archived = () =>
      omissions.add('Deleted tokens are left out if their creation was moved to an archive.');
    for (const operation of ['token.create', 'token.update']) {
      const changes = await read({ container, operation, result: 'success' }, 'Changes of tokens', archived);
      for (const id of changes.flatMap(tokensOf)) ids.add(id);
    }
    try {
      for await (const { id } of client.tokens.all({ container, transform: 'redact' }, request)) {
        if (ids.size > maxTokens) break;
        ids.add(id);
      }
    } catch (error) {
      if (!(error instanceof PermissionError)) throw error;
      omissions.add('Tokens that the log does not name are left out, because your key lacks token:read.');
    }
    if (ids.size > maxTokens)
      omissions.add(
        `Only ${maxTokens} tokens were searched by their id. Responses with other tokens of the container and of further containers are left out.`,
      );
    return [...ids].slice(0, maxTokens);
  }

  const addGap = (gap: LogGap) => void gaps.set(JSON.stringify(gap), gap);
  const disclosures = { transform: 'reveal' as const, ...(from !== undefined && { from }) };
  const seen = new ReadCounts<{ readonly token: string }>();
  for (const entry of await read({ ...disclosures, subject }, 'Responses to the subject', addGap))
    for (const token of tokensOf(entry)) seen.add(token, { token }, entry);

  const entries = new Map<string, LogEntry>();
  const filters = [{ container }, ...(await tokensIn()).map((token) => ({ token }))];
  for (const filter of filters)
    for (const entry of await read({ ...disclosures, ...filter }, 'Responses with the data', addGap))
      entries.set(entry.id, entry);
  const readers = new ReadCounts<LogEntry['actor']>();
  for (const entry of entries.values()) readers.add(readerName(entry), entry.actor, entry);

  const found = { seen: seen.list(), readers: readers.list() };
  if ([...found.seen, ...found.readers].some(({ reported }) => reported > 0))
    omissions.add(
      'Some of the responses are decisions that an application recorded: what it returned is not known.',
    );
  return { ...found, gaps: [...gaps.values()], omissions: [...omissions] };
}
