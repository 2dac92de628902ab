import { aboutSubject, ReadCounts, type Reads, readerName, tokensOf } from '../../../sdk/src/about.ts';
import type { LogEntry, LogGap, Sallyport } from '../../../sdk/src/sallyport.ts';
import { personName } from '../../domain/audit.ts';
import { type Call, type Options, option, type RemoteCommand } from '../command.ts';
import { UsageError } from '../errors.ts';
import { only } from '../terminal/options.ts';
import { printTable, rowsOption } from '../terminal/print.ts';
import {
  filterOptions,
  filterValue,
  follow,
  lines,
  noSuchOperation,
  printEntries,
  tailOptions,
} from '../terminal/tail.ts';
import { ApplicationNames } from './application-names.ts';

const reportedNote =
  'REPORTED counts those responses that are decisions recorded by an application: Sallyport did not see what it returned.';
const sinceOption = option('since TIME', 'Only reads at or after this time, such as 2030-01-31T12:00:00Z.');

export const commands: readonly RemoteCommand[] = [
  {
    usage: 'logs tail',
    options: [
      ...tailOptions,
      option('after ID', 'Print all entries that were written after the one with this id, oldest first.'),
    ],
    summary: "Print the latest entries of your tenant's audit log.",
    examples: [
      'sallyport logs tail --follow --result denied',
      'sallyport logs tail --container /pci/ --lines 100',
      'sallyport logs tail --person ada@example.com --changes --from 2030-10-01T00:00:00Z --to 2030-11-01T00:00:00Z --lines 1000',
    ],
    details:
      'Prints one line per entry, or one JSON object per line with --json. Lines have the names of applications, or ids if your key lacks application:read; --json has ids.',
    call: tail,
  },
  {
    usage: 'logs who-read <TOKEN>',
    options: [sinceOption, rowsOption],
    summary: 'List who has received the plaintext of a token.',
    examples: ['sallyport logs who-read card-4242 --since 2030-01-28T00:00:00Z'],
    details: `Lists every application and session with the number of responses that contained the plaintext, and the first and the last time. ${reportedNote} Warns if entries were archived or reads were not recorded in that time; --json lists these periods in \`gaps\`.`,
    call: whoRead,
  },
  {
    usage: 'logs seen-by <ID>',
    options: [sinceOption, rowsOption],
    summary: 'List the tokens whose plaintext an application or a session has received.',
    examples: ['sallyport logs seen-by 0198c0de-0000-7000-8000-000000000000'],
    details: `For an application, includes its sessions. Lists every token with the number of responses, and the first and the last time. ${reportedNote} Warns if entries were archived or reads were not recorded in that time; --json lists these periods in \`gaps\`.`,
    call: seenBy,
  },
  {
    usage: 'logs about <SUBJECT>',
    options: [option('container PATH', 'Where the data about the subject is stored.'), sinceOption],
    summary: "List the tokens that a subject has seen, and everyone who has seen the subject's data.",
    examples: ['sallyport logs about user:42 --container /customers/42/'],
    details: `Lists the tokens whose plaintext sessions of the subject have received, and then every application and session that has received plaintext of the container or of a token that was in it. Masked data is not listed. ${reportedNote} Warns if entries were archived or reads were not recorded in that time, and if parts of the log were not searched; --json has these in \`gaps\` and \`omissions\`.`,
    call: about,
  },
];

async function tail(call: Call): Promise<number> {
  const { service, url, options, terminal } = call;
  const count = lines.safeParse(options.value('lines'));
  if (!count.success) throw new UsageError(`--lines ${count.error.issues[0]?.message}`);
  const filter = filterOf(options);
  const after = options.value('after');
  if (after !== undefined && options.value('lines') !== undefined)
    throw new UsageError('--after prints all entries and cannot be combined with --lines');
  const added = await newEntries(service, filter, after);
  const names = new ApplicationNames(call);
  const print = async (entries: readonly LogEntry[]) => {
    if (!call.json) await names.load(entries.flatMap(applicationsIn));
    printEntries(call, entries, (id) => names.of(id));
  };
  const poll = async (signal?: AbortSignal) => {
    for await (const entries of added.poll(signal)) await print(entries);
  };
  if (after === undefined) {
    const page = { ...filter, size: Math.min(count.data, maxPageSize) };
    const last = await newest(service.logs.all(page), count.data);
    await print(last);
    added.skip(last);
    const { operation } = filter;
    if (last.length === 0 && operation && (await service.logs.list({ operation, size: 1 })).data.length === 0)
      terminal.writeError(`sallyport: hint: ${noSuchOperation(operation)}\n`);
  } else await poll();
  if (options.on('follow')) await follow(poll, terminal, { url });
  return 0;
}

function applicationsIn({ actor, entity }: LogEntry): (string | undefined)[] {
  return [actor.application_id, entity?.kind === 'application' ? entity.id : undefined];
}

function filterOf(options: Options): LogQuery {
  const values = filterOptions.map(({ name }) => [name.replace('-', '_'), filterValue(options, name)]);
  return only(Object.fromEntries(values));
}

/** Returns the newest `count` entries, oldest first. `entries` are newest first. */
async function newest(entries: AsyncIterable<LogEntry>, count: number): Promise<LogEntry[]> {
  const found: LogEntry[] = [];
  for await (const entry of entries) {
    found.push(entry);
    if (found.length === count) break;
  }
  return found.reverse();
}

type Reader = Reads & LogEntry['actor'];
const readColumns = ['RESPONSES', 'REPORTED', 'FIRST', 'LAST'];
const readerHead = ['KIND', 'ID', 'SUBJECT', 'APPLICATION', 'AUTHORIZED BY', ...readColumns];
const tokenHead = ['TOKEN', ...readColumns];

function readCells({ responses, reported, first, last }: Reads): string[] {
  return [String(responses), String(reported), first, last];
}

async function whoRead(call: Call): Promise<number> {
  const query = disclosuresOf(call, { token: call.args[0] as string });
  const gaps = await gapsIn(call, query);
  const counts = new ReadCounts<LogEntry['actor']>();
  for await (const entry of call.service.logs.all(query)) counts.add(readerName(entry), entry.actor, entry);
  const readers = counts.list();
  printTable(call, { readers, gaps }, 'readers', readerHead, await readerRows(call, readers));
  return warnOfGaps(call, gaps);
}

async function seenBy(call: Call): Promise<number> {
  const query = disclosuresOf(call, { actor: call.args[0] as string });
  const gaps = await gapsIn(call, query);
  const counts = new ReadCounts<{ token: string }>();
  for await (const entry of call.service.logs.all(query))
    for (const token of tokensOf(entry)) counts.add(token, { token }, entry);
  const tokens = counts.list();
  printTable(call, { tokens, gaps }, 'tokens', tokenHead, tokens.map(tokenCells));
  return warnOfGaps(call, gaps);
}

async function about(call: Call): Promise<number> {
  const { args, options, service, terminal, json } = call;
  const container = options.value('container');
  if (container === undefined) throw new UsageError('pass --container: where the data of the subject is');
  const from = options.value('since');
  const subject = args[0] as string;
  const found = await aboutSubject(service, { subject, container, ...(from !== undefined && { from }) });
  const { seen, readers, gaps, omissions } = found;
  if (json) call.print(JSON.stringify(found));
  else {
    printTable(call, seen, 'tokens that the subject has seen', tokenHead, seen.map(tokenCells));
    call.print('');
    printTable(call, readers, `readers of ${container}`, readerHead, await readerRows(call, readers));
    for (const omission of omissions) terminal.writeError(`sallyport: warning: ${omission}\n`);
  }
  return warnOfGaps(call, gaps);
}

/** The names of the applications are loaded, unless the output is JSON. */
async function readerRows(call: Call, readers: readonly Reader[]): Promise<string[][]> {
  const names = new ApplicationNames(call);
  if (!call.json)
    await names.load(readers.flatMap(({ application_id, authorized_by }) => [application_id, authorized_by]));
  return readers.map((reader) => {
    const { kind, id = '', application_id, authorized_by, person } = reader;
    const subject = person ? personName(person) : (reader.subject ?? '');
    return [kind, id, subject, names.of(application_id), names.of(authorized_by), ...readCells(reader)];
  });
}

function tokenCells({ token, ...reads }: Reads & { readonly token: string }): string[] {
  return [token, ...readCells(reads)];
}

/** Selects entries about responses that contained plaintext. */
function disclosuresOf({ options }: Call, query: LogQuery): LogQuery {
  const from = options.value('since');
  return { ...query, transform: 'reveal', ...(from !== undefined && { from }) };
}

async function gapsIn({ service }: Call, query: LogQuery): Promise<readonly LogGap[]> {
  return (await service.logs.list({ ...query, size: 1 })).gaps ?? [];
}

function warnOfGaps({ terminal, json }: Call, gaps: readonly LogGap[]): number {
  if (!json) for (const gap of gaps) terminal.writeError(`sallyport: warning: ${describeGap(gap)}\n`);
  return 0;
}

function describeGap({ reason, from, to }: LogGap): string {
  const period = [from && `from ${from}`, to ? `to ${to}` : 'to now'].filter(Boolean).join(' ');
  if (reason === 'reads_not_recorded')
    return `reads were not recorded ${period} (SALLYPORT_AUDIT_READS), so readers may be missing`;
  return `entries up to ${to ?? 'now'} were archived and are not included: search the archives, too`;
}

type Service = Pick<Sallyport, 'logs'>;
type LogQuery = NonNullable<Parameters<Service['logs']['list']>[0]>;

const maxPageSize = 100;

/**
 * Polls for new entries, from the entry `from` or the newest one. Each poll reads the id of the newest entry. If the id
 * has changed, it reads the sealed entries after the previous position. So the cost depends neither on the length of the
 * log nor on how rarely entries match the filter. The newest entry may not be sealed yet, so a few more polls read the
 * entries even if the id is the same.
 */
export async function newEntries(service: Service, filter: LogQuery, from?: string) {
  /** The newest entry at the last poll, and how many polls have found the same one. */
  let last = await newestId(service);
  /** The entry up to which all were returned. Undefined if the log was empty. */
  let position = from ?? last;
  let unchanged = position === last ? maxUnchanged : 0;
  /** Returned entries that may be after `position`. */
  const returned = new Set<string>();

  /** Makes `poll` leave out these entries. */
  function skip(entries: readonly LogEntry[]): void {
    for (const { id } of entries) returned.add(id);
  }

  /** Yields the new entries in pages, oldest first. If a poll fails, the next one continues after the last page. */
  async function* poll(signal?: AbortSignal): AsyncGenerator<LogEntry[]> {
    const options = signal && { signal };
    const newest = await newestId(service, options);
    if (newest === undefined || (newest === last && unchanged >= maxUnchanged)) return;
    const isEmpty = position === undefined;
    for (let more = true; more; ) {
      const after = position;
      const query = { ...filter, size: maxPageSize, ...(after !== undefined && { after }) };
      const { data, pagination } = await service.logs.list(query, options);
      const added = data.filter(({ id }) => !returned.has(id));
      yield isEmpty ? added.reverse() : added;
      if (isEmpty) skip(data);
      more = !isEmpty && pagination.next !== undefined;
      position = isEmpty ? newest : (pagination.next ?? data.at(-1)?.id ?? after);
    }
    unchanged = newest === last ? unchanged + 1 : 0;
    last = newest;
  }

  return { skip, poll };
}

/** Polls with the same newest entry after which it was certainly sealed. */
const maxUnchanged = 5;

async function newestId(
  service: Service,
  options?: { readonly signal: AbortSignal },
): Promise<string | undefined> {
  return (await service.logs.list({ size: 1 }, options)).data[0]?.id;
}
