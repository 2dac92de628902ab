import { then } from '../domain/awaitable.ts';
import { timestamp } from '../domain/common-fields.ts';
import { boundedUses, type LastUses, maxUses } from '../domain/usage.ts';
import { alive } from './applications.ts';
import { inserter } from './engine/bulk-insert.ts';
import { type DbTime, type Executor, type Queries, rowLock } from './engine/db.ts';
import { Params } from './engine/sql-params.ts';
import type { ApplicationUse, Usage } from './store.ts';

/** How many containers are told apart for each permission of an Application. */
export const mostContainers = 50;

interface UseRow {
  permission: string;
  container: string;
  last_used_at: DbTime;
}

const ofApplication = 'tenant_id = $1 and application_id = $2';

export function usage(db: Executor): Usage {
  const held = rowLock(db, 'for no key update');

  /** Whoever changes keys holds the Application first, and so does this: neither ever waits in a circle. */
  async function write(tx: Queries, use: ApplicationUse): Promise<void> {
    const { tenantId, applicationId, at, keys, permissions } = use;
    const row = await tx.get<{ last_used_at: DbTime | null }>(
      `select a.last_used_at from applications a where a.tenant_id = $1 and a.id = $2 and ${alive('a')} ${held}`,
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
    for (const [key, moment] of keys) {
      await tx.run(
        `update application_keys set last_used_at = $4 where ${ofApplication} and id = $3
           and (last_used_at is null or last_used_at < $4)`,
        [tenantId, applicationId, key, moment],
      );
    }
    if (permissions.size > 0) await writePlaces(tx, db.dialect, use);
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

type NewUse = Record<'tenant_id' | 'application_id' | 'permission' | 'container', string> & {
  last_used_at: number;
};

const insertUses = inserter<NewUse>('application_uses', {
  tenant_id: 'uuid',
  application_id: 'uuid',
  permission: 'text',
  container: 'text',
  last_used_at: 'bigint',
});

/** Reads the uses of one application, and writes those that changed: three statements however many there are. */
async function writePlaces(
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
    const places = stored.get(permission) ?? new Map<string, number>();
    stored.set(permission, places.set(container, Number(last_used_at)));
  }
  const merged = new Map<string, LastUses>(stored);
  for (const [permission, news] of permissions)
    merged.set(permission, latest(stored.get(permission) ?? new Map(), news));
  const next = boundedUses(merged, maxUses, mostContainers);
  const outdated = rows.filter(
    ({ permission, container, last_used_at }) =>
      next.get(permission)?.get(container) !== Number(last_used_at),
  );
  const changed: NewUse[] = [];
  for (const [permission, places] of next)
    for (const [container, last_used_at] of places)
      if (stored.get(permission)?.get(container) !== last_used_at)
        changed.push({
          tenant_id: tenantId,
          application_id: applicationId,
          permission,
          container,
          last_used_at,
        });
  if (outdated.length > 0) await forget(tx, tenantId, applicationId, outdated);
  if (changed.length > 0) await insertUses[dialect](tx, changed);
}

/** What is in either; of what is in both, the later. */
function latest(a: LastUses, b: LastUses): LastUses {
  const both = new Map(a);
  for (const [container, at] of b) both.set(container, Math.max(at, both.get(container) ?? at));
  return both;
}

/** Neither a permission nor a container contains a space. */
async function forget(tx: Queries, tenant: string, application: string, rows: UseRow[]): Promise<void> {
  const params = new Params();
  const owner = `tenant_id = ${params.add(tenant)} and application_id = ${params.add(application)}`;
  const names = params.list(rows.map(({ permission, container }) => `${permission} ${container}`));
  await tx.run(
    `delete from application_uses where ${owner} and permission || ' ' || container in ${names}`,
    params.values,
  );
}
