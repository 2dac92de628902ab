import type { LogEntry } from '../../../sdk/src/sallyport.ts';
import { DateTime } from '../../domain/common-fields.ts';
import type { Call, Options, RemoteCommand } from '../command.ts';
import { UsageError } from '../errors.ts';
import { only } from '../terminal/options.ts';
import { follow, lines, printEntries, tailOptions } from '../terminal/tail.ts';

export const logsTailCommand: RemoteCommand = {
  usage: 'logs tail',
  options: tailOptions,
  summary: "Print the latest entries of your tenant's audit log.",
  examples: ['sallyport logs tail --follow --result denied'],
  details: 'Prints one line per entry, or one JSON object per line with --json.',
  call: tail,
};

type Filter = NonNullable<Parameters<Call['service']['logs']['all']>[0]>;

async function tail(call: Call): Promise<number> {
  const { service, url, options, terminal } = call;
  const count = lines.safeParse(options.value('lines'));
  if (!count.success) throw new UsageError(`--lines ${count.error.issues[0]?.message}`);
  const filter = filterOf(options);
  const newEntries = new NewEntries(service, filter);
  if (options.on('follow')) await newEntries.poll();
  const page = { ...filter, size: Math.min(count.data, maxPageSize) };
  const last = await newest(service.logs.all(page), count.data);
  printEntries(call, last);
  newEntries.remember(last);
  const poll = async (signal: AbortSignal) => printEntries(call, await newEntries.poll(signal));
  if (options.on('follow')) await follow(poll, terminal, { url });
  return 0;
}

const maxPageSize = 100;

function filterOf(options: Options): Filter {
  const names = ['actor', 'entity', 'operation', 'result', 'from', 'to'] as const;
  return only(Object.fromEntries(names.map((name) => [name, options.value(name)])));
}

/** The API lists the newest first; returns the first `count` oldest first. */
async function newest(entries: AsyncIterable<LogEntry>, count: number): Promise<LogEntry[]> {
  const found: LogEntry[] = [];
  for await (const entry of entries) {
    found.push(entry);
    if (found.length === count) break;
  }
  return found.reverse();
}

/** Milliseconds by which an entry may appear late: denials are aggregated, and the clocks of nodes differ. */
const grace = 10_000;
/** Milliseconds after which the id of an entry is forgotten. */
const rememberFor = 600_000;

/**
 * Finds entries that are new since the last poll. Entries are ordered by the clock of the node that wrote them, so a new
 * one may sort below the newest. Each poll therefore reads again from `grace` before the newest entry, or from the start
 * of the previous poll, and skips known ids. Its cost does not depend on the length of the log.
 */
export class NewEntries {
  readonly #service: Pick<Call['service'], 'logs'>;
  readonly #filter: Filter;
  readonly #known = new Map<string, number>();
  #since = Number.POSITIVE_INFINITY;

  constructor(service: Pick<Call['service'], 'logs'>, filter: Filter) {
    this.#service = service;
    this.#filter = filter;
  }

  /** Returns the oldest first. If a poll fails, the next one returns its entries. */
  async poll(signal?: AbortSignal): Promise<LogEntry[]> {
    const now = Date.now();
    const options = signal && { signal };
    const { data } = await this.#service.logs.list({ size: 1 }, options);
    const since = data[0] ? Math.min(now, timeOf(data[0])) - grace : Number.NEGATIVE_INFINITY;
    const from = Math.max(Math.min(since, this.#since), DateTime.safeParse(this.#filter.from).data ?? 0);
    const listed: LogEntry[] = [];
    const query = { ...this.#filter, size: maxPageSize, from: new Date(from).toISOString() };
    for await (const entry of this.#service.logs.all(query, options)) listed.push(entry);
    const added = listed.filter((entry) => this.#isNew(entry, now));
    this.#since = since;
    this.remember(listed);
    return added.reverse();
  }

  /** After a clock was set back, a poll also reads old entries that are dated in the future; these are not new. */
  #isNew(entry: LogEntry, now: number): boolean {
    const at = timeOf(entry);
    return !this.#known.has(entry.id) && (at >= this.#since || at <= now + grace);
  }

  remember(entries: readonly LogEntry[]): void {
    const now = performance.now();
    for (const { id } of entries) this.#known.set(id, now);
    for (const [id, at] of this.#known) if (at < now - rememberFor) this.#known.delete(id);
  }
}

function timeOf({ at }: LogEntry): number {
  return Date.parse(at);
}
