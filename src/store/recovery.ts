/** Closes again, after a restore, what a backup brought back. */

import type { EntryWriter } from '../audit/log.ts';
import type { Db, Queries } from '../db/db.ts';
import { databaseTime } from '../db/sql.ts';
import { sql } from '../db/statement.ts';
import { removedState } from '../domain/access/history.ts';
import {
  type AuditRow,
  applicationAccess,
  isNarrower,
  type Revocation,
  revocations,
} from '../domain/access/revocation.ts';
import { accessSettings } from '../domain/application.ts';
import { byOperator } from '../domain/audit.ts';
import { currentRules } from '../domain/rule.ts';
import { deleteRecordCounts } from './application-storage.ts';
import { accessColumns, applications, lockApplication, updateApplication } from './applications.ts';
import type { Recovered, Revived, RevivedApplication, RevivedTenant } from './maintenance.ts';
import type { NewEntry } from './store.ts';
import { disable, markDeleted, tenants } from './tenants.ts';

/** See `Maintenance.lookUpRevived`. */
export async function lookUpRevived(db: Db, rows: readonly AuditRow[]): Promise<Revived> {
  const { tenants: closed, applications: changed } = revocations(rows);
  const found: RevivedTenant[] = [];
  for (const [id, how] of [...closed].sort()) {
    const tenant = await tenants(db).get(id);
    const done = how === 'deleted' ? tenant?.deleted_at : tenant?.disabled_at;
    if (tenant && done === undefined) found.push({ tenant_id: id, name: tenant.name, closed: how });
  }
  const back: RevivedApplication[] = [];
  for (const one of changed.filter(({ tenant }) => closed.get(tenant) !== 'deleted')) {
    const application = await lookUpApplication(db, one);
    if (application) back.push(application);
  }
  return { tenants: found, applications: back };
}

async function lookUpApplication(db: Db, revocation: Revocation): Promise<RevivedApplication | undefined> {
  const { tenant, application, deleted, access: recorded } = revocation;
  const found = await applications(db).get(tenant, application);
  if (!found) return undefined;
  const there = await db.all<{ id: string; ending: string }>(sql`select id, ending from application_keys
    where tenant_id = ${tenant} and application_id = ${application} order by id`);
  const all = deleted || revocation.keys === 'all';
  const keys = there.filter(({ id }) => all || revocation.keys.includes(id));
  const { name } = found;
  const now = applicationAccess(found);
  const rules = recorded.rules && currentRules(recorded.rules, await databaseTime(db));
  const access = { ...recorded, ...(rules && { rules }) };
  const narrower = !deleted && isNarrower(now, access);
  const quarantined = !deleted && revocation.quarantined && found.quarantined_at === undefined;
  if (!deleted && keys.length === 0 && !narrower && !quarantined) return undefined;
  const named = { tenant_id: tenant, application_id: application, name, deleted, keys, quarantined };
  return narrower ? { ...named, access: { ...now, ...access } } : named;
}

type Write = (entry: Pick<NewEntry, 'operation' | 'tenantId' | 'entity' | 'difference'>) => Promise<void>;

/** See `Maintenance.repeatRevocations`. */
export function repeatRevocations(
  db: Db,
  writeEntries: EntryWriter,
  revoke: Revived,
  at: number,
  entries: readonly NewEntry[],
): Promise<Recovered> {
  return db.exclusively(async (tx) => {
    const sessions = await tx.run('delete from sessions');
    // The JWTs that were used after the backup are not known.
    await tx.run('delete from application_keys where trust is not null');
    const replies = await tx.run('delete from idempotency');
    await tx.run(deleteRecordCounts);
    const record: Write = (entry) => writeEntries(tx, [{ at, ...byOperator, ...entry }]);
    await writeEntries(tx, entries);
    for (const one of revoke.tenants) await close(tx, record, one);
    for (const one of revoke.applications) await remove(tx, record, one, at);
    return { sessions, replies };
  }, 'slow');
}

/** A tenant that has moved is disabled: another installation serves it. */
async function close(tx: Queries, record: Write, { tenant_id: id, closed }: RevivedTenant): Promise<void> {
  await (closed === 'deleted' ? markDeleted(tx, id) : disable(tx, id));
  const operation = closed === 'deleted' ? 'tenant.delete' : 'tenant.disable';
  await record({ tenantId: id, operation, entity: { kind: 'tenant', id } });
}

async function remove(tx: Queries, record: Write, revived: RevivedApplication, at: number): Promise<void> {
  const { tenant_id: tenantId, application_id: id, deleted, keys, access, quarantined } = revived;
  const about = { tenantId, entity: { kind: 'application', id } };
  if (deleted) {
    const found = await lockApplication(tx, tenantId, id);
    await tx.run(sql`delete from applications where tenant_id = ${tenantId} and id = ${id}`);
    const difference = found && removedState(found);
    return record({ ...about, operation: 'application.delete', ...(difference && { difference }) });
  }
  for (const key of keys) {
    await tx.run(sql`
      delete from application_keys where tenant_id = ${tenantId} and application_id = ${id} and id = ${key.id}`);
    await record({
      ...about,
      operation: 'application.key.delete',
      difference: { keys: { from: { ...key } } },
    });
  }
  const change = async (columns: Parameters<typeof updateApplication>[3]) => {
    const current = await lockApplication(tx, tenantId, id);
    if (current) await updateApplication(tx, current, { at }, columns);
  };
  if (quarantined) {
    await change({ quarantined_at: at });
    await record({ ...about, operation: 'application.quarantine' });
  }
  if (!access) return;
  await change(accessColumns(access, accessSettings));
  const to = Object.entries(JSON.parse(JSON.stringify(access)) as object).map(([field, value]) => [
    field,
    { to: value },
  ]);
  await record({ ...about, operation: 'application.update', difference: Object.fromEntries(to) });
}
