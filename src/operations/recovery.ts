/** Prepares a restored database for service: ends sessions, and repeats revocations that the backup does not have. */

import { verifyFiles } from '../audit/files.ts';
import type { Finding, Verdict, VerifiedEntry } from '../audit/proof.ts';
import { anchorOf, chainName, genesis, type Head, systemTenant } from '../audit/records.ts';
import { removedState } from '../domain/access/history.ts';
import {
  type Access,
  type AuditRow,
  accessOf,
  changesAccess,
  isNarrower,
  type Revocation,
  revocations,
} from '../domain/access/revocation.ts';
import { byOperator, type Entry, restoreOperation } from '../domain/audit.ts';
import { deleteRecordCounts } from '../store/application-storage.ts';
import { applications, laterThanBefore, listText, toText } from '../store/applications.ts';
import type { Db, Queries } from '../store/engine/db.ts';
import type { Maintenance } from '../store/maintenance.ts';
import type { NewEntry } from '../store/store.ts';
import { tenants } from '../store/tenants.ts';

/** Access that was revoked after the backup and is valid again. */
export interface Revived {
  readonly tenants: readonly RevivedTenant[];
  /** Applications of tenants that are not in `tenants`. */
  readonly applications: readonly RevivedApplication[];
}

export interface RevivedTenant {
  readonly tenant_id: string;
  readonly name: string;
  readonly closed: 'disabled' | 'deleted';
}

export interface RevivedApplication {
  readonly tenant_id: string;
  readonly application_id: string;
  readonly name: string;
  /** Whether the application was deleted. */
  readonly deleted: boolean;
  /** Keys that were revoked and are valid again. */
  readonly keys: readonly { readonly id: string; readonly ending: string }[];
  /** The last grants, origins and networks before the restore, if they allowed less than those in the backup. */
  readonly access?: Access;
  /** Whether the application was in quarantine. */
  readonly quarantined: boolean;
}

export interface Recovered {
  readonly sessions: number;
  readonly replies: number;
}

export const none: Revived = { tenants: [], applications: [] };

/**
 * Reads exports and archives of the audit log and returns the revocations in them that this database does not have.
 * Returns `none` if the files do not verify or belong to another audit log. Archives may be missing if this database
 * already has all of their entries.
 */
export async function findRevived(
  { db, audit, masters, chainKeys }: Maintenance,
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
  return { verdict, revived: verdict.ok ? await lookUp(db, await audit.missing(changes)) : none };
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
  { db, audit, writeEntries, removeTenantRows }: Maintenance,
  restore: Restore,
  revoke: Revived,
): Promise<Recovered> {
  const { at } = restore;
  const restored = restoreEntries(await headsBefore(audit), restore);
  const recovered = await db.exclusively(async (tx) => {
    const sessions = await tx.run('delete from sessions');
    const replies = await tx.run('delete from idempotency');
    await tx.run(deleteRecordCounts);
    const record: Write = (entry) => writeEntries(tx, [{ at, ...byOperator, ...entry }]);
    await writeEntries(tx, restored);
    for (const one of revoke.tenants) await close(db, tx, record, one);
    for (const one of revoke.applications) await remove(db, tx, record, one, at);
    return { sessions, replies };
  }, 'slow');
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

type Write = (entry: Pick<NewEntry, 'operation' | 'tenantId' | 'entity' | 'difference'>) => Promise<void>;

const batchSize = 500;

async function lookUp(db: Db, rows: readonly AuditRow[]): Promise<Revived> {
  const { tenants: closed, applications: changed } = revocations(rows);
  const found: RevivedTenant[] = [];
  for (const [id, how] of [...closed].sort()) {
    const tenant = await tenants(db).get(id);
    const done = how === 'deleted' ? tenant?.deleted_at : tenant?.disabled_at;
    if (tenant && done === undefined) found.push({ tenant_id: id, name: tenant.name, closed: how });
  }
  const others = changed.filter(({ tenant }) => !found.some(({ tenant_id }) => tenant_id === tenant));
  const back: RevivedApplication[] = [];
  for (const one of others) {
    const application = await lookUpApplication(db, one);
    if (application) back.push(application);
  }
  return { tenants: found, applications: back };
}

async function lookUpApplication(db: Db, revocation: Revocation): Promise<RevivedApplication | undefined> {
  const { tenant, application, deleted, access } = revocation;
  const found = await applications(db).get(tenant, application);
  if (!found) return undefined;
  const there = await db.all<{ id: string; ending: string }>(
    'select id, ending from application_keys where tenant_id = $1 and application_id = $2 order by id',
    [tenant, application],
  );
  const all = deleted || revocation.keys === 'all';
  const keys = there.filter(({ id }) => all || revocation.keys.includes(id));
  const { name } = found;
  const now = accessOf(found);
  const narrower = !deleted && isNarrower(now, access);
  const quarantined = !deleted && revocation.quarantined && found.quarantined_at === undefined;
  if (!deleted && keys.length === 0 && !narrower && !quarantined) return undefined;
  const named = { tenant_id: tenant, application_id: application, name, deleted, keys, quarantined };
  return narrower ? { ...named, access: { ...now, ...access } } : named;
}

async function close(
  db: Db,
  tx: Queries,
  record: Write,
  { tenant_id: id, closed }: RevivedTenant,
): Promise<void> {
  const inside = tenants({ ...db, ...tx, transaction: (work) => work(tx) });
  await (closed === 'deleted' ? inside.markDeleted(id) : inside.disable(id));
  const operation = closed === 'deleted' ? 'tenant.delete' : 'tenant.disable';
  await record({ tenantId: id, operation, entity: { kind: 'tenant', id } });
}

async function remove(
  db: Db,
  tx: Queries,
  record: Write,
  revived: RevivedApplication,
  at: number,
): Promise<void> {
  const { tenant_id: tenantId, application_id: id, deleted, keys, access, quarantined } = revived;
  const about = { tenantId, entity: { kind: 'application', id } };
  if (deleted) {
    const found = await applications({ ...db, ...tx, transaction: (work) => work(tx) }).get(tenantId, id);
    await tx.run('delete from applications where tenant_id = $1 and id = $2', [tenantId, id]);
    const difference = found && removedState(found);
    return record({ ...about, operation: 'application.delete', ...(difference && { difference }) });
  }
  for (const key of keys) {
    await tx.run('delete from application_keys where tenant_id = $1 and application_id = $2 and id = $3', [
      tenantId,
      id,
      key.id,
    ]);
    await record({
      ...about,
      operation: 'application.key.delete',
      difference: { keys: { from: { ...key } } },
    });
  }
  if (quarantined) {
    const sql = `update applications set quarantined_at = $3, modified_at = ${laterThanBefore('$3')}
      where tenant_id = $1 and id = $2`;
    await tx.run(sql, [tenantId, id, at]);
    await record({ ...about, operation: 'application.quarantine' });
  }
  if (!access) return;
  await tx.run(
    `update applications set permissions = $3, rules = $4, allowed_origins = $5, require_bound_sessions = $6,
       allowed_networks = $7, modified_at = ${laterThanBefore('$8')}
     where tenant_id = $1 and id = $2`,
    [
      tenantId,
      id,
      ...toText(access),
      listText(access.allowed_origins),
      Number(access.require_bound_sessions ?? false),
      listText(access.allowed_networks),
      at,
    ],
  );
  const to = Object.entries(JSON.parse(JSON.stringify(access)) as object).map(([field, value]) => [
    field,
    { to: value },
  ]);
  await record({ ...about, operation: 'application.update', difference: Object.fromEntries(to) });
}
