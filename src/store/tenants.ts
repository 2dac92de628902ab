import type { EntryWriter } from '../audit/log.ts';
import type { Db, DbTime, Executor, Queries } from '../db/db.ts';
import { databaseTime } from '../db/sql.ts';
import { type Clause, clause, lookup, Param, raw, sql } from '../db/statement.ts';
import { byOperator } from '../domain/audit.ts';
import { type Awaitable, then } from '../domain/awaitable.ts';
import { timestamp } from '../domain/common-fields.ts';
import { fail } from '../domain/error.ts';
import { insertApplication } from './applications.ts';
import type { NewTenant, Tenants } from './maintenance.ts';
import type { Tenant } from './store.ts';
import { rotateSearchKey } from './token-search.ts';

interface TenantRow {
  id: string;
  tag: string;
  name: string;
  created_at: DbTime;
  disabled_at: DbTime | null;
  deleted_at: DbTime | null;
  max_lifetime: DbTime | null;
  purposes: string | null;
}

const select = raw(
  'select id, tag, name, created_at, disabled_at, deleted_at, max_lifetime, purposes from tenants',
);

export function tenants(db: Executor): Tenants {
  return {
    create: (tenant) => db.transaction((tx) => insertTenant(tx, tenant)),
    get: async (id) => {
      const row = await db.get<TenantRow>(sql`${select} where id = ${id}`);
      return row && toTenant(row);
    },
    list: async () => (await db.all<TenantRow>(sql`${select} order by id`)).map(toTenant),
    // In a Citus cluster, the coordinator has a copy of the table, so the answer does not depend on the workers.
    exist: async () =>
      (await db.get('select 1 as one from tenant_tags where moved_at is null limit 1')) !== undefined,
    rename: (id, name) => alter(db, id, clause`name = ${name}`),
    limitLifetime: (id, max) => alter(db, id, clause`max_lifetime = ${max}`),
    setPurposes: (id, purposes) => alter(db, id, clause`purposes = ${purposes && JSON.stringify(purposes)}`),
    disable: (id) => disable(db, id),
    enable: (id) => alter(db, id, clause`disabled_at = null`),
    isMoving: async (id) => {
      const state = await db.get(sql`
        select 1 as one from tenant_tags where id = ${id} and moving_at is not null and moved_at is null`);
      return state !== undefined;
    },
    rotateSearchKey: (id) => rotateSearchKey(db, id),
    markDeleted: (id) => db.transaction((tx) => markDeleted(tx, id)),
  };
}

type Run = Pick<Queries, 'get' | 'run'>;

/** Does not change a tenant that is being deleted. */
async function alter(tx: Run, id: string, change: Clause): Promise<boolean> {
  return (await tx.run(sql`update tenants set ${change} where id = ${id} and deleted_at is null`)) > 0;
}

/** The time is a parameter, because Citus accepts no `:now` in `coalesce`. */
const disabled = (now: Param) => clause`disabled_at = coalesce(disabled_at, ${now})`;

/** See `Tenants.disable`. */
export async function disable(tx: Run, id: string): Promise<boolean> {
  return alter(tx, id, disabled(new Param(await databaseTime(tx))));
}

/** See `Tenants.markDeleted`. */
export async function markDeleted(tx: Run, id: string): Promise<boolean> {
  const now = new Param(await databaseTime(tx));
  if (!(await alter(tx, id, clause`${disabled(now)}, deleted_at = ${now}`))) return false;
  await tx.run(sql`delete from data_keys where tenant_id = ${id}`);
  return true;
}

export async function createFirst(
  db: Db,
  tenant: NewTenant,
  writeEntries: EntryWriter,
  prepare?: () => void,
): Promise<boolean> {
  return db.exclusively(async (tx) => {
    if (await tx.get('select 1 from tenants limit 1')) return false;
    prepare?.();
    await insertTenant(tx, tenant);
    const { id, createdAt: at } = tenant;
    const entity = { kind: 'tenant', id };
    await writeEntries(tx, [{ ...byOperator, tenantId: id, at, operation: 'tenant.create', entity }]);
    return true;
  });
}

async function insertTenant(
  tx: Queries,
  { id, tag, name, createdAt, application, key }: NewTenant,
): Promise<void> {
  await tx.run(sql`
    insert into tenants (id, tag, name, created_at) values (${id}, ${tag}, ${name}, ${createdAt})`);
  await tx.run(sql`insert into tenant_tags (tag, id) values (${tag}, ${id})`);
  await insertApplication(tx, id, application, key);
}

function toTenant(row: TenantRow): Tenant {
  return {
    id: row.id,
    tag: row.tag,
    name: row.name,
    created_at: timestamp(Number(row.created_at)),
    ...(row.disabled_at !== null && { disabled_at: timestamp(Number(row.disabled_at)) }),
    ...(row.deleted_at !== null && { deleted_at: timestamp(Number(row.deleted_at)) }),
    ...(row.max_lifetime !== null && { max_lifetime: Number(row.max_lifetime) / 1000 }),
    ...(row.purposes !== null && { purposes: JSON.parse(row.purposes) }),
  };
}

/** Finds the tenant of a key. The tag of a tenant never changes. */
export interface TenantTags {
  /** The id of the tenant, if this process has found it before. The tenant may have been deleted since. */
  known(tag: string): string | undefined;
  /** Returns undefined if no tenant has the tag. Throws `unavailable` while the tenant moves, then `tenant_moved`. */
  find(tag: string): Awaitable<string | undefined>;
}

const maxKnown = 100_000;
interface TagRow {
  readonly id: string;
  readonly moving_at: DbTime | null;
  readonly moved_at: DbTime | null;
}

export const byTag = lookup<TagRow>(
  'text',
  (key) => clause`select tag as key, id, moving_at, moved_at from tenant_tags where tag = ${key}`,
);

export function tenantTags(db: Pick<Db, 'lookup'>): TenantTags {
  const ids = new Map<string, string>();
  return {
    known: (tag) => ids.get(tag),
    find: (tag) =>
      then(db.lookup(byTag, tag), (row) => {
        if (!row) return undefined;
        if (row.moved_at !== null) throw fail('tenant_moved');
        if (row.moving_at !== null) throw fail('unavailable', { expected: true });
        if (ids.size >= maxKnown) ids.clear();
        ids.set(tag, row.id);
        return row.id;
      }),
  };
}
