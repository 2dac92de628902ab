import { mkdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import {
  type AccessEntry,
  type AccessReview,
  type AdviceEntry,
  type Application,
  accessReport,
} from '../../../sdk/src/sallyport.ts';
import { timestamp } from '../../domain/common-fields.ts';
import { acceptsPerson, signInEntries } from '../../domain/trusted-issuer.ts';
import { type Call, option, type RemoteCommand } from '../command.ts';
import { UsageError } from '../errors.ts';
import { requireUnused, withNewFile, writeError } from '../terminal/files.ts';
import { formatPairs, only, pairsOf } from '../terminal/options.ts';
import { limitOption, printList, printTable, rowsOption, showProgress } from '../terminal/print.ts';
import { interruptible } from '../terminal/signals.ts';
import { appArgument, findApplication } from './apps.ts';

const claimOption = option(
  'claim NAME=VALUE...',
  'Claim of a person, such as groups=admins,staff; repeatable.',
);

export const commands: readonly RemoteCommand[] = [
  {
    usage: 'access who',
    options: [
      option('container PATH', 'Container to review, such as /customers/42/.'),
      option('token ID', 'Token to review, instead of a container.'),
      option('permission PERMISSION', 'Permission to review. Default: token:read.'),
      option(
        'destination DESTINATION',
        'Who can use tokens at this destination. The permission is token:use.',
      ),
      limitOption,
    ],
    summary: 'List who has access to a container or token, riskiest first.',
    details:
      'Lists applications and active sessions with their transform (reveal, mask or redact), the rule that decides, and the last use of the permission there. Needs access:review. The number of entries by transform is printed to standard error.',
    examples: [
      'sallyport access who --container /customers/42/',
      'sallyport access who --token card-42 --permission token:delete',
      'sallyport access who --container /cards/ --destination payments',
    ],
    call: who,
  },
  {
    usage: 'access diff',
    options: [
      option('from TIME', 'Earlier time, such as 2030-01-01T00:00:00Z.'),
      option('to TIME', 'Later time. Default: now.'),
      option('container PATH', 'Only access to this container.'),
      option('permission PERMISSION', 'Only this permission.'),
      rowsOption,
    ],
    summary: 'List applications that gained or lost access between two times.',
    details:
      'Reads the audit log, without archived entries. Sessions are not compared. The last column has the last operation that changed the application. Needs access:review.',
    examples: [
      'sallyport access diff --from 2030-01-01T00:00:00Z --container /customers/',
      'sallyport access diff --from 2030-01-01T00:00:00Z --to 2030-02-01T00:00:00Z',
    ],
    call: diff,
  },
  {
    usage: 'access advise',
    options: [
      option('app APP', 'Only this application. Default: all applications.'),
      option('days NUMBER', 'Consider the uses of this many days. Default: 90.'),
      option('yaml', 'Print the proposals as a file for `sallyport apply`. Needs application:read.'),
      rowsOption,
    ],
    summary: 'List unused grants, riskiest first, or propose smaller ones.',
    details: `${appArgument} A proposal covers every recorded use and allows nothing new. Uses are recorded by permission and container; a stricter transform is never proposed. Needs access:review.`,
    examples: [
      'sallyport access advise --app "web shop"',
      'sallyport access advise --days 30 --yaml > smaller.yaml',
    ],
    call: advise,
  },
  {
    usage: 'access people',
    options: [claimOption, rowsOption],
    summary: 'List who can sign in to the console as which application, in the order of evaluation.',
    details:
      'Lists the trusted issuers with sign_in_priority. With --claim, lists those that accept a person with these claims: the first of an issuer is used. Needs application:read.',
    examples: ['sallyport access people', 'sallyport access people --claim groups=admins,staff'],
    call: people,
  },
  {
    usage: 'access report',
    options: [
      option('from TIME', 'Start of the period, such as 2030-01-01T00:00:00Z.'),
      option('to TIME', 'End of the period. Default: now.'),
      option('out DIR', 'New folder for the files. Default: access-report-DATE.'),
      option('verification FILE', 'Output of `audit verify --json`, to include its result.'),
    ],
    summary: 'Write a report for auditors: who has access, what changed, and who read plaintext.',
    details:
      'Writes CSV files, a page to print (report.html) and a signed manifest: grants of all applications and active sessions, changes and plaintext reads of the period with their purposes, unused grants with a risk, and keys without an end. The operator checks the files and the audit log with `sallyport audit verify DIR`. Needs access:review; parts that need log:read, application:read or session:read are left out without these permissions, and the page says so.',
    examples: ['sallyport access report --from 2030-01-01T00:00:00Z --to 2030-04-01T00:00:00Z --out q1'],
    call: report,
  },
];

function report(call: Call): Promise<number> {
  const { options, service, terminal, printResult } = call;
  const [from, to = timestamp(Date.now())] = [options.value('from'), options.value('to')];
  if (from === undefined) throw new UsageError('no period', 'pass --from');
  const folder = resolve(options.value('out') ?? `access-report-${timestamp(Date.now()).slice(0, 10)}`);
  requireUnused(folder);
  const verification = verificationOf(options.value('verification'));
  return interruptible(async (checkInterrupted) => {
    const shown = showProgress(terminal, { lines: !call.json });
    const progress = async (title: string, rows: number) => {
      shown.update(`${title}: ${rows}`);
      await checkInterrupted();
    };
    const files = await accessReport(service, { from, to, verification, progress }).finally(shown.clear);
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
    } catch (error) {
      throw writeError(folder, error);
    }
    for (const { name, text } of files) await withNewFile(join(folder, name), async (write) => write(text));
    const names = files.map(({ name }) => name);
    return printResult({ folder, files: names }, `wrote ${folder}\nto print: ${join(folder, 'report.html')}`);
  });
}

function verificationOf(path: string | undefined) {
  if (path === undefined) return undefined;
  try {
    const text = readFileSync(resolve(path), 'utf8');
    const { ok } = JSON.parse(text) as { ok?: unknown };
    if (typeof ok === 'boolean') return { ok, text };
  } catch (error) {
    throw new UsageError(`--verification ${path} cannot be read: ${(error as Error).message}`);
  }
  throw new UsageError(`--verification ${path} is not the output of \`audit verify --json\``);
}

async function people(call: Call): Promise<number> {
  const given = pairsOf(call, claimOption);
  const person = { email_verified: true, ...Object.fromEntries(Object.entries(given ?? {}).map(claimOf)) };
  const applications: Application[] = [];
  for await (const each of call.service.applications.all({ type: 'management' })) applications.push(each);
  const entries = signInEntries(applications.toReversed()).filter(
    ({ entry }) => given === undefined || acceptsPerson(entry, person),
  );
  const rows = entries.map(({ application, entry }) => [
    String(entry.sign_in_priority),
    application.name,
    entry.issuer,
    formatPairs(entry.claims as Record<string, string>),
  ]);
  const head = ['PRIORITY', 'APPLICATION', 'ISSUER', 'CLAIMS'];
  return printTable(call, entries, 'entries for people', head, rows);
}

/** The values as a list. Numbers and booleans are also in it as such, because an entry compares types. */
function claimOf([name, text]: [string, string]): [string, unknown[]] {
  const values = text.split(',');
  return [
    name,
    [
      ...values,
      ...values.filter((value) => /^(true|false|\d+)$/.test(value)).map((value) => JSON.parse(value)),
    ],
  ];
}

async function diff(call: Call): Promise<number> {
  const { options, service, terminal } = call;
  const from = options.value('from');
  if (from === undefined) throw new UsageError('no time to compare with', 'pass --from');
  const [to, container, permission] = ['to', 'container', 'permission'].map((name) => options.value(name));
  const found = await service.access.diff({ from, ...only({ to, container, permission }) });
  const rows = found.data.map(({ application, permission, container, from, to, events }) => {
    const last = events.at(-1);
    return [
      changeOf(from, to),
      application.name,
      permission,
      container ?? '',
      `${from} to ${to}`,
      last ? `${last.operation} ${last.at}` : '',
    ];
  });
  const head = ['CHANGE', 'APPLICATION', 'PERMISSION', 'CONTAINER', 'ACCESS', 'LAST OPERATION'];
  printTable(call, found, 'differences', head, rows);
  const warn = (text: string) => terminal.writeError(`sallyport: warning: ${text}\n`);
  if (found.recorded_since !== undefined)
    warn(`not recorded before ${found.recorded_since}: earlier entries were archived`);
  if (!found.complete) warn('not all differences are listed: compare shorter periods');
  for (const id of found.unknown) warn(`the earlier access of application ${id} is not recorded`);
  return 0;
}

function changeOf(from: string, to: string): string {
  if (from === 'denied') return 'gained';
  return to === 'denied' ? 'lost' : 'changed';
}

async function who(call: Call): Promise<number> {
  const { options, service, terminal } = call;
  const [container, token] = [options.value('container'), options.value('token')];
  if (container !== undefined && token !== undefined)
    throw new UsageError('--container and --token cannot both be given');
  if (container === undefined && token === undefined)
    throw new UsageError('nothing to review', 'pass either --container or --token');
  const destination = options.value('destination');
  const permission = options.value('permission') ?? (destination === undefined ? undefined : 'token:use');
  const query = only({ container, token, permission, destination });
  const first = await service.access.who({ ...query, size: 100 });
  const exitCode = await printList(call, entriesFrom(first, query, call), {
    noun: 'applications or sessions with access',
    head: ['TRANSFORM', 'TYPE', 'NAME', 'ID', 'RULE', 'LIMITED BY', 'LAST USED'],
    row: (entry) => [
      entry.require_purpose ? `${entry.transform} with a purpose` : entry.transform,
      entry.subject.type,
      entry.subject.subject ? `${entry.subject.name} for ${entry.subject.subject}` : entry.subject.name,
      entry.subject.id,
      ruleOf(entry),
      limitsOf(entry),
      entry.last_used_at ?? '',
    ],
  });
  if (first.totals) terminal.writeError(`${totalsText(first.totals)}\n`);
  return exitCode;
}

/** The entries of all pages. The caller has read the first page, because only that has totals. */
async function* entriesFrom(
  { data, pagination }: AccessReview,
  query: Record<string, string>,
  { service }: Call,
): AsyncGenerator<AccessEntry> {
  yield* data;
  if (pagination.next) yield* service.access.everyone({ ...query, start: pagination.next });
}

function ruleOf({ rule }: AccessEntry): string {
  const name = rule.rule === 'permissions' ? 'permissions' : `rule ${rule.rule}`;
  return rule.of === 'authorizer' ? `${name} of the authorizer` : name;
}

function limitsOf({ limited_by, quarantine }: AccessEntry): string {
  const limits = [limited_by?.name, quarantine && `quarantine of the ${quarantine.type}`];
  return limits.filter((limit) => limit !== undefined).join(', ');
}

function totalsText({ reveal, mask, redact }: NonNullable<AccessReview['totals']>): string {
  return `${reveal} reveal, ${mask} mask, ${redact} redact`;
}

async function advise(call: Call): Promise<number> {
  const { options, service, print } = call;
  const [app, days] = [options.value('app'), options.value('days')];
  const application_id = app === undefined ? undefined : (await findApplication(call, app)).id;
  const query = only({ application_id, days: days as unknown as number | undefined });
  const advice: AdviceEntry[] = [];
  for await (const entry of service.access.adviceOnAll(query)) advice.push(entry);
  if (!options.on('yaml')) return printUnused(call, advice);
  const proposed: Application[] = [];
  for (const { application, proposal } of advice)
    if (proposal) proposed.push({ ...(await service.applications.get(application.id)), ...proposal });
  const { formatAccessFile } = await import('./access-file.ts');
  print(formatAccessFile(proposed, false).trimEnd());
  return 0;
}

const risks = ['management', 'reveal', 'change', 'mask', 'redact'];

function printUnused(call: Call, advice: readonly AdviceEntry[]): number {
  const unused = advice
    .flatMap(({ application, unused }) => unused.map((grant) => ({ application, ...grant })))
    .sort((a, b) => risks.indexOf(a.risk) - risks.indexOf(b.risk));
  const head = ['RISK', 'APPLICATION', 'PERMISSION', 'CONTAINER', 'TRANSFORM', 'RULE'];
  const rows = unused.map(({ risk, application, permission, container, transform, rule }) => [
    risk,
    application.name,
    permission,
    container,
    transform,
    String(rule),
  ]);
  return printTable(call, advice, 'unused grants', head, rows);
}
