import { then } from '../domain/awaitable.ts';
import { timestamp } from '../domain/field.ts';
import { gathered, type Moments } from '../domain/usage.ts';
import { alive } from './applications.ts';
import { type Moment, type Queries, type Room, rowLock } from './db.ts';
import type { ApplicationUse, Usage } from './store.ts';
import { Params } from './where.ts';

/** How many containers are told apart for each permission of an Application. */
export const mostContainers = 50;

interface UseRow {
  permission: string;
  container: string;
  last_used_at: Moment;
}

const ofApplication = 'tenant_id = $1 and application_id = $2';

export function usage(db: Room): Usage {
  const held = rowLock(db, 'for no key update');

  /** Whoever changes keys holds the Application first, and so does this: neither ever waits in a circle. */
  async function write(tx: Queries, use: ApplicationUse): Promise<void> {
    const { tenantId, applicationId, at, keys, permissions } = use;
    const row = await tx.get<{ last_used_at: Moment | null }>(
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
    if (permissions.size > 0) await writePlaces(tx, use);
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
           order by last_used_at desc, permission, container`,
          [tenant, application],
        ),
        (rows) => rows.map((row) => ({ ...row, last_used_at: timestamp(Number(row.last_used_at)) })),
      ),
  };
}

async function writePlaces(tx: Queries, { tenantId, applicationId, permissions }: ApplicationUse) {
  const rows = await tx.all<UseRow>(
    `select permission, container, last_used_at from application_uses where ${ofApplication}`,
    [tenantId, applicationId],
  );
  const stored = Map.groupBy(rows, ({ permission }) => permission);
  for (const [permission, news] of permissions) {
    const old = new Map(
      stored.get(permission)?.map(({ container, last_used_at }) => [container, Number(last_used_at)]),
    );
    const now = gathered(latest(old, news), mostContainers);
    const owner = [tenantId, applicationId, permission] as const;
    await forget(
      tx,
      owner,
      [...old.keys()].filter((container) => !now.has(container)),
    );
    await keep(
      tx,
      owner,
      [...now].filter(([container, at]) => old.get(container) !== at),
    );
  }
}

/** What is in either; of what is in both, the later. */
function latest(a: Moments, b: Moments): Moments {
  const both = new Map(a);
  for (const [container, at] of b) both.set(container, Math.max(at, both.get(container) ?? at));
  return both;
}

type Owner = readonly [tenant: string, application: string, permission: string];

async function keep(tx: Queries, owner: Owner, places: [container: string, at: number][]): Promise<void> {
  if (places.length === 0) return;
  const params = new Params();
  const [tenant, application, permission] = owner.map((part) => params.add(part));
  const rows = places.map(
    ([container, at]) =>
      `(${tenant}, ${application}, ${permission}, ${params.add(container)}, ${params.add(at)})`,
  );
  await tx.run(
    `insert into application_uses (tenant_id, application_id, permission, container, last_used_at)
     values ${rows.join(', ')}
     on conflict (tenant_id, application_id, permission, container)
     do update set last_used_at = excluded.last_used_at`,
    params.values,
  );
}

async function forget(tx: Queries, owner: Owner, containers: string[]): Promise<void> {
  if (containers.length === 0) return;
  const params = new Params();
  const [tenant, application, permission] = owner.map((part) => params.add(part));
  await tx.run(
    `delete from application_uses where tenant_id = ${tenant} and application_id = ${application}
       and permission = ${permission} and container in ${params.list(containers)}`,
    params.values,
  );
}
