/** Prepares a restored database for service: ends sessions, and repeats revocations that the backup does not have. */

import { verifyFiles } from '../audit/files.ts';
import type { Finding, Verdict, VerifiedEntry } from '../audit/proof.ts';
import { anchorOf, chainName, genesis, type Head, systemTenant } from '../audit/records.ts';
import { type AuditRow, changesAccess } from '../domain/access/revocation.ts';
import { byOperator, type Entry, restoreOperation } from '../domain/audit.ts';
import type { Maintenance, Recovered, Revived } from '../store/maintenance.ts';
import type { NewEntry } from '../store/store.ts';

export const none: Revived = { tenants: [], applications: [] };

/**
 * Reads exports and archives of the audit log and returns the revocations in them that this database does not have.
 * Returns `none` if the files do not verify or belong to another audit log. Archives may be missing if this database
 * already has all of their entries.
 */
export async function findRevived(
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

export interface Restore {
  readonly at: number;
  /** Added to the audit entry of the system chain. */
  readonly difference: NonNullable<Entry['difference']>;
  /** The ends of the audit chains of the database that was replaced, if they are known. */
  readonly replaced?: readonly Head[] | undefined;
}

/**
 * Deletes all sessions, nonces and idempotency records, revokes `revoke` again, and writes audit entries, in one
 * transaction. Then removes the rows of deleted tenants.
 */
export async function recover(
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
