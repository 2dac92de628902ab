import { mkdirSync, readFileSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { configuredSinks } from '../../audit/delivery.ts';
import { ArchiveError, DamagedChain } from '../../audit/errors.ts';
import { exportPaths, isReport, verifyFiles, verifyReport } from '../../audit/files.ts';
import type {
  Archived,
  ArchiveStep,
  ChainVerdict,
  Finding,
  HeldBack,
  Part,
  Verdict,
  VerifyOptions,
  VerifyProgress,
} from '../../audit/proof.ts';
import {
  anchorOf,
  chainName,
  chainTenant,
  genesis,
  type Head,
  parseAnchor,
  systemTenant,
} from '../../audit/records.ts';
import { timestamp } from '../../domain/common-fields.ts';
import { type Age, parseAge, timeOfAge } from '../../domain/duration.ts';
import { masterKeys } from '../../operations/master-key.ts';
import type { Maintenance } from '../../store/maintenance.ts';
import { type Command, type Invocation, type Options, option } from '../command.ts';
import { CommandError, describeSystemError, UsageError } from '../errors.ts';
import { withStore } from '../terminal/database.ts';
import { writeLines } from '../terminal/files.ts';
import { progressBar, showProgress } from '../terminal/print.ts';
import { interruptible } from '../terminal/signals.ts';

const tenantOption = option(
  'tenant ID',
  'Only the chain of this tenant; `system` for entries without a tenant.',
);

export const commands: readonly Command[] = [
  {
    usage: 'audit export <FILE>',
    options: [tenantOption],
    summary: 'Export the audit log to a new file, for `audit verify`.',
    details:
      'Works while the service runs. Prints an anchor. With -, the export goes to standard output and the anchor to standard error. The keys in the export are wrapped by the master key.',
    examples: ['sallyport audit export audit.jsonl'],
    run: exportAudit,
  },
  {
    usage: 'audit verify [PATH...]',
    options: [
      option(
        'anchor TENANT:NUMBER:HASH...',
        'Anchor printed earlier by `audit head`, which the log must contain; repeatable.',
      ),
      option('database', 'Verify the database together with the files.'),
      option(
        'since FILE',
        'Output of an earlier run with --json. Segments of the database that it verified are skipped.',
      ),
    ],
    summary: 'Verify exports and archives of the audit log, access reports, or the database.',
    details:
      'Verifies files, and all .jsonl files of folders, together. A folder of `access report` is verified together with the database: its signature, its files, and that the log still contains what it contained then. Needs the master key; the database only if no files are given, for reports, or with --database. Reports changed, removed, inserted and copied entries, a truncated end, a changed index and missing archives. Prints the segments that were verified in each chain, and what was not verified. Shows its progress on standard error, except with --json and without a terminal. A signal stops it, and it says how far it was. Changes nothing. Exits with 0 if the log is valid, with 1 if not.',
    examples: [
      'sallyport audit verify audit.jsonl',
      'sallyport audit verify /archive --database --anchor system:5219:0f5c…',
      'sallyport audit verify --since verified.json --json',
    ],
    run: verifyAudit,
  },
  {
    usage: 'audit archive <FOLDER>',
    options: [
      option(
        'older-than AGE',
        'Age of the entries, such as 3mo, 90d or 24h. Default: SALLYPORT_AUDIT_RETENTION.',
      ),
      tenantOption,
      option(
        'skip-undelivered',
        'Also archive entries that a sink has not received. The sink never receives them.',
      ),
    ],
    summary: 'Move old entries of the audit log from the database into files.',
    details:
      'Writes one file per chain, verifies it, records it in the audit log, and then deletes the entries. Entries that a configured sink has not received stay in the database; the command then names the sink and exits with 1. Works while the service runs. Shows its progress like `audit verify`. If it is interrupted, run it again with the same folder.',
    examples: ['sallyport audit archive /archive --older-than 90d'],
    run: archiveAudit,
  },
  {
    usage: 'audit head',
    options: [tenantOption],
    summary: 'Print an anchor: the number and hash of the last segment of the audit log.',
    details:
      'Records the ends of all chains in the system chain and prints the end of that one, which covers all of them. Store it outside the database. If entries up to the anchor are removed or changed later, `audit verify --anchor` reports it.',
    examples: ['sallyport audit head'],
    run: printHead,
  },
];

/** Maximum number of characters per write to standard output. */
const chunkSize = 65_536;

function exportAudit(invocation: Invocation): Promise<number> {
  const { args, options, printResult, terminal } = invocation;
  const toStdout = args[0] === '-';
  const path = resolve(args[0] as string);
  const tenant = tenantOf(options);
  return withStore(invocation, async (maintenance) => {
    await recordEnds(invocation, maintenance, tenant);
    const exported = await maintenance.audit.export(Date.now(), tenant);
    if (!exported) throw noEntries(tenant as string);
    const { lines, anchor } = exported;
    await (toStdout ? printLines(terminal, lines) : writeLines(path, lines));
    if (!toStdout) return printResult({ file: path, anchor }, `wrote ${path}\nanchor ${anchor}`);
    terminal.writeError(`anchor ${anchor}\n`);
    return 0;
  });
}

/**
 * Seals all pending entries. Without a tenant, also records the ends of all chains in the system chain. A damaged chain,
 * which cannot be sealed, is a warning: its segments are evidence.
 */
async function recordEnds(
  { terminal }: Invocation,
  { audit }: Maintenance,
  tenant: string | undefined,
): Promise<void> {
  const seal = () =>
    audit.seal().catch((error) => {
      if (!(error instanceof DamagedChain)) throw error;
      terminal.writeError(`sallyport: warning: ${error.message}; ${error.hint}\n`);
    });
  await seal();
  if (tenant !== undefined) return;
  await audit.recordHeads('all');
  await seal();
}

function noEntries(tenant: string): CommandError {
  return new CommandError(`${chainName(tenant)} has no audit entries`, 'check the id of the tenant');
}

async function printLines(
  { writeAsync }: Invocation['terminal'],
  lines: AsyncIterable<string>,
): Promise<void> {
  let buffer = '';
  for await (const line of lines) {
    buffer += `${line}\n`;
    if (buffer.length < chunkSize) continue;
    await writeAsync(buffer);
    buffer = '';
  }
  await writeAsync(buffer);
}

async function verifyAudit(invocation: Invocation): Promise<number> {
  const { config, args, options, printResult } = invocation;
  const reports = args.filter((path) => isReport(resolve(path)));
  const files = exportFilesOf(args.filter((path) => !reports.includes(path)));
  const anchors = (options.values('anchor') ?? []).map(toAnchor);
  const withFiles = files.length > 0;
  const since = verifiedBefore(options);
  if (since && withFiles) throw new UsageError('--since applies to the database: leave out the files');
  const verify = async (parts: readonly Part[], found: readonly Finding[] = [], unsealed = 0) => {
    const archives = withFiles ? ('required' as const) : ('optional' as const);
    const all = { masters: masterKeys(config), anchors: [...anchors, ...(since ?? [])], archives };
    const verified = await verifyParts(invocation, files, all, parts, found);
    const note = `${unsealed} ${unsealed === 1 ? 'entry' : 'entries'} that the service has not sealed yet`;
    const verdict = { ...verified, notes: [...verified.notes, ...(unsealed > 0 ? [note] : [])] };
    return printResult(verdict, formatVerdict(verdict).join('\n'), verdict.ok ? 0 : 1);
  };
  if (withFiles && reports.length === 0 && !options.on('database')) return verify([]);
  return withStore(
    invocation,
    async ({ audit, chainKeys }) => {
      if (await audit.isKeyMissing()) return verify([], [missingKey]);
      const keys = await chainKeys();
      const checked = reports.map((path) => verifyReport(resolve(path), keys));
      anchors.push(...checked.flatMap((report) => report.anchors));
      const parts = await audit.parts(Date.now(), since);
      const found = checked.flatMap(({ findings }) => findings);
      return verify(parts, found, (await audit.pending(1_000_000)).entries);
    },
    { readOnly: true },
  );
}

const missingKey: Finding = {
  code: 'wrong_key',
  message: 'the table audit_key is empty, so no entry can be verified: restore it from a backup',
};

/** The ends that an earlier run has verified, from its JSON output. Undefined without --since. */
function verifiedBefore(options: Options): Head[] | undefined {
  const path = options.value('since');
  if (path === undefined) return undefined;
  const problem = (reason: string) => new UsageError(`--since ${path} ${reason}`, 'verify without --since');
  let verdict: Partial<Verdict>;
  try {
    verdict = JSON.parse(readFileSync(resolve(path), 'utf8'));
  } catch (error) {
    throw problem(`cannot be read: ${(error as Error).message}`);
  }
  if (verdict.ok !== true) throw problem('is not the output of a run that found nothing');
  const heads = (verdict.chains ?? []).map(({ anchor }) => parseAnchor(anchor));
  if (heads.length === 0 || heads.includes(undefined))
    throw problem('is not the output of `audit verify --json`');
  return heads.filter((head) => head !== undefined);
}

/** Shows the progress, and stops at a signal with a message that says how far the verification was. */
async function verifyParts(
  { terminal, json }: Invocation,
  files: readonly string[],
  options: VerifyOptions,
  parts: readonly Part[],
  found: readonly Finding[],
): Promise<Verdict> {
  const progress = showProgress(terminal, { lines: !json });
  let last: VerifyProgress | undefined;
  const consequence = () => {
    const { done = 0, total = 0, at, findings = 0 } = last ?? {};
    const place = at ? `, up to segment ${at.segment} of chain ${at.chain}` : '';
    return `verified ${done} of ${countOf(total, 'segment')}${place}, with ${countOf(findings, 'finding')}`;
  };
  try {
    return await interruptible((checkInterrupted) => {
      const between = async (now: VerifyProgress) => {
        last = now;
        progress.update(progressBar('segments', now.done, now.total));
        await checkInterrupted();
      };
      return verifyFiles(files, { ...options, between }, parts, found);
    }, consequence);
  } finally {
    progress.clear();
  }
}

/** Replaces folders with the exports in them. Throws UsageError if a path does not exist or has no exports. */
export function exportFilesOf(paths: readonly string[]): string[] {
  return paths.flatMap((text) => {
    const path = resolve(text);
    if (!statSync(path, { throwIfNoEntry: false }))
      throw new UsageError(`${path} does not exist`, 'check the path');
    const files = exportPaths(path);
    if (files.length === 0) throw new UsageError(`${path} has no .jsonl files`, 'check the path');
    return files;
  });
}

export function formatVerdict({ ok, entries, segments, chains, findings, more, notes }: Verdict): string[] {
  const rest = [...(more > 0 ? [`and ${more} more`] : []), ...notes.map((note) => `not verified: ${note}`)];
  if (!ok) return [...findings.map(formatFinding), ...rest];
  const anchors = chains.some(({ chain }) => chain === 'system')
    ? chains.filter(({ chain }) => chain === 'system')
    : chains;
  const ranges = chains.slice(0, maxRanges).map(formatRange);
  return [
    `valid: ${entries} entries in ${chains.length} ${chains.length === 1 ? 'chain' : 'chains'}, ${segments} segments`,
    ...ranges,
    ...(chains.length > maxRanges ? [`and ${chains.length - maxRanges} more chains`] : []),
    ...anchors.map(({ anchor }) => `anchor ${anchor}`),
    ...rest,
  ];
}

/** Limits the chains in the text output. With --json, all are listed. */
const maxRanges = 20;

function formatRange({ chain, first, last, latest_at }: ChainVerdict): string {
  const names = first === last ? `segment ${first}` : `segments ${first} to ${last}`;
  return `chain ${chain}: ${last < first ? 'no new segments' : `${names}, the latest of ${latest_at}`}`;
}

function formatFinding({ code, chain, file, line, message }: Finding): string {
  const place = [file && `${file}${line === undefined ? '' : ` line ${line}`}`, chain && `chain ${chain}`];
  return [...place, `${message} (${code})`].filter(Boolean).join(': ');
}

function toAnchor(text: string): Head {
  const anchor = parseAnchor(text);
  if (anchor) return anchor;
  throw new UsageError(
    `--anchor must be TENANT:NUMBER:HASH as printed by \`sallyport audit head\`, not "${text}"`,
  );
}

/** Returns undefined if the option was not given. */
function tenantOf(options: Options): string | undefined {
  const text = options.value('tenant');
  if (text === undefined) return undefined;
  if (text !== 'system' && !/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(text))
    throw new UsageError(`--tenant must be the id of a tenant or system, not "${text}"`);
  return chainTenant(text);
}

function printHead(invocation: Invocation): Promise<number> {
  const tenant = tenantOf(invocation.options);
  return withStore(invocation, async (maintenance) => {
    await recordEnds(invocation, maintenance, tenant);
    const tenantId = tenant ?? systemTenant;
    const heads = await maintenance.audit.heads();
    const head = heads.find((one) => one.tenantId === tenantId);
    if (!head && tenant !== undefined) throw noEntries(tenant);
    const anchor = anchorOf({ tenantId, ...(head ? { number: head.number, hash: head.hash } : genesis) });
    return invocation.printResult({ anchor, ...(head && { at: timestamp(head.at) }) }, anchor);
  });
}

async function archiveAudit(invocation: Invocation): Promise<number> {
  const { args, options, config, terminal, printResult } = invocation;
  const age = ageOf(options, config.auditRetention);
  const tenantId = tenantOf(options);
  const folder = resolve(args[0] as string);
  const sinks = (await configuredSinks(config, { env: terminal.env, now: Date.now })).map(({ name }) => name);
  const skipUndelivered = options.on('skip-undelivered');
  const completed: Archived[] = [];
  const onArchived = (one: Archived) => completed.push(one);
  return withStore(invocation, async (maintenance) => {
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      const now = Date.now();
      const chosen = { folder, now, before: timeOfAge(now, age), tenantId, sinks, skipUndelivered };
      const { archived, held } = await showingSteps(invocation, (between) =>
        maintenance.audit.archive({ ...chosen, between, onArchived }),
      );
      const lines = [...formatArchived(folder, archived), ...formatHeld(held)];
      const text = lines.length === 0 ? 'no entries are old enough' : lines.join('\n');
      return printResult({ folder, archived, held }, text, held.length > 0 ? 1 : 0);
    } catch (error) {
      for (const { file, entries } of completed)
        terminal.writeError(
          `sallyport: warning: before the error, ${countOf(entries, 'entry was', 'entries were')} archived to ${join(folder, file)}\n`,
        );
      if (error instanceof DamagedChain || error instanceof ArchiveError)
        throw new CommandError(error.message, error.hint);
      throw describeSystemError(`cannot write to ${folder}`, error);
    }
  });
}

/** Shows the progress of an archive, and stops at a signal with a message that names the step. */
async function showingSteps<T>(
  { terminal, json }: Invocation,
  work: (between: (step: ArchiveStep) => Promise<void>) => Promise<T>,
): Promise<T> {
  const progress = showProgress(terminal, { lines: !json });
  let last: ArchiveStep | undefined;
  const consequence = () => {
    const count = last?.total === undefined ? '' : ` (segment ${last.done} of ${last.total})`;
    return `${last ? `stopped while ${last.doing}${count}; ` : ''}no entry is lost`;
  };
  try {
    return await interruptible(
      (checkInterrupted) =>
        work(async (step) => {
          last = step;
          progress.update(progressBar(step.doing, step.done, step.total));
          await checkInterrupted();
        }),
      consequence,
    );
  } finally {
    progress.clear();
  }
}

function ageOf(options: Options, retention: Age | undefined): Age {
  const text = options.value('older-than');
  if (text === undefined && retention === undefined)
    throw new UsageError('audit archive needs --older-than AGE or SALLYPORT_AUDIT_RETENTION');
  const age = text === undefined ? retention : parseAge(text);
  if (age === undefined)
    throw new UsageError(`--older-than must be an age such as 3mo, 90d or 24h, not "${text}"`);
  return age;
}

function formatArchived(folder: string, archived: readonly Archived[]): string[] {
  if (archived.length === 0) return [];
  const lines = archived.map(
    ({ file, entries }) => `  ${file}  ${entries} ${entries === 1 ? 'entry' : 'entries'}`,
  );
  return [`archived to ${folder}:`, ...lines];
}

function formatHeld(held: readonly HeldBack[]): string[] {
  if (held.length === 0) return [];
  const lines = held.map(
    ({ chain, sink, received, entries }) =>
      `  chain ${chain}: ${countOf(entries, 'entry', 'entries')}, because ${sink} has received segments up to ${received}`,
  );
  return [
    'not archived:',
    ...lines,
    'run `sallyport sinks`, and archive again after the delivery; --skip-undelivered archives them, and the sink misses them',
  ];
}

function countOf(number: number, one: string, many = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`;
}
