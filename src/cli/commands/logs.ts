import type { LogEntry } from '../../../sdk/src/sallyport.ts';
import { DateTime } from '../../domain/common-fields.ts';
import type { Call, Options, RemoteCommand } from '../command.ts';
import { UsageError } from '../errors.ts';
import { only } from '../terminal/body-options.ts';
import { follow } from '../terminal/follow.ts';
import { inOneLine, lines, tailOptions } from '../terminal/log-line.ts';

export const logsCommands: readonly RemoteCommand[] = [
  {
    words: ['logs', 'tail'],
    takes: [],
    options: tailOptions,
    summary: "Print the latest entries of your tenant's audit log.",
    examples: ['sallyport logs tail --follow --result denied'],
    details: 'One line an entry, or one JSON object with --json.',
    call: tail,
  },
];

type Filter = NonNullable<Parameters<Call['service']['logs']['all']>[0]>;

async function tail({ service, url, options, json, print, terminal }: Call): Promise<number> {
  const wanted = lines.safeParse(options.value('lines'));
  if (!wanted.success) throw new UsageError(`--lines ${wanted.error.issues[0]?.message}`);
  const filter = filterOf(options);
  const show = (entries: readonly LogEntry[]) => {
    for (const entry of entries) print(json ? JSON.stringify(entry) : inOneLine(entry));
  };
  const newcomers = new Newcomers(service, filter);
  if (options.on('follow')) await newcomers.look();
  const page = { ...filter, size: Math.min(wanted.data, most) };
  const last = await newest(service.logs.all(page), wanted.data);
  show(last);
  newcomers.remember(last);
  const next = async (signal: AbortSignal) => show(await newcomers.look(signal));
  if (options.on('follow')) await follow(next, terminal, { url });
  return 0;
}

/** What a page holds at most. */
const most = 100;

function filterOf(options: Options): Filter {
  const names = ['actor', 'entity', 'operation', 'result', 'from', 'to'] as const;
  return only(Object.fromEntries(names.map((name) => [name, options.value(name)])));
}

/** The first so many, which are the newest, in the order in which they happened. */
async function newest(entries: AsyncIterable<LogEntry>, count: number): Promise<LogEntry[]> {
  const found: LogEntry[] = [];
  for await (const entry of entries) {
    found.push(entry);
    if (found.length === count) break;
  }
  return found.reverse();
}

/** Milliseconds after which nothing comes in that happened before: refusals are gathered, and clocks differ. */
const grace = 10_000;
/** Milliseconds for which an entry is remembered that is no longer looked at. */
const memory = 600_000;

/**
 * Finds entries that are new since the last look. Entries are ordered by the clock of the node that wrote them, so
 * a new one may come below the newest, by as much as clocks differ. A look reads from a little before the newest
 * entry or this moment, or from where the look before began, and so costs the same however long the log is.
 */
export class Newcomers {
  readonly #service: Pick<Call['service'], 'logs'>;
  readonly #filter: Filter;
  readonly #known = new Map<string, number>();
  #since = Number.POSITIVE_INFINITY;

  constructor(service: Pick<Call['service'], 'logs'>, filter: Filter) {
    this.#service = service;
    this.#filter = filter;
  }

  /** The oldest of them first. If a look fails, the next one returns what it would have. */
  async look(signal?: AbortSignal): Promise<LogEntry[]> {
    const now = Date.now();
    const options = signal && { signal };
    const { data } = await this.#service.logs.list({ size: 1 }, options);
    const since = data[0] ? Math.min(now, momentOf(data[0])) - grace : Number.NEGATIVE_INFINITY;
    const from = Math.max(Math.min(since, this.#since), DateTime.safeParse(this.#filter.from).data ?? 0);
    const listed: LogEntry[] = [];
    const query = { ...this.#filter, size: most, from: new Date(from).toISOString() };
    for await (const entry of this.#service.logs.all(query, options)) listed.push(entry);
    const came = listed.filter((entry) => this.#isNew(entry, now));
    this.#since = since;
    this.remember(listed);
    return came.reverse();
  }

  /** Where a clock was put back, a look goes further down than before: what is still to come there is old. */
  #isNew(entry: LogEntry, now: number): boolean {
    const at = momentOf(entry);
    return !this.#known.has(entry.id) && (at >= this.#since || at <= now + grace);
  }

  remember(entries: readonly LogEntry[]): void {
    const now = performance.now();
    for (const { id } of entries) this.#known.set(id, now);
    for (const [id, at] of this.#known) if (at < now - memory) this.#known.delete(id);
  }
}

function momentOf({ at }: LogEntry): number {
  return Date.parse(at);
}
