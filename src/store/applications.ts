import { type DbTime, type Executor, type Queries, rowLock } from '../db/db.ts';
import { includes } from '../db/sql.ts';
import { all, type Clause, clause, lookup, raw, sql, target } from '../db/statement.ts';
import {
  type Column,
  oneOf,
  optional,
  type RowOf,
  shown,
  shownFlag,
  shownJson,
  shownTime,
  table,
  text,
  time,
  uuid,
} from '../db/table.ts';
import {
  type Application,
  type ApplicationType,
  flagNames,
  type Setting,
  settingNames,
} from '../domain/application.ts';
import type { Awaitable } from '../domain/awaitable.ts';
import type { Grants } from '../domain/grant.ts';
import type { Minted } from '../domain/key.ts';
import type { Labels } from '../domain/labels.ts';
import { type EffectiveGrants, quarantined } from '../domain/quarantine.ts';
import { modificationTime } from '../domain/row-version.ts';
import { currentRules, endsOfRules } from '../domain/rule.ts';
import { normalized } from '../domain/text-search.ts';
import { countKeys, endUntrusted, expireKeys, insertKey } from './key-rows.ts';
import { countFiltered, type Filtered, listRows } from './lists/rows.ts';
import type { ApplicationFilter, Applications, ApplicationUpdate, Change, NewApplication } from './store.ts';

/** Flags are 0 or 1. Others are JSON. */
type SettingColumns = {
  [Name in Setting]: NonNullable<Application[Name]> extends boolean
    ? typeof shownFlag
    : Column<string | null, NonNullable<Application[Name]>, true>;
};
const settingColumns = Object.fromEntries(
  settingNames.map((name) => [name, flagNames.includes(name) ? shownFlag : optional(shownJson())]),
) as SettingColumns;

/** A column reaches responses only if it is `shown`. */
export const applicationTable = table('applications', {
  id: shown(uuid),
  tenant_id: shown(uuid),
  name: shown(text),
  name_folded: text,
  type: shown(oneOf<ApplicationType>()),
  permissions: shownJson<Application['permissions']>(),
  rules: shownJson<Application['rules']>(),
  ...settingColumns,
  created_by: optional(shown(uuid)),
  created_at: shownTime,
  modified_by: optional(shown(uuid)),
  modified_at: optional(shownTime),
  expires_at: optional(shownTime),
  quarantined_at: optional(shownTime),
  last_used_at: optional(shownTime),
  first_rule_end: optional(time),
  last_rule_end: optional(time),
});
export type ApplicationRow = Omit<
  RowOf<typeof applicationTable.columns>,
  'name_folded' | 'first_rule_end' | 'last_rule_end'
>;
type SettingRow = Pick<ApplicationRow, Setting>;

/** When a row was read, by the clock that decides what has expired. */
export interface ReadAt {
  readonly now: DbTime;
}

export const storedColumns = (alias: string) => applicationTable.select(alias, applicationTable.shown);
export const applicationColumns = (alias: string) => clause`${storedColumns(alias)}, :now as now`;

/** With the rules that have ended: only for the history of its access. */
export const toStored: (row: ApplicationRow) => Application = applicationTable.view;

export function toApplication(row: ApplicationRow & ReadAt): Application {
  return withoutEnded(toStored(row), row);
}

/** Every policy and every representation of stored grants is made from what this returns. */
function withoutEnded<G extends Pick<Grants, 'rules'>>(grants: G, { now }: ReadAt): G {
  const rules = currentRules(grants.rules, Number(now));
  return rules === grants.rules ? grants : { ...grants, rules };
}

/** The SQL condition for a row that has not expired. */
export const notExpired = (alias: string) =>
  raw(`(${alias}.expires_at is null or ${alias}.expires_at > :now)`);

const byId = lookup<ApplicationRow & ReadAt>(
  'uuid',
  (key, tenant, table) => clause`
    select a.id as key, ${applicationColumns('a')} from ${table('applications')} a
    where a.id = ${key} and a.tenant_id = ${tenant} and ${notExpired('a')}`,
);

/**
 * Reads an application and locks its row until the transaction ends. Changes of an application's keys take this lock
 * first.
 */
export async function lockApplication(
  tx: Queries,
  tenant: string,
  id: string,
): Promise<Application | undefined> {
  const row = await lockRow(tx, tenant, id);
  return row && toApplication(row);
}

async function lockRow(tx: Queries, tenant: string, id: string) {
  return await tx.get<ApplicationRow & ReadAt>(
    sql`select ${ownColumns} from applications a
      where a.tenant_id = ${tenant} and a.id = ${id} and ${ownIsValid} ${rowLock(tx, 'for no key update')}`,
  );
}

const [ownColumns, ownIsValid] = [applicationColumns('a'), notExpired('a')];

function deleteKeys(tx: Queries, tenant: string, id: string): Awaitable<number> {
  return tx.run(sql`delete from application_keys where tenant_id = ${tenant} and application_id = ${id}`);
}

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
      listRows<ApplicationRow & ReadAt, Application>(
        db,
        { ...filtered(tenant, filter), selected: () => applicationColumns('r'), parse: toApplication },
        window,
      ),

    endedSince: async (tenant, since, limit) => {
      const read = (column: string, ended: Clause) =>
        db.all<ApplicationRow>(
          sql`select ${storedColumns('a')} from applications a
           where a.tenant_id = ${tenant} and ${raw(column)} > ${Math.max(since, 0)} and ${ended}
           order by ${raw(column)} limit ${limit}`,
        );
      const expired = await read('a.expires_at', raw('a.expires_at <= :now'));
      const ended = await read('a.last_rule_end', clause`a.first_rule_end <= :now and ${ownIsValid}`);
      return [...expired, ...ended].map(toStored);
    },

    count: (tenant) => countFiltered(db, filtered(tenant, {})),

    update: (tenant, id, change, revise) =>
      db.transaction(async (tx) => {
        const row = await lockRow(tx, tenant, id);
        if (!row) return undefined;
        const old = toApplication(row);
        const fields = revise(old, toStored(row));
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
        else await deleteKeys(tx, tenant, id);
        await insertKey(tx, tenant, id, key, change, expiry.expiresAt);
        await updateApplication(tx, old, change, {});
        return { application: (await lockApplication(tx, tenant, id)) as Application, key };
      }),

    delete: (tenant, id, check) => db.transaction((tx) => markDeleted(tx, tenant, id, check)),
  };
}

async function replaceFields(
  tx: Queries,
  old: Application,
  change: Change,
  fields: ApplicationUpdate,
): Promise<void> {
  const { tenant_id: tenant, id, trusted_issuers: before } = old;
  if (before) await endUntrusted(tx, tenant, id, before, fields.trusted_issuers);
  await updateApplication(tx, old, change, columnsOf(fields));
}

/** Writes columns of an application whose row is locked. */
export async function updateApplication(
  tx: Queries,
  { tenant_id, id, modified_at: before }: Application,
  { by, at }: Partial<Change> & Pick<Change, 'at'>,
  columns: Partial<RowOf<typeof applicationTable.columns>>,
): Promise<void> {
  const modified_at = modificationTime(before === undefined ? null : Date.parse(before), at);
  const changes = { ...columns, ...(by !== undefined && { modified_by: by }), modified_at };
  await tx.run(applicationTable.update({ tenant_id, id }, changes));
}

/** The columns that an update replaces. */
export function columnsOf({
  name,
  ...access
}: Parameters<typeof accessColumns>[0] & { readonly name: string }) {
  return { name, name_folded: fold(name), ...accessColumns(access, settingNames) };
}

/** The columns of grants, settings and expiry. */
export function accessColumns(
  access: Grants & Partial<Record<Setting, unknown>> & Pick<Partial<ApplicationUpdate>, 'expires_at'>,
  names: readonly Setting[],
) {
  const [permissions, rules] = toText(access);
  const { first: first_rule_end, last: last_rule_end } = endsOfRules(access.rules);
  const expires_at = access.expires_at === undefined ? null : Date.parse(access.expires_at);
  return { permissions, rules, first_rule_end, last_rule_end, ...settingsRow(access, names), expires_at };
}

async function setQuarantine(
  tx: Queries,
  ...[tenant, id, change, isQuarantined, check]: Parameters<Applications['setQuarantine']>
): ReturnType<Applications['setQuarantine']> {
  const before = await lockApplication(tx, tenant, id);
  if (!before) return undefined;
  check(before);
  if ((before.quarantined_at !== undefined) === isQuarantined) return { before, after: before };
  await updateApplication(tx, before, change, { quarantined_at: isQuarantined ? change.at : null });
  return { before, after: (await lockApplication(tx, tenant, id)) as Application };
}

/** Marks an application as expired, so that no read returns it. The sweep removes its row and its sessions. */
async function markDeleted(
  tx: Queries,
  tenant: string,
  id: string,
  check?: (current: Application) => void,
): Promise<Application | undefined> {
  const row = await lockRow(tx, tenant, id);
  if (!row) return undefined;
  const old = toStored(row);
  check?.(old);
  await tx.run(sql`update applications set expires_at = 0 where tenant_id = ${tenant} and id = ${id}`);
  // Deletes the keys now instead of in the sweep, so that response times do not reveal which keys existed.
  await deleteKeys(tx, tenant, id);
  return old;
}

export async function insertApplication(
  tx: Queries,
  tenant: string,
  application: NewApplication,
  key: Minted,
) {
  const { id, type, createdBy, createdAt, expiresAt, keyExpiresAt, ...fields } = application;
  const owner = { tenant_id: tenant, id, type, created_by: createdBy, created_at: createdAt };
  await tx.run(applicationTable.insert({ ...columnsOf(fields), ...owner, expires_at: expiresAt }));
  await insertKey(tx, tenant, id, key, { at: createdAt, by: createdBy }, keyExpiresAt);
}

export function toGrants(row: { permissions: string; rules: string } & ReadAt): Grants {
  return withoutEnded({ permissions: JSON.parse(row.permissions), rules: JSON.parse(row.rules) }, row);
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
  now: DbTime;
}): EffectiveGrants {
  const grants = toGrants(row);
  if ((row.session_quarantined_at ?? null) !== null) return quarantined(grants, row.kind);
  if (row.quarantined_at !== null) return quarantined(grants, 'application');
  return (row.authorizer_quarantined_at ?? null) === null ? grants : quarantined(grants, 'authorizer');
}

export function toOrigins(row: { allowed_origins: string | null }): string[] | undefined {
  return row.allowed_origins === null ? undefined : JSON.parse(row.allowed_origins);
}

/** The columns of the settings with these names. */
function settingsRow(application: Partial<Record<Setting, unknown>>, names: readonly Setting[]): SettingRow {
  const columns = names.map((name) => {
    const value = application[name];
    return [name, flagNames.includes(name) ? Number(value ?? false) : settingText(value)];
  });
  return Object.fromEntries(columns) as SettingRow;
}

/** An empty list and an empty object are stored as null. Names are sorted. */
function settingText(value: unknown): string | null {
  if (value === undefined) return null;
  if (Array.isArray(value)) return value.length > 0 ? JSON.stringify(value) : null;
  return typeof value === 'object' ? labelText(value as Labels) : JSON.stringify(value);
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
    sql: clause`select k.application_id from application_keys k
      where k.tenant_id = ${tenant} and k.ending = ${ending} and ${notExpired('k')}`,
    id: 'k.application_id',
  };
}

function filtered(tenant: string, filter: ApplicationFilter) {
  const { ids, type, name, expiresBefore, usedBefore, labels = {}, keyEnding } = filter;
  const [first, ...others] = Object.entries(labels);
  const byKey = keyEnding !== undefined && withKeyEnding(tenant, keyEnding);
  return {
    table: 'applications',
    columns: 'r.type, r.name_folded, r.expires_at, r.created_at, r.last_used_at',
    valid: notExpired('r'),
    tenant,
    ids,
    index: byKey || (first && withLabel(tenant, first)),
    filter: all(
      type && clause`x.type = ${type}`,
      name && includes('x.name_folded', fold(name)),
      expiresBefore !== undefined && clause`x.expires_at < ${expiresBefore}`,
      usedBefore !== undefined && clause`coalesce(x.last_used_at, x.created_at) < ${usedBefore}`,
      ...(byKey && first ? [first, ...others] : others).map((label) => hasLabel(tenant, label)),
      notExpired('x'),
    ),
  };
}

/** Sorted by name. No labels are stored as null. */
function labelText(labels: Labels = {}): string | null {
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
  if (before)
    await tx.run(sql`
      delete from application_labels where tenant_id = ${tenant} and application_id = ${application}`);
  await tx.insert(labelRows, rowsOf(tenant, application, after));
}

type Label = readonly [name: string, value: string];

function withLabel(tenant: string, [name, value]: Label): Filtered<unknown, unknown>['index'] {
  return {
    sql: clause`select l.application_id from application_labels l
      where l.tenant_id = ${tenant} and l.name = ${name} and l.value = ${value}`,
    id: 'l.application_id',
  };
}

/** A condition on the application `x`. */
function hasLabel(tenant: string, [name, value]: Label): Clause {
  return clause`(select 1 from application_labels l where l.tenant_id = ${tenant} and l.name = ${name}
    and l.value = ${value} and l.application_id = x.id) = 1`;
}
