import { resolve } from 'node:path';
import { z } from 'zod';
import { type LogEntry, logFilter } from '../../domain/audit.ts';
import { Id } from '../../domain/common-fields.ts';
import { check } from '../../domain/validate.ts';
import { masterKeys } from '../../operations/master-key.ts';
import type { Footer } from '../../store/audit/export.ts';
import { anchorOf, systemTenant } from '../../store/audit/hash-chain.ts';
import { type Anchor, type Verdict, verifyExport } from '../../store/audit/verify.ts';
import type { Maintenance } from '../../store/maintenance.ts';
import type { Command, Invocation, Options } from '../command.ts';
import { UsageError } from '../errors.ts';
import { AuditTail } from '../terminal/audit-tail.ts';
import { withStore } from '../terminal/database.ts';
import { readLines, writeLines } from '../terminal/files.ts';
import { follow, lines, printEntries, tailOptions } from '../terminal/tail.ts';

export const auditCommands: readonly Command[] = [
  {
    usage: 'audit tail',
    options: [...tailOptions, { name: 'tenant', value: 'ID', description: 'Filter by the id of a tenant.' }],
    summary: 'Print the latest entries of the audit log of all tenants.',
    examples: ['sallyport audit tail --lines 100 --json'],
    details:
      'Prints one line per entry, or one JSON object per line with --json. Reads the database directly, whether the service runs or not.',
    run: tail,
  },
  {
    usage: 'audit export <FILE>',
    summary: 'Export the audit log to a new file, for `audit verify`.',
    details:
      'Works while the service runs. Prints an anchor, the number and hash of the last entry. With -, the export goes to standard output and the anchor to standard error. The keys in the export are wrapped by the master key.',
    examples: ['sallyport audit export audit.jsonl'],
    run: exportAudit,
  },
  {
    usage: 'audit verify <FILE>',
    options: [
      {
        name: 'anchor',
        value: 'TENANT:SEQ:HASH',
        repeatable: true,
        description: 'Anchor printed earlier by `audit head`, which the log must contain; repeatable.',
      },
    ],
    summary: 'Verify an export of the audit log.',
    details:
      'Needs the file and the master key, not the database. Reports changed, removed, inserted and moved entries, and a truncated end. Exits with 0 if the log is valid, with 1 if not.',
    examples: ['sallyport audit verify audit.jsonl'],
    run: verifyAudit,
  },
  {
    usage: 'audit head',
    summary: 'Print an anchor: the number and hash of the last entry of the audit log.',
    details:
      'Store it outside the database. If entries up to the anchor are removed or changed later, `audit verify --anchor` reports it.',
    examples: ['sallyport audit head'],
    run: printHead,
  },
];

const Filter = z.strictObject({
  ...logFilter,
  tenant: Id.optional(),
  lines,
});
type Filter = z.infer<typeof Filter>;

async function tail(invocation: Invocation): Promise<number> {
  const { options, terminal, config } = invocation;
  const { lines, tenant, ...filter } = filterOf(options);
  const show = (entries: readonly LogEntry[]) => printEntries(invocation, entries);
  return withStore(invocation, async ({ audit }) => {
    const tailing = new AuditTail(audit, filter, tenant);
    show(await tailing.last(lines));
    const poll = async () => {
      for await (const entries of tailing.more()) show(entries);
    };
    if (options.on('follow')) await follow(poll, terminal, { databaseUrl: config.databaseUrl });
    return 0;
  });
}

function filterOf(options: Options): Filter {
  const names = Object.keys(Filter.shape);
  const values = Object.fromEntries(names.map((name) => [name, options.value(optionName(name))]));
  const checked = check(Filter, values);
  if ('data' in checked) return checked.data;
  const [fault] = checked.faults;
  throw new UsageError(`--${optionName(fault?.path[0] as string)} ${fault?.message}`);
}

function optionName(field: string): string {
  return field.replace('_', '-');
}

/** Characters per write to standard output. */
const chunkSize = 65_536;

/** Chains all entries that are not chained yet. */
export async function chainAll(maintenance: Maintenance): Promise<void> {
  while ((await maintenance.audit.append(1000)) > 0);
}

function exportAudit(invocation: Invocation): Promise<number> {
  const { args, printResult, terminal } = invocation;
  const toStdout = args[0] === '-';
  const path = resolve(args[0] as string);
  return withStore(invocation, async (maintenance) => {
    await chainAll(maintenance);
    const exported = maintenance.audit.export(Date.now());
    const footer = await (toStdout ? printLines(terminal, exported) : writeLines(path, exported));
    const { heads: anchors } = JSON.parse(footer) as Footer;
    const lines = anchors.map((anchor) => `anchor ${anchor}`);
    if (!toStdout) return printResult({ file: path, anchors }, [`wrote ${path}`, ...lines].join('\n'));
    terminal.writeError(`${lines.join('\n')}\n`);
    return 0;
  });
}

/** Returns the last line. */
async function printLines(
  { writeAsync }: Invocation['terminal'],
  lines: AsyncIterable<string>,
): Promise<string> {
  let [last, buffer] = ['', ''];
  for await (const line of lines) {
    last = line;
    buffer += `${line}\n`;
    if (buffer.length < chunkSize) continue;
    await writeAsync(buffer);
    buffer = '';
  }
  await writeAsync(buffer);
  return last;
}

async function verifyAudit({ config, args, options, printResult }: Invocation): Promise<number> {
  const path = resolve(args[0] as string);
  const anchors = (options.values('anchor') ?? []).map(toAnchor);
  const verdict = await verifyExport(readLines(path), { masters: masterKeys(config), anchors });
  return printResult(verdict, formatVerdict(verdict).join('\n'), verdict.ok ? 0 : 1);
}

export function formatVerdict({ ok, rows, checkpoints, heads, findings, more }: Verdict): string[] {
  if (ok)
    return [
      `valid: ${rows} entries, ${checkpoints} checkpoints`,
      ...heads.map((anchor) => `anchor ${anchor}`),
    ];
  const rest = more > 0 ? [`and ${more} more`] : [];
  return [...findings.map(({ line, code, message }) => `line ${line}: ${message} (${code})`), ...rest];
}

function toAnchor(text: string): Anchor {
  const match = /^(system|[0-9a-f-]{36}):(\d{1,15}):([0-9a-f]{64})$/.exec(text);
  if (!match)
    throw new UsageError(
      `--anchor must be TENANT:SEQ:HASH as printed by \`sallyport audit head\`, not "${text}"`,
    );
  const tenantId = match[1] === 'system' ? systemTenant : (match[1] as string);
  return { tenantId, seq: Number(match[2]), hash: match[3] as string };
}

function printHead(invocation: Invocation): Promise<number> {
  return withStore(invocation, async (maintenance) => {
    await chainAll(maintenance);
    const heads = await maintenance.audit.heads();
    const anchors = heads.map((head) => anchorOf({ ...head, tenantId: head.tenantId ?? systemTenant }));
    return invocation.printResult({ anchors }, anchors.join('\n'));
  });
}
