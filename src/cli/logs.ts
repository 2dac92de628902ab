import type { LogEntry } from '../../sdk/src/sallyport.ts';
import { parseMoment } from '../domain/field.ts';
import { only } from './body.ts';
import { type Call, type Options, type RemoteCommand, UsageError } from './command.ts';
import { inOneLine, lines, pause, tailOptions } from './log-line.ts';
import { untilTold } from './stop.ts';

export const logsCommands: readonly RemoteCommand[] = [
  {
    words: ['logs', 'tail'],
    takes: [],
    options: tailOptions,
    summary: "Print the end of the tenant's audit log, newest last.",
    details: 'One line an entry, or one JSON object with --json.',
    call: tail,
  },
];

type Filter = NonNullable<Parameters<Call['service']['logs']['all']>[0]>;

async function tail({ service, options, json, print }: Call): Promise<number> {
  const wanted = lines.safeParse(options.value('lines'));
  if (!wanted.success) throw new UsageError(`--lines ${wanted.error.issues[0]?.message}`);
  const filter = filterOf(options);
  const show = (entries: readonly LogEntry[]) => {
    for (const entry of entries) print(json ? JSON.stringify(entry) : inOneLine(entry));
  };
  const look = (query: Filter, most = Number.POSITIVE_INFINITY) =>
    newest(service.logs.all({ ...filter, ...query, size: Math.min(most, 100) }), most);

  const before = options.on('follow') ? await look(since(filter, await look({}, 1))) : [];
  const last = await look({}, wanted.data);
  show(last);
  if (options.on('follow')) await follow(filter, [...before, ...last], look, show);
  return 0;
}

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

/** The moment from which on something may still come in, given the latest that has. */
function since({ from }: Filter, entries: readonly LogEntry[]): Filter {
  if (entries.length === 0) return {};
  const latest = Math.max(...entries.map(({ at }) => Date.parse(at)));
  const least = (from && parseMoment(from)) || 0;
  return { from: new Date(Math.max(latest - grace, least)).toISOString() };
}

/** Looks back a little each time, and shows what it has not seen yet. */
async function follow(
  filter: Filter,
  start: readonly LogEntry[],
  look: (query: Filter) => Promise<LogEntry[]>,
  show: (entries: readonly LogEntry[]) => void,
): Promise<void> {
  let stopped = false;
  const told = untilTold().then(() => {
    stopped = true;
  });
  for (let seen = start; !stopped; await Promise.race([Bun.sleep(pause), told])) {
    const known = new Set(seen.map(({ id }) => id));
    const found = await look(since(filter, seen));
    show(found.filter(({ id }) => !known.has(id)));
    if (found.length > 0) seen = found;
  }
}
