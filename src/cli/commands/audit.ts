import { resolve } from 'node:path';
import { timestamp } from '../../domain/common-fields.ts';
import { masterKeys } from '../../operations/master-key.ts';
import type { Footer } from '../../store/audit/export-format.ts';
import { anchorOf, genesis } from '../../store/audit/hash-chain.ts';
import { type Anchor, type Verdict, verifyExport } from '../../store/audit/verify.ts';
import type { Maintenance } from '../../store/maintenance.ts';
import type { Command, Invocation } from '../command.ts';
import { UsageError } from '../errors.ts';
import { readLines, writeLines } from '../terminal/files.ts';
import { withStore } from '../terminal/open-store.ts';

export const auditCommands: readonly Command[] = [
  {
    words: ['audit', 'export'],
    args: ['FILE'],
    summary: 'Export the audit log to a new file that can be verified.',
    details:
      'Works while the service runs. With -, the export goes to standard output and the anchor to standard error. The export contains no key that is usable without the master key.',
    examples: ['sallyport audit export audit.jsonl'],
    run: exportAudit,
  },
  {
    words: ['audit', 'verify'],
    args: ['FILE'],
    options: [
      {
        name: 'anchor',
        value: 'SEQ:HASH',
        repeatable: true,
        description: 'Anchor printed earlier by `audit head`, which the log must contain; repeatable.',
      },
    ],
    summary: 'Verify an export of the audit log.',
    details:
      'Needs the file and the master key, not the database. Reports changed, removed, inserted and moved entries, and a truncated end. Exits with 1 if the log does not verify.',
    examples: ['sallyport audit verify audit.jsonl'],
    run: verifyAudit,
  },
  {
    words: ['audit', 'head'],
    args: [],
    summary: 'Print an anchor for the end of the audit log.',
    details: 'Store it outside the database. `audit verify --anchor` then detects a truncated log.',
    examples: ['sallyport audit head'],
    run: printHead,
  },
];

/** Characters per write to standard output. */
const chunkSize = 65_536;

/** Chains all entries that are not chained yet. */
export async function chainAll(maintenance: Maintenance): Promise<void> {
  while ((await maintenance.audit.append(1000)) > 0);
}

function exportAudit(invocation: Invocation): Promise<number> {
  const { args, json, print, terminal } = invocation;
  const toStdout = args[0] === '-';
  const path = resolve(args[0] as string);
  return withStore(invocation, async (maintenance) => {
    await chainAll(maintenance);
    const lines = maintenance.audit.export(Date.now());
    const footer = await (toStdout ? printLines(terminal, lines) : writeLines(path, lines));
    const { head: anchor } = JSON.parse(footer) as Footer;
    if (toStdout) terminal.writeError(`anchor ${anchor}\n`);
    else print(json ? JSON.stringify({ file: path, anchor }) : `wrote ${path}\nanchor ${anchor}`);
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

async function verifyAudit({ config, args, options, json, print }: Invocation): Promise<number> {
  const path = resolve(args[0] as string);
  const anchors = options.values('anchor').map(toAnchor);
  const verdict = await verifyExport(readLines(path), { masters: masterKeys(config), anchors });
  if (json) print(JSON.stringify(verdict));
  else for (const line of formatVerdict(verdict)) print(line);
  return verdict.ok ? 0 : 1;
}

export function formatVerdict({ ok, rows, checkpoints, head, findings, more }: Verdict): string[] {
  if (ok) return [`valid: ${rows} entries, ${checkpoints} checkpoints`, `anchor ${head}`];
  const rest = more > 0 ? [`and ${more} more`] : [];
  return [...findings.map(({ line, says }) => `line ${line}: ${says}`), ...rest];
}

function toAnchor(text: string): Anchor {
  const match = /^(\d{1,15}):([0-9a-f]{64})$/.exec(text);
  if (!match)
    throw new UsageError(`--anchor must be SEQ:HASH as printed by \`sallyport audit head\`, not "${text}"`);
  return { seq: Number(match[1]), hash: match[2] as string };
}

function printHead(invocation: Invocation): Promise<number> {
  const { json, print } = invocation;
  return withStore(invocation, async (maintenance) => {
    await chainAll(maintenance);
    const head = await maintenance.audit.head();
    const anchor = anchorOf(head ?? { seq: 0, hash: genesis });
    print(json ? JSON.stringify({ anchor, ...(head && { at: timestamp(head.at) }) }) : anchor);
  });
}
