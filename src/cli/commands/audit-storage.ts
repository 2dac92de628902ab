/** Commands that change how the audit log is stored: archives and the index. */
import { mkdirSync } from 'node:fs';
import { resolve } from 'node:path';
import { parseDuration } from '../../domain/duration.ts';
import { type Archived, ArchiveError, archiveLog, type HeldBack } from '../../operations/audit-archive.ts';
import { chainAll } from '../../operations/audit-files.ts';
import { configuredSinks } from '../../sinks/configured.ts';
import { systemTenant } from '../../store/audit/hash-chain.ts';
import type { Reindexed } from '../../store/audit/reindex.ts';
import { DamagedChain } from '../../store/audit/signed-position.ts';
import type { Command, Invocation, Options } from '../command.ts';
import { CommandError, describeSystemError, UsageError } from '../errors.ts';
import { withStore } from '../terminal/database.ts';
import { interruptible } from '../terminal/signals.ts';
import { noEntries, tenantOf, tenantOption } from './audit-files.ts';

export const auditStorageCommands: readonly Command[] = [
  {
    usage: 'audit archive <FOLDER>',
    options: [
      {
        name: 'older-than',
        value: 'AGE',
        description: 'Age of the entries, such as 90d or 24h. Default: SALLYPORT_AUDIT_RETENTION.',
      },
      tenantOption,
      {
        name: 'skip-undelivered',
        description: 'Also archive entries that a sink has not received. The sink never receives them.',
      },
    ],
    summary: 'Move old entries of the audit log from the database into files.',
    details:
      'Writes one file per chain, verifies it, records it in the audit log, and then deletes the entries in small batches. Entries that a configured sink has not received stay in the database; the command then names the sink and exits with 1. Works while the service runs. If it is interrupted, run it again with the same folder.',
    examples: ['sallyport audit archive /archive --older-than 90d'],
    run: archiveAudit,
  },
  {
    usage: 'audit reindex',
    options: [tenantOption],
    summary: 'Rebuild the index of the audit log from its entries.',
    details:
      'Run it if `audit verify` or `doctor` reports changed_index: until then, filters may miss entries. Works while the service runs, changes no entry, and records the repair in the audit log. Entries without a valid MAC are not in the new index. Exits with 1 if there are any.',
    examples: ['sallyport audit reindex'],
    run: reindexAudit,
  },
];

async function archiveAudit(invocation: Invocation): Promise<number> {
  const { args, options, config, terminal, printResult } = invocation;
  const age = ageOf(options, config.auditRetention);
  const tenantId = tenantOf(options);
  const folder = resolve(args[0] as string);
  const sinks = (await configuredSinks(config, { env: terminal.env, now: Date.now })).map(({ name }) => name);
  const skipUndelivered = options.on('skip-undelivered');
  return withStore(invocation, async (maintenance) => {
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      const now = Date.now();
      const chosen = { folder, now, before: now - age, tenantId, sinks, skipUndelivered };
      const { archived, held } = await interruptible(
        (between) => archiveLog(maintenance, { ...chosen, between }),
        'interrupted; no entry is lost',
      );
      const lines = [...formatArchived(folder, archived), ...formatHeld(held)];
      const text = lines.length === 0 ? 'no entries are old enough' : lines.join('\n');
      return printResult({ folder, archived, held }, text, held.length > 0 ? 1 : 0);
    } catch (error) {
      if (error instanceof DamagedChain || error instanceof ArchiveError)
        throw new CommandError(error.message, error.hint);
      throw describeSystemError(`cannot write to ${folder}`, error);
    }
  });
}

function ageOf(options: Options, retention: number | undefined): number {
  const text = options.value('older-than');
  if (text === undefined && retention === undefined)
    throw new UsageError('audit archive needs --older-than AGE or SALLYPORT_AUDIT_RETENTION');
  const age = text === undefined ? retention : parseDuration(text);
  if (age === undefined)
    throw new UsageError(`--older-than must be an age such as 90d or 24h, not "${text}"`);
  return age;
}

function formatArchived(folder: string, archived: readonly Archived[]): string[] {
  if (archived.length === 0) return [];
  const lines = archived.map(({ file, first, last }) => {
    const count = last - first + 1;
    return `  ${file}  ${count} ${count === 1 ? 'entry' : 'entries'}`;
  });
  return [`archived to ${folder}:`, ...lines];
}

function formatHeld(held: readonly HeldBack[]): string[] {
  if (held.length === 0) return [];
  const lines = held.map(
    ({ chain, sink, received, entries }) =>
      `  chain ${chain}: ${countOf(entries, 'entry', 'entries')}, because ${sink} has received entries up to ${received}`,
  );
  return [
    'not archived:',
    ...lines,
    'run `sallyport sinks`, and archive again after the delivery; --skip-undelivered archives them, and the sink misses them',
  ];
}

function reindexAudit(invocation: Invocation): Promise<number> {
  const tenant = tenantOf(invocation.options);
  return withStore(invocation, async (maintenance) => {
    await chainAll(maintenance);
    const { audit } = maintenance;
    const heads = await audit.heads();
    const tenants = tenant === undefined ? heads.map(({ tenantId = systemTenant }) => tenantId) : [tenant];
    const total = { chains: 0, entries: 0, corrected: 0, invalid: 0 };
    await interruptible(async (between) => {
      for (const one of tenants) {
        const done = await audit.reindex(one, between);
        if (!done) throw noEntries(one);
        total.chains += 1;
        total.entries += done.entries;
        total.corrected += done.corrected;
        total.invalid += done.invalid;
      }
    }, 'interrupted; run it again');
    await chainAll(maintenance);
    return invocation.printResult(total, formatReindexed(total).join('\n'), total.invalid > 0 ? 1 : 0);
  });
}

function formatReindexed({ chains, entries, corrected, invalid }: Reindexed & { chains: number }): string[] {
  const of = `${countOf(entries, 'entry', 'entries')} in ${countOf(chains, 'chain')}`;
  return [
    corrected === 0 ? `the index matches ${of}` : `rebuilt the index of ${of}: ${corrected} were affected`,
    ...(invalid > 0
      ? [`${countOf(invalid, 'entry', 'entries')} without a valid MAC: run \`sallyport audit verify\``]
      : []),
  ];
}

function countOf(number: number, one: string, many = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`;
}
