import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import { timestamp } from '../../domain/common-fields.ts';
import { chainAll, exportLines, exportPaths, verifyFiles } from '../../operations/audit-files.ts';
import { masterKeys } from '../../operations/master-key.ts';
import { chainName, parsePosition } from '../../store/audit/export-format.ts';
import { anchorOf, genesis, systemTenant } from '../../store/audit/hash-chain.ts';
import type { Verdict } from '../../store/audit/verify.ts';
import type { Anchor, ChainVerdict, Finding, Part } from '../../store/audit/verify-chain-options.ts';
import { rowNames } from '../../store/audit/verify-part.ts';
import { wrappedChainKeys } from '../../store/crypto/keyring.ts';
import type { DbTime } from '../../store/engine/db.ts';
import type { Maintenance } from '../../store/maintenance.ts';
import type { Command, Invocation, Option, Options } from '../command.ts';
import { CommandError, UsageError } from '../errors.ts';
import { withStore } from '../terminal/database.ts';
import { writeLines } from '../terminal/files.ts';

export const tenantOption: Option = {
  name: 'tenant',
  value: 'ID',
  description: 'Only the chain of this tenant; `system` for entries without a tenant.',
};

export const auditFileCommands: readonly Command[] = [
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
      {
        name: 'anchor',
        value: 'TENANT:SEQ:HASH',
        repeatable: true,
        description: 'Anchor printed earlier by `audit head`, which the log must contain; repeatable.',
      },
      { name: 'database', description: 'Verify the database together with the files.' },
    ],
    summary: 'Verify exports and archives of the audit log, or the database.',
    details:
      'Verifies files, and all .jsonl files of folders, together. Needs the master key; the database only if no files are given or with --database. Reports changed, removed, inserted and moved entries, a truncated end, and missing archives. Prints the entries that were verified in each chain, and what was not verified. Changes nothing. Exits with 0 if the log is valid, with 1 if not.',
    examples: [
      'sallyport audit verify audit.jsonl',
      'sallyport audit verify /archive --database --anchor system:5219:0f5c…',
    ],
    run: verifyAudit,
  },
  {
    usage: 'audit head',
    options: [tenantOption],
    summary: 'Print an anchor: the number and hash of the last entry of the audit log.',
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
    await recordEnds(maintenance, tenant);
    const parts = await maintenance.audit.export(Date.now(), tenant);
    const first = parts[0];
    if (!first) throw noEntries(tenant as string);
    const lines = exportLines(parts);
    await (toStdout ? printLines(terminal, lines) : writeLines(path, lines));
    const anchor = `${chainName(first.header.tenant_id)}:${first.head}`;
    if (!toStdout) return printResult({ file: path, anchor }, `wrote ${path}\nanchor ${anchor}`);
    terminal.writeError(`anchor ${anchor}\n`);
    return 0;
  });
}

/** Chains all pending entries. Without a tenant, also records the ends of all chains in the system chain. */
async function recordEnds(maintenance: Maintenance, tenant: string | undefined): Promise<void> {
  await chainAll(maintenance);
  if (tenant !== undefined) return;
  await maintenance.audit.recordHeads('all');
  await chainAll(maintenance);
}

export function noEntries(tenant: string): CommandError {
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
  const files = exportFilesOf(args);
  const anchors = (options.values('anchor') ?? []).map(toAnchor);
  const withFiles = args.length > 0;
  const verify = async (parts: readonly Part[], found: readonly Finding[] = [], unchained = 0) => {
    const archives = withFiles ? ('required' as const) : ('optional' as const);
    const masters = masterKeys(config);
    const verified = await verifyFiles(files, { masters, anchors, archives }, parts, found);
    const note = `${unchained} ${unchained === 1 ? 'entry' : 'entries'} that the service has not chained yet`;
    const verdict = { ...verified, notes: [...verified.notes, ...(unchained > 0 ? [note] : [])] };
    return printResult(verdict, formatVerdict(verdict).join('\n'), verdict.ok ? 0 : 1);
  };
  if (withFiles && !options.on('database')) return verify([]);
  return withStore(
    invocation,
    async ({ audit, db }) => {
      if (!(await wrappedChainKeys(db))) return verify([], [missingKey]);
      const parts = await audit.export(Date.now());
      const pending = await db.get<{ count: DbTime }>('select count(*) as count from audit_pending');
      return verify(parts, [], Number(pending?.count));
    },
    { readOnly: true },
  );
}

const missingKey: Finding = {
  code: 'missing_key',
  message: 'the table audit_key is empty, so no entry can be verified: restore it from a backup',
};

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

export function formatVerdict({ ok, rows, checkpoints, chains, findings, more, notes }: Verdict): string[] {
  const rest = [...(more > 0 ? [`and ${more} more`] : []), ...notes.map((note) => `not verified: ${note}`)];
  if (!ok) return [...findings.map(formatFinding), ...rest];
  const anchors = chains.some(({ chain }) => chain === 'system')
    ? chains.filter(({ chain }) => chain === 'system')
    : chains;
  const ranges = chains.slice(0, maxRanges).map(formatRange);
  return [
    `valid: ${rows} entries in ${chains.length} ${chains.length === 1 ? 'chain' : 'chains'}, ${checkpoints} checkpoints`,
    ...ranges,
    ...(chains.length > maxRanges ? [`and ${chains.length - maxRanges} more chains`] : []),
    ...anchors.map(({ anchor }) => `anchor ${anchor}`),
    ...rest,
  ];
}

/** Limits the chains in the text output. With --json, all are listed. */
const maxRanges = 20;

function formatRange({ chain, first, last, latest_at }: ChainVerdict): string {
  const rows = last < first ? 'no entries' : `${rowNames(first, last)}, the latest of ${latest_at}`;
  return `chain ${chain}: ${rows}`;
}

function formatFinding({ code, chain, file, line, message }: Finding): string {
  const place = [file && `${file}${line === undefined ? '' : ` line ${line}`}`, chain && `chain ${chain}`];
  return [...place, `${message} (${code})`].filter(Boolean).join(': ');
}

function toAnchor(text: string): Anchor {
  const [, chain = '', rest = ''] = /^(system|[0-9a-f-]{36}):(.*)$/.exec(text) ?? [];
  const position = parsePosition(rest);
  if (!position)
    throw new UsageError(
      `--anchor must be TENANT:SEQ:HASH as printed by \`sallyport audit head\`, not "${text}"`,
    );
  return { tenantId: tenantIdOf(chain), ...position };
}

function tenantIdOf(chain: string): string {
  return chain === 'system' ? systemTenant : chain;
}

/** Returns undefined if the option was not given. */
export function tenantOf(options: Options): string | undefined {
  const text = options.value('tenant');
  if (text === undefined) return undefined;
  if (text !== 'system' && !/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(text))
    throw new UsageError(`--tenant must be the id of a tenant or system, not "${text}"`);
  return tenantIdOf(text);
}

function printHead(invocation: Invocation): Promise<number> {
  const tenant = tenantOf(invocation.options);
  return withStore(invocation, async (maintenance) => {
    await recordEnds(maintenance, tenant);
    const tenantId = tenant ?? systemTenant;
    const heads = await maintenance.audit.heads();
    const head = heads.find((one) => (one.tenantId ?? systemTenant) === tenantId);
    if (!head && tenant !== undefined) throw noEntries(tenant);
    const anchor = anchorOf({ tenantId, seq: head?.seq ?? 0, hash: head?.hash ?? genesis });
    return invocation.printResult({ anchor, ...(head && { at: timestamp(head.at) }) }, anchor);
  });
}
