import { verifyFiles } from '../../audit/files.ts';
import type { Finding, Verdict, VerifiedEntry } from '../../audit/proof.ts';
import { anchorOf, chainName, genesis, type Head, systemTenant } from '../../audit/records.ts';
import type { Config } from '../../config/settings.ts';
import { type AuditRow, changesAccess } from '../../domain/access/revocation.ts';
import { byOperator, type Entry, restoreOperation } from '../../domain/audit.ts';
import { anyPosition, describePosition, newerThan } from '../../domain/database-position.ts';
import { escapeText } from '../../domain/escape.ts';
import { knownPositions } from '../../operations/known-positions.ts';
import type { Maintenance, Recovered, Revived, RevivedApplication } from '../../store/maintenance.ts';
import type { NewEntry } from '../../store/store.ts';
import { type Command, type Invocation, type Option, type Options, option } from '../command.ts';
import { CommandError, UsageError } from '../errors.ts';
import { requireDatabase, withStore } from '../terminal/database.ts';
import { confirm, yesOption } from '../terminal/options.ts';
import { exportFilesOf, formatVerdict } from './audit-files.ts';

export const recoverOptions: readonly Option[] = [
  option(
    'audit EXPORT...',
    'Audit export made after the backup, or a folder with exports and archives; repeatable. Lists access that was revoked after the backup and is valid again.',
  ),
  option('revoke', 'Revoke that access again. Needs --audit.'),
];

export const commands: Command = {
  usage: 'recover',
  options: [...recoverOptions, yesOption],
  summary: 'Clean up and accept a database that was restored or lost changes in a failover.',
  details:
    'Run it after pg_restore, a point-in-time recovery, or the promotion of a standby that lacks changes. Until then, nodes refuse a database that is behind what they have seen. Ends every session of every tenant and deletes nonces and idempotency records. On SQLite the service must be stopped.',
  examples: ['sallyport recover --audit audit.jsonl --revoke'],
  run: recoverDatabase,
};

export interface Report extends Recovered {
  /** The time of the audit export. Later revocations are not in it. */
  readonly exported_at?: string;
  readonly revived: Revived;
  readonly revoked: boolean;
}

async function recoverDatabase(invocation: Invocation): Promise<number> {
  const { config, options, printResult } = invocation;
  checkRecoverOptions(options);
  requireDatabase(config);
  await confirm(invocation, 'This ends all sessions of all tenants. Continue?');
  const work = async (maintenance: Maintenance) => {
    const report = await recoverAndAccept(maintenance, config, options);
    return printResult(report, ['recovered', ...reportLines(report)].join('\n'));
  };
  return withStore(invocation, work, { exclusive: true, positions: anyPosition });
}

/** Afterwards all nodes accept the database, and refuse those that were used before. */
export async function recoverAndAccept(
  maintenance: Maintenance,
  config: Config,
  options: Options,
): Promise<Report> {
  const known = await knownPositions(config).newest();
  const found = await maintenance.nodes.position();
  const seen = found && newerThan(found, known);
  const lost = seen && { position: { from: describePosition(seen), to: describePosition(found) } };
  const report = await recoverStore(maintenance, options, { difference: lost ?? {} });
  const newest = seen ?? found;
  if (newest) await maintenance.nodes.acceptAfter(newest);
  return report;
}

export function checkRecoverOptions(options: Options): void {
  if (options.on('revoke') && options.values('audit') === undefined)
    throw new UsageError('--revoke needs --audit EXPORT');
}

export async function recoverStore(
  maintenance: Maintenance,
  options: Options,
  restore: Omit<Restore, 'at'>,
): Promise<Report> {
  const paths = options.values('audit');
  const revoked = options.on('revoke');
  const auditExport = paths && (await readExports(maintenance, paths, restore.takenAt));
  const revived = auditExport?.revived ?? none;
  const recovered = await recover(maintenance, { ...restore, at: Date.now() }, revoked ? revived : none);
  await maintenance.audit.seal();
  return { ...recovered, ...(auditExport && { exported_at: auditExport.exportedAt }), revived, revoked };
}

async function readExports(
  maintenance: Maintenance,
  paths: readonly string[],
  takenAt = '',
): Promise<{ revived: Revived; exportedAt: string }> {
  const { verdict, revived } = await findRevived(maintenance, exportFilesOf(paths));
  const exportedAt = verdict.exported_at as string;
  if (verdict.ok && exportedAt < takenAt)
    throw new CommandError(
      `${paths.join(', ')} was exported at ${exportedAt}, before the backup was taken at ${takenAt}`,
      'pass an export that was made after the backup, or restore without --audit',
    );
  if (verdict.ok) return { revived, exportedAt };
  throw new CommandError(
    `${paths.join(', ')} is not a valid audit export of this database: ${formatVerdict(verdict)[0]}`,
    'run `sallyport audit verify` for details, or recover without --audit',
  );
}

export function reportLines({ sessions, replies, exported_at, revived, revoked }: Report): string[] {
  const ended = `ended ${sessions} sessions, deleted ${replies} idempotency records`;
  if (exported_at === undefined)
    return [ended, 'access revoked after the backup may be valid again; pass --audit EXPORT to list it'];
  const { tenants, applications } = revived;
  if (tenants.length + applications.length === 0)
    return [ended, `no access revoked between the backup and ${exported_at} is valid again`];
  return [
    ended,
    revoked
      ? `revoked again what was revoked between the backup and ${exported_at}:`
      : `WARNING: this access was revoked between the backup and ${exported_at} and is valid again:`,
    ...tenants.map(
      ({ tenant_id, name, closed }) => `  tenant ${tenant_id}  ${quoteName(name)}  was ${closed}`,
    ),
    ...applications.map((one) => `  ${formatApplication(one)}`),
    ...(revoked ? [] : ['run `sallyport recover --audit EXPORT --revoke` to revoke it']),
  ];
}

function formatApplication(revived: RevivedApplication): string {
  const { tenant_id, application_id, name, deleted, keys, access, quarantined } = revived;
  const endings = keys.map(({ ending }) => `…${ending}`).join(', ');
  const changes = [
    deleted && 'was deleted',
    keys.length > 0 && `${keys.length > 1 ? 'keys' : 'key'} ${endings} revoked`,
    access && 'had fewer grants, or an earlier expiry',
    quarantined && 'was in quarantine',
  ];
  return `tenant ${tenant_id}  application ${application_id}  ${quoteName(name)}  ${changes.filter(Boolean).join('; ')}`;
}

function quoteName(name: string): string {
  return escapeText(JSON.stringify(name));
}

const none: Revived = { tenants: [], applications: [] };

/**
 * Reads exports and archives of the audit log and returns the revocations in them that this database does not have.
 * Returns `none` if the files do not verify or belong to another audit log. Archives may be missing if this database
 * already has all of their entries.
 */
async function findRevived(
  { audit, masters, chainKeys, lookUpRevived }: Maintenance,
  paths: readonly string[],
): Promise<{ verdict: Verdict; revived: Revived }> {
  const changes: ChangeRow[] = [];
  const onEntry = (entry: VerifiedEntry) => {
    const change = toChange(entry);
    if (changesAccess(change)) changes.push(change);
  };
  const verified = await verifyFiles(paths, { masters, log: await chainKeys(), onEntry });
  const ends = new Map((await audit.heads()).map(({ tenantId, number }) => [chainName(tenantId), number]));
  const isKnown = ({ code, chain = '', last = Number.POSITIVE_INFINITY }: Finding) =>
    code === 'missing_archive' && last <= (ends.get(chain) ?? (chain === '' ? 0 : Number.POSITIVE_INFINITY));
  const findings = verified.findings.filter((finding) => !isKnown(finding));
  const verdict = { ...verified, findings, ok: findings.length + verified.more === 0 };
  return { verdict, revived: verdict.ok ? await lookUpRevived(await audit.missing(changes)) : none };
}

/** A change in the export. Every change has an audit entry, so a change is missing if its entry is. */
type ChangeRow = AuditRow & Pick<VerifiedEntry, 'tenantId' | 'segment' | 'id'>;

function toChange({ tenantId, segment, id, text }: VerifiedEntry): ChangeRow {
  const { operation, entity, result } = JSON.parse(text) as Entry;
  const tenant_id = tenantId === systemTenant ? null : tenantId;
  return { tenantId, segment, id, tenant_id, operation, entity_id: entity?.id ?? null, result, entry: text };
}

interface Restore {
  readonly at: number;
  /** Added to the audit entry of the system chain. */
  readonly difference: NonNullable<Entry['difference']>;
  /** When the backup was taken, if that is known. */
  readonly takenAt?: string | undefined;
  /** The ends of the audit chains of the database that was replaced, if they are known. */
  readonly replaced?: readonly Head[] | undefined;
}

/**
 * Deletes all sessions, nonces and idempotency records, revokes `revoke` again, and writes audit entries, in one
 * transaction. Then removes the rows of deleted tenants.
 */
async function recover(
  { audit, repeatRevocations, removeTenantRows }: Maintenance,
  restore: Restore,
  revoke: Revived,
): Promise<Recovered> {
  const restored = restoreEntries(await headsBefore(audit), restore);
  const recovered = await repeatRevocations(revoke, restore.at, restored);
  for (const { tenant_id, closed } of revoke.tenants)
    if (closed === 'deleted') while (!(await removeTenantRows(tenant_id, batchSize)).done);
  return recovered;
}

/**
 * Seals the entries that were pending in the backup, and returns the ends of all chains before that. The replaced
 * database may have sealed these entries in other segments.
 */
async function headsBefore(audit: Maintenance['audit']): Promise<Head[]> {
  const before = new Map((await audit.heads()).map((head) => [head.tenantId, head]));
  await audit.seal();
  return (await audit.heads()).map(({ tenantId }) => before.get(tenantId) ?? { tenantId, ...genesis });
}

/**
 * Returns one entry for the system chain, and one for each other chain whose end in the replaced database is different
 * or unknown.
 */
function restoreEntries(chains: readonly Head[], { at, difference, replaced }: Restore): NewEntry[] {
  const system = { tenantId: systemTenant, ...genesis };
  const all = chains.some(({ tenantId }) => tenantId === systemTenant) ? chains : [system, ...chains];
  const before = new Map(replaced?.map((head) => [head.tenantId, anchorOf(head)]));
  return all.flatMap((head) => {
    const [from, to] = [before.get(head.tenantId), anchorOf(head)];
    const audit_head = { ...(from !== undefined && { from }), to };
    const entry = { ...byOperator, at, operation: restoreOperation };
    if (head.tenantId === systemTenant) return [{ ...entry, difference: { ...difference, audit_head } }];
    return from === to ? [] : [{ ...entry, tenantId: head.tenantId, difference: { audit_head } }];
  });
}

const batchSize = 500;
