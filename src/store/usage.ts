import { then } from '../domain/awaitable.ts';
import { timestamp } from '../domain/common-fields.ts';
import { boundedUses, type LastUses, maxUses } from '../domain/usage.ts';
import { notExpired } from './applications.ts';
import { type DbTime, type Executor, type Queries, rowLock } from './engine/db.ts';
import { inserter, Params } from './engine/sql.ts';
import type { ApplicationUse, Usage } from './store.ts';

/** Maximum number of containers that are recorded per permission of an application. */
export const maxContainers = 50;

interface UseRow {
  permission: string;
  container: string;
  last_used_at: DbTime;
}

const ofApplication = 'tenant_id = $1 and application_id = $2';

export function usage(db: Executor): Usage {
  const lock = rowLock(db, 'for no key update');

  /** Locks the application first, like every change of its keys, so that the two cannot deadlock. */
  async function write(tx: Queries, use: ApplicationUse): Promise<void> {
    const { tenantId, applicationId, at, keys, permissions } = use;
    const row = await tx.get<{ last_used_at: DbTime | null }>(
      `select a.last_used_at from applications a where a.tenant_id = $1 and a.id = $2 and ${notExpired('a')} ${lock}`,
      [tenantId, applicationId],
    );
    if (!row) return;
    if (Number(row.last_used_at ?? 0) < at) {
      await tx.run('update applications set last_used_at = $3 where tenant_id = $1 and id = $2', [
        tenantId,
        applicationId,
        at,
      ]);
    }
    for (const [key, usedAt] of keys) {
      await tx.run(
        `update application_keys set last_used_at = $4 where ${ofApplication} and id = $3
           and (last_used_at is null or last_used_at < $4)`,
        [tenantId, applicationId, key, usedAt],
      );
    }
    if (permissions.size > 0) await writeUses(tx, db.dialect, use);
  }

  return {
    write: (uses) =>
      db.transaction(async (tx) => {
        for (const use of uses) await write(tx, use);
      }),

    list: (tenant, application) =>
      then(
        db.all<UseRow>(
          `select permission, container, last_used_at from application_uses where ${ofApplication}
           order by last_used_at desc, permission, container limit $3`,
          [tenant, application, maxUses],
        ),
        (rows) => rows.map((row) => ({ ...row, last_used_at: timestamp(Number(row.last_used_at)) })),
      ),
  };
}

const insertUses = inserter('application_uses', {
  tenant_id: 'uuid',
  application_id: 'uuid',
  permission: 'text',
  container: 'text',
  last_used_at: 'bigint',
});

/** Writes only the uses that changed, in at most three statements. */
async function writeUses(
  tx: Queries,
  dialect: Executor['dialect'],
  { tenantId, applicationId, permissions }: ApplicationUse,
): Promise<void> {
  const rows = await tx.all<UseRow>(
    `select permission, container, last_used_at from application_uses where ${ofApplication}`,
    [tenantId, applicationId],
  );
  const stored = new Map<string, Map<string, number>>();
  for (const { permission, container, last_used_at } of rows) {
    const containers = stored.get(permission) ?? new Map<string, number>();
    stored.set(permission, containers.set(container, Number(last_used_at)));
  }
  const merged = new Map<string, LastUses>(stored);
  for (const [permission, uses] of permissions)
    merged.set(permission, latest(stored.get(permission) ?? new Map(), uses));
  const next = boundedUses(merged, maxUses, maxContainers);
  const outdated = rows.filter(
    ({ permission, container, last_used_at }) =>
      next.get(permission)?.get(container) !== Number(last_used_at),
  );
  const changed = [];
  for (const [permission, containers] of next)
    for (const [container, last_used_at] of containers)
      if (stored.get(permission)?.get(container) !== last_used_at)
        changed.push({
          tenant_id: tenantId,
          application_id: applicationId,
          permission,
          container,
          last_used_at,
        });
  if (outdated.length > 0) await deleteUses(tx, tenantId, applicationId, outdated);
  if (changed.length > 0) await insertUses[dialect](tx, changed);
}

/** Merges two maps. If both have a container, the later time counts. */
function latest(a: LastUses, b: LastUses): LastUses {
  const both = new Map(a);
  for (const [container, at] of b) both.set(container, Math.max(at, both.get(container) ?? at));
  return both;
}

/** A space separates the two columns: neither can contain one. */
async function deleteUses(tx: Queries, tenant: string, application: string, rows: UseRow[]): Promise<void> {
  const params = new Params();
  const owner = `tenant_id = ${params.add(tenant)} and application_id = ${params.add(application)}`;
  const names = params.list(rows.map(({ permission, container }) => `${permission} ${container}`));
  await tx.run(
    `delete from application_uses where ${owner} and permission || ' ' || container in ${names}`,
    params.values,
  );
}
