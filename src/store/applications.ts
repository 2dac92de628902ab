import { type DbTime, type Executor, type Queries, rowLock } from '../db/db.ts';
import { all, includes, Params } from '../db/sql.ts';
import { lookup, target } from '../db/statement.ts';
import type { Application, ApplicationType } from '../domain/application.ts';
import { timestamp } from '../domain/common-fields.ts';
import type { Grants } from '../domain/grant.ts';
import type { Minted } from '../domain/key.ts';
import type { Labels } from '../domain/labels.ts';
import { type EffectiveGrants, quarantined } from '../domain/quarantine.ts';
import { normalized } from '../domain/text-search.ts';
import { countKeys, endUntrusted, expireKeys, insertKey } from './key-rows.ts';
import { countFiltered, type Filtered, listRows } from './lists/rows.ts';
import type { ApplicationFilter, Applications, ApplicationUpdate, Change, NewApplication } from './store.ts';

export interface ApplicationRow {
  tenant_id: string;
  id: string;
  name: string;
  type: ApplicationType;
  permissions: string;
  rules: string;
  allowed_origins: string | null;
  require_bound_sessions: number;
  allowed_networks: string | null;
  trusted_issuers: string | null;
  labels: string | null;
  created_by: string | null;
  created_at: DbTime;
  modified_by: string | null;
  modified_at: DbTime | null;
  expires_at: DbTime | null;
  quarantined_at: DbTime | null;
  last_used_at: DbTime | null;
}

export const applicationColumns = (alias: string) =>
  `${alias}.tenant_id, ${alias}.id, ${alias}.name, ${alias}.type, ${alias}.permissions, ${alias}.rules,
   ${alias}.allowed_origins, ${alias}.require_bound_sessions, ${alias}.allowed_networks, ${alias}.labels,
   ${alias}.created_by, ${alias}.created_at, ${alias}.modified_by,
   ${alias}.modified_at, ${alias}.expires_at, ${alias}.quarantined_at, ${alias}.last_used_at, ${alias}.trusted_issuers`;

/** The SQL condition for a row that has not expired. */
export const notExpired = (alias: string) => `(${alias}.expires_at is null or ${alias}.expires_at > :now)`;

const selectOne = `select ${applicationColumns('a')} from applications a
  where a.tenant_id = $1 and a.id = $2 and ${notExpired('a')}`;

const byId = lookup<ApplicationRow>(
  'uuid',
  (key, tenant, table) => `select a.id as key, ${applicationColumns('a')} from ${table('applications')} a
    where a.id = ${key} and a.tenant_id = ${tenant} and ${notExpired('a')}`,
);

/** The SQL of a new `modified_at`, as `modificationTime` in src/domain/row-version.ts. `now` is a parameter. */
export const laterThanBefore = (now: string) =>
  `case when modified_at >= ${now} then modified_at + 1 else ${now} end`;

/**
 * Reads an application and locks its row until the transaction ends. Changes of an application's keys take this lock
 * first.
 */
export async function lockApplication(
  tx: Queries,
  tenant: string,
  id: string,
): Promise<Application | undefined> {
  const row = await tx.get<ApplicationRow>(`${selectOne} ${rowLock(tx, 'for no key update')}`, [tenant, id]);
  return row && toApplication(row);
}

const deleteKeys = 'delete from application_keys where tenant_id = $1 and application_id = $2';

export function applications(db: Executor): Applications {
  return {
    create: (tenant, application, key) =>
      db.transaction(async (tx) => {
        await insertApplication(tx, tenant, application, key);
        await replaceLabels(tx, tenant, application.id, undefined, application.labels);
        return (await lockApplication(tx, tenant, application.id)) as Application;
      }),

    get: async (tenant, id) => {
      const row = await db.lookup(byId, id, tenant);
      return row && toApplication(row);
    },

    list: (tenant, filter, window) =>
      listRows(
        db,
        {
          ...filtered(tenant, filter),
          read: async (ids) => {
            const params = new Params();
            const sql = `select ${applicationColumns('a')} from applications a
              where a.tenant_id = ${params.add(tenant)} and a.id in ${params.list(ids)} and ${notExpired('a')}`;
            return db.all<ApplicationRow>(sql, params.values);
          },
          parse: toApplication,
        },
        window,
      ),

    expiredSince: async (tenant, since, limit) => {
      const rows = await db.all<ApplicationRow>(
        `select ${applicationColumns('a')} from applications a
         where a.tenant_id = $1 and a.expires_at > $2 and a.expires_at <= :now
         order by a.expires_at limit $3`,
        [tenant, Math.max(since, 0), limit],
      );
      return rows.map(toApplication);
    },

    count: (tenant) => countFiltered(db, filtered(tenant, {})),

    update: (tenant, id, change, revise) =>
      db.transaction(async (tx) => {
        const old = await lockApplication(tx, tenant, id);
        if (!old) return undefined;
        const fields = revise(old);
        await replaceFields(tx, old, change, fields);
        await replaceLabels(tx, tenant, id, old.labels, fields.labels);
        return lockApplication(tx, tenant, id);
      }),

    setQuarantine: (...change) => db.transaction((tx) => setQuarantine(tx, ...change)),

    regenerate: (tenant, id, change, rekey, expiry = {}) =>
      db.transaction(async (tx) => {
        const old = await lockApplication(tx, tenant, id);
        if (!old) return undefined;
        const isOverlapping = expiry.oldKeysExpireAt !== undefined;
        const key = rekey(old, isOverlapping ? await countKeys(tx, tenant, id) : 0);
        if (isOverlapping) await expireKeys(tx, tenant, id, expiry.oldKeysExpireAt);
        else await tx.run(deleteKeys, [tenant, id]);
        await insertKey(tx, tenant, id, key, change, expiry.expiresAt);
        await tx.run(
          `update applications set modified_by = $3, modified_at = ${laterThanBefore('$4')}
           where tenant_id = $1 and id = $2`,
          [tenant, id, change.by, change.at],
        );
        return { application: (await lockApplication(tx, tenant, id)) as Application, key };
      }),

    delete: (tenant, id, check) => db.transaction((tx) => markDeleted(tx, tenant, id, check)),
  };
}

async function replaceFields(
  tx: Queries,
  { tenant_id: tenant, id, trusted_issuers: before }: Application,
  { by, at }: Change,
  fields: ApplicationUpdate,
): Promise<void> {
  if (before) await endUntrusted(tx, tenant, id, before, fields.trusted_issuers);
  const { name, expires_at: expiry } = fields;
  await tx.run(
    `update applications set name = $3, name_folded = $4, permissions = $5, rules = $6, allowed_origins = $7,
       require_bound_sessions = $8, allowed_networks = $9, labels = $10, expires_at = $11, modified_by = $12,
       modified_at = ${laterThanBefore('$13')}, trusted_issuers = $14
     where tenant_id = $1 and id = $2`,
    [
      tenant,
      id,
      name,
      fold(name),
      ...toText(fields),
      listText(fields.allowed_origins),
      Number(fields.require_bound_sessions ?? false),
      listText(fields.allowed_networks),
      labelText(fields.labels),
      expiry === undefined ? null : Date.parse(expiry),
      by,
      at,
      listText(fields.trusted_issuers),
    ],
  );
}

async function setQuarantine(
  tx: Queries,
  ...[tenant, id, change, isQuarantined, check]: Parameters<Applications['setQuarantine']>
): ReturnType<Applications['setQuarantine']> {
  const before = await lockApplication(tx, tenant, id);
  if (!before) return undefined;
  check(before);
  if ((before.quarantined_at !== undefined) === isQuarantined) return { before, after: before };
  await tx.run(
    `update applications set quarantined_at = $3, modified_by = $4, modified_at = ${laterThanBefore('$5')}
     where tenant_id = $1 and id = $2`,
    [tenant, id, isQuarantined ? change.at : null, change.by, change.at],
  );
  return { before, after: (await lockApplication(tx, tenant, id)) as Application };
}

/** Marks an application as expired, so that no read returns it. The sweep removes its row and its sessions. */
async function markDeleted(
  tx: Queries,
  tenant: string,
  id: string,
  check?: (current: Application) => void,
): Promise<Application | undefined> {
  const old = await lockApplication(tx, tenant, id);
  if (!old) return undefined;
  check?.(old);
  await tx.run('update applications set expires_at = 0 where tenant_id = $1 and id = $2', [tenant, id]);
  // Deletes the keys now instead of in the sweep, so that response times do not reveal which keys existed.
  await tx.run('delete from application_keys where tenant_id = $1 and application_id = $2', [tenant, id]);
  return old;
}

export async function insertApplication(
  tx: Queries,
  tenant: string,
  application: NewApplication,
  key: Minted,
) {
  const { id, name, type, createdBy, createdAt, expiresAt, keyExpiresAt } = application;
  await tx.run(
    `insert into applications (tenant_id, id, name, name_folded, type, permissions, rules,
       allowed_origins, require_bound_sessions, allowed_networks, labels, created_by, created_at, expires_at,
       trusted_issuers)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`,
    [
      tenant,
      id,
      name,
      fold(name),
      type,
      ...toText(application),
      listText(application.allowedOrigins),
      Number(application.requireBoundSessions ?? false),
      listText(application.allowedNetworks),
      labelText(application.labels),
      createdBy ?? null,
      createdAt,
      expiresAt ?? null,
      listText(application.trustedIssuers),
    ],
  );
  await insertKey(tx, tenant, id, key, { at: createdAt, by: createdBy }, keyExpiresAt);
}

/** Lists the fields one by one, so that a new column does not reach responses by accident. */
export function toApplication(row: ApplicationRow): Application {
  return {
    id: row.id,
    tenant_id: row.tenant_id,
    name: row.name,
    type: row.type,
    ...toGrants(row),
    ...(row.allowed_origins !== null && { allowed_origins: toOrigins(row) }),
    ...(row.require_bound_sessions !== 0 && { require_bound_sessions: true }),
    ...(row.allowed_networks !== null && { allowed_networks: JSON.parse(row.allowed_networks) }),
    ...(row.trusted_issuers !== null && { trusted_issuers: JSON.parse(row.trusted_issuers) }),
    ...(row.labels !== null && { labels: JSON.parse(row.labels) }),
    ...(row.created_by !== null && { created_by: row.created_by }),
    created_at: timestamp(Number(row.created_at)),
    ...(row.modified_by !== null && { modified_by: row.modified_by }),
    ...(row.modified_at !== null && { modified_at: timestamp(Number(row.modified_at)) }),
    ...(row.expires_at !== null && { expires_at: timestamp(Number(row.expires_at)) }),
    ...(row.quarantined_at !== null && { quarantined_at: timestamp(Number(row.quarantined_at)) }),
    ...(row.last_used_at !== null && { last_used_at: timestamp(Number(row.last_used_at)) }),
  };
}

export function toGrants(row: { permissions: string; rules: string }): Grants {
  return { permissions: JSON.parse(row.permissions), rules: JSON.parse(row.rules) };
}

/** The grants after quarantine is applied. */
export function toEffectiveGrants(row: {
  /** Only for sessions and delegations. */
  kind?: 'session' | 'delegation';
  permissions: string;
  rules: string;
  quarantined_at: DbTime | null;
  /** Only for sessions and delegations: when it was quarantined itself, or the application that authorized it. */
  session_quarantined_at?: DbTime | null;
  authorizer_quarantined_at?: DbTime | null;
}): EffectiveGrants {
  const grants = toGrants(row);
  if ((row.session_quarantined_at ?? null) !== null) return quarantined(grants, row.kind);
  if (row.quarantined_at !== null) return quarantined(grants, 'application');
  return (row.authorizer_quarantined_at ?? null) === null ? grants : quarantined(grants, 'authorizer');
}

export function toOrigins(row: { allowed_origins: string | null }): string[] | undefined {
  return row.allowed_origins === null ? undefined : JSON.parse(row.allowed_origins);
}

/** An empty list is stored as null. */
export function listText(list: readonly unknown[] | undefined): string | null {
  return list && list.length > 0 ? JSON.stringify(list) : null;
}

export function toText(grants: Grants): [permissions: string, rules: string] {
  return [JSON.stringify(grants.permissions), JSON.stringify(grants.rules)];
}

/**
 * Folds case in this process, because SQLite and PostgreSQL compare text differently. `toUpperCase` comes last, because
 * `toLowerCase` has two forms of the Greek sigma: one at the end of a word, one elsewhere.
 */
export function fold(name: string): string {
  return normalized(name, 'NFC').toLowerCase().toUpperCase();
}

function withKeyEnding(tenant: string, ending: string): Filtered<unknown, unknown>['index'] {
  return {
    sql: (params) => `select k.application_id from application_keys k
      where k.tenant_id = ${params.add(tenant)} and k.ending = ${params.add(ending)} and ${notExpired('k')}`,
    id: 'k.application_id',
  };
}

function filtered(tenant: string, filter: ApplicationFilter) {
  const { ids, type, name, expiresBefore, labels = {}, keyEnding } = filter;
  const [first, ...others] = Object.entries(labels);
  const byKey = keyEnding !== undefined && withKeyEnding(tenant, keyEnding);
  return {
    table: 'applications',
    columns: 'r.type, r.name_folded, r.expires_at',
    tenant,
    ids,
    index: byKey || (first && withLabel(tenant, first)),
    filter: (params: Params) =>
      all(
        type && `x.type = ${params.add(type)}`,
        name && includes('x.name_folded', params.add(fold(name))),
        expiresBefore !== undefined && `x.expires_at < ${params.add(expiresBefore)}`,
        ...(byKey && first ? [first, ...others] : others).map((label) => hasLabel(params, tenant, label)),
        notExpired('x'),
      ),
  };
}

/** Sorted by name. No labels are stored as null. */
export function labelText(labels: Labels = {}): string | null {
  const entries = Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1));
  return entries.length > 0 ? JSON.stringify(Object.fromEntries(entries)) : null;
}

const labelRows = target<ReturnType<typeof rowsOf>[number]>('application_labels', {
  tenant_id: 'uuid',
  name: 'text',
  value: 'text',
  application_id: 'uuid',
});

function rowsOf(tenant: string, application: string, labels: Labels = {}) {
  return Object.entries(labels).map(([name, value]) => ({
    tenant_id: tenant,
    name,
    value,
    application_id: application,
  }));
}

/**
 * Replaces the labels of an application whose row is locked. It has them as JSON; the table application_labels is an index
 * of them.
 */
async function replaceLabels(
  tx: Queries,
  tenant: string,
  application: string,
  before: Labels | undefined,
  after: Labels | undefined,
): Promise<void> {
  if (labelText(before) === labelText(after)) return;
  const sql = 'delete from application_labels where tenant_id = $1 and application_id = $2';
  if (before) await tx.run(sql, [tenant, application]);
  await tx.insert(labelRows, rowsOf(tenant, application, after));
}

type Label = readonly [name: string, value: string];

function withLabel(tenant: string, [name, value]: Label): Filtered<unknown, unknown>['index'] {
  return {
    sql: (params) => `select l.application_id from application_labels l
      where l.tenant_id = ${params.add(tenant)} and l.name = ${params.add(name)} and l.value = ${params.add(value)}`,
    id: 'l.application_id',
  };
}

/** A condition on the application `x`. */
function hasLabel(params: Params, tenant: string, [name, value]: Label): string {
  return `(select 1 from application_labels l where l.tenant_id = ${params.add(tenant)} and l.name = ${params.add(name)}
    and l.value = ${params.add(value)} and l.application_id = x.id) = 1`;
}
