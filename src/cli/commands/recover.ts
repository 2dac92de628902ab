import { resolve } from 'node:path';
import type { Entry } from '../../domain/audit.ts';
import { escapeText } from '../../domain/escape.ts';
import {
  none,
  type Recovered,
  type Revived,
  type RevivedApplication,
  recovery,
} from '../../operations/recovery.ts';
import { anchorOf } from '../../store/audit/hash-chain.ts';
import type { Maintenance } from '../../store/maintenance.ts';
import type { Command, Invocation, Option, Options } from '../command.ts';
import { Refused, UsageError } from '../errors.ts';
import { confirmed, yesOption } from '../terminal/confirm.ts';
import { readLines } from '../terminal/files.ts';
import { mustBeThere, withStore } from '../terminal/open-store.ts';
import { inWords, sealAll } from './audit.ts';

export const recoverOptions: readonly Option[] = [
  {
    name: 'audit',
    takes: 'EXPORT',
    sentence: 'Export of the audit log made after the backup; lists revocations that the backup undoes.',
  },
  { name: 'revoke', sentence: 'Revoke those again. Needs --audit.' },
];

export const recoverCommand: Command = {
  words: ['recover'],
  takes: [],
  options: [...recoverOptions, yesOption],
  summary: 'Make a database that was restored by other means safe to serve.',
  details:
    'Run it after pg_restore or point-in-time recovery, before the service starts. Ends every session of every tenant and deletes nonces and idempotency records. On SQLite the service must be stopped.',
  examples: ['sallyport recover --audit audit.jsonl --revoke'],
  run: recover,
};

export interface Report extends Recovered {
  /** Until when the export tells. */
  readonly told_until?: string;
  readonly revived: Revived;
  readonly revoked: boolean;
}

async function recover(invocation: Invocation): Promise<number> {
  const { config, options, json, print } = invocation;
  mustGoTogether(options);
  mustBeThere(config);
  const question = 'This ends every Session of every tenant. Go on?';
  if (!(await confirmed(invocation, question))) return 1;
  const work = async (maintenance: Maintenance) => {
    const report = await recoverStore(maintenance, options, {});
    print(json ? JSON.stringify(report) : ['recovered', ...reportLines(report)].join('\n'));
  };
  return withStore(invocation, work, { alone: true });
}

export function mustGoTogether(options: Options): void {
  if (options.on('revoke') && options.value('audit') === undefined)
    throw new UsageError('--revoke goes with --audit EXPORT');
}

/** What came before is in the story, for the audit log. */
export async function recoverStore(
  maintenance: Maintenance,
  options: Options,
  story: NonNullable<Entry['difference']>,
): Promise<Report> {
  const path = options.value('audit');
  const revoked = options.on('revoke');
  const told = path === undefined ? undefined : await readExport(maintenance, resolve(path));
  await sealAll(maintenance);
  const head = await maintenance.audit.head();
  const known = head ? { audit_head: { ...story.audit_head, to: anchorOf(head) } } : {};
  const revived = told?.revived ?? none;
  const recovered = await recovery(maintenance).recover(
    Date.now(),
    { ...story, ...known },
    revoked ? revived : none,
  );
  await sealAll(maintenance);
  return { ...recovered, ...(told && { told_until: told.until }), revived, revoked };
}

async function readExport(
  maintenance: Maintenance,
  path: string,
): Promise<{ revived: Revived; until: string }> {
  const { verdict, revived } = await recovery(maintenance).revived(readLines(path));
  if (verdict.ok) return { revived, until: verdict.exported_at as string };
  throw new Refused(
    `${path} is not to be relied on: ${inWords(verdict)[0]}`,
    'sallyport audit verify tells more; without --audit nothing is read out of it',
  );
}

export function reportLines({ sessions, replies, told_until, revived, revoked }: Report): string[] {
  const ended = `ended ${sessions} Sessions, forgot ${replies} remembered answers`;
  if (told_until === undefined) return [ended, 'revoked since: unknown without --audit EXPORT'];
  const { tenants, applications } = revived;
  if (tenants.length + applications.length === 0)
    return [ended, `revoked since and back: none, as of ${told_until}`];
  return [
    ended,
    `revoked since and ${revoked ? 'taken out again' : 'BACK'}, as of ${told_until}:`,
    ...tenants.map(({ tenant_id, name, closed }) => `  tenant ${tenant_id}  ${quoted(name)}  was ${closed}`),
    ...applications.map((one) => `  ${inOneLine(one)}`),
    ...(revoked ? [] : ['sallyport recover --audit EXPORT --revoke takes them out']),
  ];
}

function inOneLine({ tenant_id, application_id, name, deleted, keys, access }: RevivedApplication): string {
  const endings = keys.map(({ ending }) => `…${ending}`).join(', ');
  const what = [
    deleted && 'was deleted',
    keys.length > 0 && `${keys.length > 1 ? 'keys' : 'key'} ${endings}`,
    access && 'could do less',
  ];
  return `tenant ${tenant_id}  application ${application_id}  ${quoted(name)}  ${what.filter(Boolean).join('; ')}`;
}

function quoted(name: string): string {
  return escapeText(JSON.stringify(name));
}
