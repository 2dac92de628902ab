/** Deletes rows that no read returns any more: expired rows, and rows of deleted applications. */

import type { EntryWriter } from '../audit/log.ts';
import { type Db, type DbTime, type Queries, rowLock } from '../db/db.ts';
import { byTenant, everyTenant } from '../db/sql.ts';
import { type Clause, clause, none, Param, type Piece, raw, sql } from '../db/statement.ts';
import { expireOperation, removedState } from '../domain/access/history.ts';
import { byOperator, expiringOperation } from '../domain/audit.ts';
import { timestamp } from '../domain/common-fields.ts';
import { deleteTokens } from './application-storage.ts';
import { type ApplicationRow, storedColumns, toStored } from './applications.ts';
import { deleteRecords } from './idempotency.ts';
import type { TenantRemoval } from './maintenance.ts';
import type { NewEntry } from './store.ts';

/**
 * The tables from which the rows of a tenant are deleted, with their primary keys. Rows of other tables are deleted
 * together with them, by foreign keys.
 */
const primaryKeys = {
  sessions: 'tenant_id, id',
  leaked_keys: 'tenant_id, digest',
  ended_subjects: 'tenant_id, subject',
  used_jwts: 'tenant_id, digest',
  idempotency: 'tenant_id, caller_id, key_digest',
  token_containers: 'tenant_id, container, own, seq',
  token_metadata: 'tenant_id, digest, seq',
  token_search: 'tenant_id, digest, container, seq',
  token_contents: 'tenant_id, seq',
  tokens: 'tenant_id, seq',
  application_keys: 'tenant_id, application_id, id',
  application_uses: 'tenant_id, application_id, permission, container',
  applications: 'tenant_id, id',
  destinations: 'tenant_id, id',
  data_keys: 'tenant_id',
  request_counts: 'tenant_id, started_at',
};

/** Milliseconds after which request counts are removed. */
const requestCountRetention = 30 * 86_400_000;

/** How long the sweep pauses, as a multiple of the time that it has taken. */
const pauseFactor = 3;

/**
 * Sessions per batch, as a multiple of `limit`. On PostgreSQL, each batch reads the rows that were removed before it as
 * long as a transaction that began earlier is open, for example a backup. Larger batches do that less often.
 */
const sessionFactor = 10;

/**
 * Removes at most `limit` rows of each kind, or on PostgreSQL ten times as many sessions. Returns the total, including
 * the rows of `keepQuarantines`. Rows that another transaction has locked are skipped. If there may be more rows, this
 * waits before it returns, so that requests get most of the time of the database until the next call.
 */
export async function sweep(db: Db, writeEntries: EntryWriter, limit: number): Promise<number> {
  const began = performance.now();
  const removed = await removeRows(db, writeEntries, limit);
  if (removed >= limit) await Bun.sleep(pauseFactor * (performance.now() - began));
  return removed;
}

async function removeRows(db: Db, writeEntries: EntryWriter, limit: number): Promise<number> {
  const run = (table: Table, max = limit) =>
    eachPart(db, table, max, async (part) => db.run(sql`${expired(db, table, part)}`));
  let removed = await run('sessions', db.isEmbedded ? limit : limit * sessionFactor);
  removed += await run('leaked_keys');
  removed += await run('ended_subjects');
  removed += await run('used_jwts');
  removed += await run('application_keys');
  removed += await eachPart(db, 'idempotency', limit, (part) =>
    db.transaction((tx) => deleteRecords(tx, expired(db, 'idempotency', part))),
  );
  removed += await eachPart(db, 'tokens', limit, (part) =>
    db.transaction((tx) => deleteTokens(tx, expired(db, 'tokens', part))),
  );
  removed += await eachPart(db, 'applications', limit, (part) => removeOrphanedSessions(db, part));
  removed += await eachPart(db, 'applications', limit, (part) => keepQuarantines(db, part));
  removed += await eachPart(db, 'request_counts', limit, (part) => removeRequestCounts(db, part));
  return (
    removed +
    (await eachPart(db, 'applications', limit, (part) => removeApplications(db, writeEntries, part)))
  );
}

/** What one statement of the sweep covers: all tenants, or one of them. */
interface Part {
  /** A condition, with `and`. `none` for all tenants. */
  readonly and: Clause;
  /** The tenant of a row of `table`, for subqueries. */
  tenantOf(table: string): Piece;
  readonly limit: number;
}

/**
 * Calls `remove` for all tenants together. In a Citus cluster, calls it for each tenant with expired rows, because a
 * statement cannot lock rows of several servers. Removes at most `limit` rows.
 */
async function eachPart(
  db: Db,
  table: Table | 'request_counts',
  limit: number,
  remove: (part: Part) => Promise<number>,
): Promise<number> {
  const all = { and: none, tenantOf: (name: string) => raw(`${name}.tenant_id`), limit };
  if (!(await db.isDistributed?.())) return remove(all);
  const due = table === 'request_counts' ? countsDue : raw('expires_at <= :now order by expires_at');
  const rows = await db.all<{ tenant_id: string }>(sql`
    select distinct tenant_id from (select tenant_id from ${raw(table)}
      where ${due} limit ${limit}) as due ${everyTenant}`);
  let removed = 0;
  for (const { tenant_id } of rows) {
    const rest = limit - removed;
    if (rest <= 0) break;
    const tenant = new Param(tenant_id);
    removed += await remove({ and: clause`and tenant_id = ${tenant}`, tenantOf: () => tenant, limit: rest });
  }
  return removed;
}

interface RemovedRow extends ApplicationRow {
  now: DbTime;
  tenant_deleted_at: DbTime | null;
}

/**
 * Removes expired applications that have no sessions and whose quarantine no session depends on. Writes an audit entry
 * with the last state of each. An expiry of 0 means that the application was deleted: the deletion has an entry already.
 * Applications of a deleted tenant get no entry.
 */
async function removeApplications(db: Db, writeEntries: EntryWriter, part: Part): Promise<number> {
  const tenant = part.tenantOf('applications');
  const someReleased = clause`(select 1 from ${released(tenant, raw('applications.id'))} limit 1)`;
  const isUnused = clause`and ${someSession(tenant)} is null and (quarantined_at is null or ${someReleased} is null)`;
  const deletion = sql`${expired(db, 'applications', part, isUnused)}
    returning ${storedColumns('applications')}, (select :now) as now,
      (select t.deleted_at from tenants t where t.id = ${tenant}) as tenant_deleted_at`;
  // Without an order, PostgreSQL may read all applications.
  const some = sql`select 1 as one from applications
    where expires_at <= (select :now) order by expires_at limit 1 ${everyTenant}`;
  if (part.and === none && !(await db.get(some))) return 0;
  return db.transaction(async (tx) => {
    const rows = await tx.returning<RemovedRow>(deletion);
    const ended = rows.filter((row) => Number(row.expires_at) > 0 && row.tenant_deleted_at === null);
    if (ended.length > 0) await writeEntries(tx, ended.map(entryOf));
    return rows.length;
  });
}

function entryOf(row: RemovedRow): NewEntry {
  return {
    ...byOperator,
    tenantId: row.tenant_id,
    at: Number(row.now),
    operation: expireOperation,
    entity: { kind: 'application', id: row.id },
    difference: removedState(toStored(row)),
  };
}

/** A scalar subquery with an order, because PostgreSQL would otherwise join or read all sessions. */
const someSession = (tenant: Piece) => clause`(select 1 from sessions s
  where s.tenant_id = ${tenant} and s.application_id = applications.id
  order by s.authorized_at limit 1)`;

/** Sessions without a ceiling that an application authorized, and that would be released without its quarantine. */
const released = (tenant: Piece, application: Piece) => clause`sessions s where s.tenant_id = ${tenant}
  and s.authorized_by = ${application} and s.authorizer_digest is null and s.quarantined_at is null`;

type Table =
  | 'idempotency'
  | 'sessions'
  | 'leaked_keys'
  | 'ended_subjects'
  | 'used_jwts'
  | 'tokens'
  | 'application_keys'
  | 'applications';

/**
 * The rows to delete are found in a `with` clause, which runs once. PostgreSQL may run a subquery of `in` once per row,
 * and `skip locked` would find other rows each time.
 */
function expired(db: Db, name: Table, { and, limit }: Part, also = none): Clause {
  const [key, table] = [raw(primaryKeys[name]), raw(name)];
  return clause`with due as (select ${key} from ${table} where expires_at <= (select :now) ${and} ${also}
      order by expires_at limit ${limit} ${rowLock(db, 'for update skip locked')})
    delete from ${table} where (${key}) in (select ${key} from due) ${and} ${everyTenant}`;
}

/**
 * Deletes the sessions of expired applications in batches, before the applications themselves. Otherwise the foreign
 * key would delete all sessions of an application in one statement.
 */
async function removeOrphanedSessions(db: Db, { and, tenantOf, limit }: Part): Promise<number> {
  const ended = await db.all<{ tenant_id: string; id: string; session: number | null }>(sql`
    select tenant_id, id, ${someSession(tenantOf('applications'))} as session from applications
     where expires_at <= (select :now) ${and} order by expires_at limit ${limit} ${everyTenant}`);
  let removed = 0;
  for (const { tenant_id, id, session } of ended) {
    if (session === null) continue;
    if (removed >= limit) break;
    removed += await db.run(sql`
      with batch as (select id from sessions where tenant_id = ${tenant_id} and application_id = ${id}
         limit ${limit - removed} ${rowLock(db, 'for update skip locked')})
       delete from sessions where tenant_id = ${tenant_id} and id in (select id from batch)`);
  }
  return removed;
}

/**
 * Puts sessions into quarantine that an expired application in quarantine authorized without a ceiling. Otherwise
 * removing the application would release them.
 */
async function keepQuarantines(db: Db, { and, tenantOf, limit }: Part): Promise<number> {
  const ended = await db.all<{ tenant_id: string; id: string; quarantined_at: DbTime }>(sql`
    select tenant_id, id, quarantined_at from applications
     where expires_at <= (select :now) ${and} and quarantined_at is not null
       and ${someSession(tenantOf('applications'))} is null
     order by expires_at limit ${limit} ${everyTenant}`);
  let changed = 0;
  for (const { tenant_id, id, quarantined_at } of ended) {
    if (changed >= limit) break;
    const tenant = new Param(tenant_id);
    changed += await db.run(sql`
      with batch as (select s.id from ${released(tenant, id)} limit ${limit - changed}
           ${rowLock(db, 'for update skip locked')})
         update sessions set quarantined_at = ${quarantined_at}
         where tenant_id = ${tenant} and id in (select id from batch)`);
  }
  return changed;
}

const countsDue = raw(`started_at <= (select :now) - ${requestCountRetention} order by started_at`);

async function removeRequestCounts(db: Db, { and, limit }: Part): Promise<number> {
  return db.run(sql`
    with due as (select tenant_id, started_at from request_counts where true ${and} and ${countsDue}
         limit ${limit} ${rowLock(db, 'for update skip locked')})
       delete from request_counts
       where (tenant_id, started_at) in (select tenant_id, started_at from due) ${and} ${everyTenant}`);
}

/**
 * Deletes in batches, so that transactions are short. The last transaction locks the tenant and deletes it, together
 * with rows that running requests have added since. No request can add rows during this transaction, because a foreign
 * key check waits for the lock.
 */
export async function removeTenantRows(db: Db, tenant: string, limit: number): Promise<TenantRemoval> {
  const deleted = clause`select id from tenants where id = ${tenant} and deleted_at is not null`;
  if (!(await db.get(sql`${deleted}`))) return { removed: 0, done: true };
  for (const [table, key] of Object.entries(primaryKeys)) {
    const removed = await db.run(sql`
      delete from ${raw(table)} where tenant_id = ${tenant}
         and (${raw(key)}) in (select ${raw(key)} from ${raw(table)} where tenant_id = ${tenant} limit ${limit})`);
    if (removed > 0) return { removed, done: false };
  }
  await db.transaction(async (tx) => {
    await tx.get(sql`${deleted} ${rowLock(db, 'for update')}`);
    for (const table of Object.keys(primaryKeys))
      await tx.run(sql`delete from ${raw(table)} where tenant_id = ${tenant}`);
    await tx.run(sql`delete from tenants where id = ${tenant}`);
    await tx.run(sql`delete from tenant_tags where id = ${tenant} and moved_at is null`);
  });
  return { removed: 1, done: true };
}

const tables = ['applications', 'application_keys', 'sessions', 'tokens', 'token_contents', 'idempotency'];

/**
 * Table sizes in pages. Below `small`, any query plan is fast. If statistics were made at `large` or more pages, they
 * are good enough. Above `huge`, `analyze` would time out.
 */
const [small, large, huge] = [64, 1000, 20_000];

const pages = "pg_relation_size(oid) / current_setting('block_size')::int";

/** Changed rows below which the statistics of a table that was emptied and filled again are good enough. */
const few = 2000;

const regclasses = (names: readonly string[]) => names.map((name) => `'${name}'::regclass`).join(', ');

/**
 * Tables or partitions that have several times as many pages, or changed rows, as the statistics say. The rows matter after most rows
 * were deleted: new rows then fill the same pages. Only the owner of a table can analyze it.
 */
const outgrown = (names: readonly string[]) => `select relname as name from pg_class
  where (oid in (${regclasses(names)}) or oid in (select inhrelid from pg_inherits where inhparent in (${regclasses(names)})))
    and pg_has_role(relowner, 'usage')
    and ${pages} between ${small} and ${huge}
    and (relpages < ${large} and ${pages} >= 4 * relpages
      or (select n_mod_since_analyze from pg_stat_user_tables where relid = oid) > greatest(${few}, 4 * reltuples))`;

/** Milliseconds before another attempt after a failure: another node may be analyzing the table. */
const pause = 60_000;

/**
 * PostgreSQL chooses plans by statistics, which autovacuum updates about once a minute. While the statistics say that a
 * table is almost empty, it is scanned sequentially. On the first day or after a quiet night, a table can grow by
 * thousands of rows in that minute. So fast-growing tables are analyzed here.
 *
 * Returns a function that analyzes tables that have outgrown their statistics and returns their names. `more` are tables
 * in addition to those above.
 */
export function analyzeGrownTables(db: Db, more: readonly string[]): () => Promise<string[]> {
  const sql = outgrown([...tables, ...more]);
  const failed = new Map<string, number>();

  async function analyze(name: string): Promise<boolean> {
    const last = failed.get(name);
    if (last !== undefined && performance.now() < last + pause) return false;
    try {
      await db.run(`analyze ${name}`);
      return true;
    } catch {
      failed.set(name, performance.now());
      return false;
    }
  }

  return async () => {
    // The coordinator of a cluster has no rows of these tables.
    if (db.isEmbedded || (await db.isDistributed?.())) return [];
    const analyzed: string[] = [];
    for (const { name } of await db.all<{ name: string }>(sql)) if (await analyze(name)) analyzed.push(name);
    return analyzed;
  };
}

/**
 * Writes an audit entry 7 days and 1 day before an application expires, or before one of its keys expires earlier.
 *
 * In ascending order: the notice for 1 day also replaces a missing notice for 7 days, so that only one is written.
 */
const noticeDays = [1, 7];
const day = 86_400_000;

interface ExpiringRow {
  readonly tenant_id: string;
  readonly id: string;
  /** Null if the application itself expires. */
  readonly key_id: string | null;
  readonly ending: string | null;
  readonly expires_at: DbTime;
  readonly now: DbTime;
}

/**
 * A lifetime that is shorter than the notice period gets no notice. If the expiry time is changed, another notice is
 * written.
 */
function isDue(alias: string, days: number): Clause {
  const [expiry, created] = [raw(`${alias}.expires_at`), raw(`${alias}.created_at`)];
  return clause`${expiry} > :now and ${expiry} <= :now + ${days * day}
    and ${expiry} - ${days * day} >= ${created} and t.deleted_at is null`;
}

const applicationsWithoutNotice = (days: number, limit: number) => sql`
  select a.tenant_id, a.id, null as key_id, null as ending, a.expires_at, :now as now
  from applications a join tenants t on t.id = a.tenant_id
  where ${isDue('a', days)} and not exists (
    select 1 from expiry_notices n where n.tenant_id = a.tenant_id and n.application_id = a.id
      and n.expires_at = a.expires_at and n.days <= ${days})
  order by a.expires_at limit ${limit} ${everyTenant}`;

const keysWithoutNotice = (days: number, limit: number) => sql`
  select k.tenant_id, k.application_id as id, k.id as key_id, k.ending, k.expires_at, :now as now
  from application_keys k join tenants t on t.id = k.tenant_id
  join applications a on a.tenant_id = k.tenant_id and a.id = k.application_id
  where ${isDue('k', days)} and (a.expires_at is null or a.expires_at > k.expires_at) and not exists (
    select 1 from key_expiry_notices n where n.tenant_id = k.tenant_id and n.application_id = k.application_id
      and n.key_id = k.id and n.expires_at = k.expires_at and n.days <= ${days})
  order by k.expires_at limit ${limit} ${everyTenant}`;

/**
 * Writes at most `limit` entries for each notice period, for applications and for keys. Returns the total. Any node may
 * call this at any time: each entry is written once, in the transaction that records the notice.
 */
export async function writeExpiryNotices(db: Db, writeEntries: EntryWriter, limit: number): Promise<number> {
  let written = 0;
  for (const days of noticeDays)
    for (const withoutNotice of [applicationsWithoutNotice, keysWithoutNotice]) {
      const due = await db.all<ExpiringRow>(withoutNotice(days, limit));
      for (const [, ofTenant] of byTenant(due, ({ tenant_id }) => tenant_id))
        written += await db.transaction(async (tx) => {
          const entries: NewEntry[] = [];
          for (const row of ofTenant) if (await recordNotice(tx, row, days)) entries.push(noticeEntry(row));
          if (entries.length > 0) await writeEntries(tx, entries);
          return entries.length;
        });
    }
  return written;
}

/** Returns false if the notice is recorded already, or if the key no longer exists. */
async function recordNotice(tx: Queries, row: ExpiringRow, days: number): Promise<boolean> {
  const { tenant_id: tenant, id, key_id: key, expires_at } = row;
  const expiresAt = Number(expires_at);
  const recorded =
    key === null
      ? await tx.run(sql`insert into expiry_notices (tenant_id, application_id, expires_at, days)
         values (${tenant}, ${id}, ${expiresAt}, ${days})
        on conflict do nothing`)
      : await tx.run(sql`insert into key_expiry_notices (tenant_id, application_id, key_id, expires_at, days)
        select tenant_id, application_id, id, ${expiresAt}, ${days} from application_keys
        where tenant_id = ${tenant} and application_id = ${id} and id = ${key} on conflict do nothing`);
  return recorded > 0;
}

function noticeEntry({ tenant_id: tenantId, id, key_id, ending, expires_at, now }: ExpiringRow): NewEntry {
  return {
    ...byOperator,
    tenantId,
    at: Number(now),
    operation: expiringOperation,
    entity: { kind: 'application', id },
    difference: {
      ...(key_id !== null && { keys: { from: { id: key_id, ending } } }),
      expires_at: { to: timestamp(Number(expires_at)) },
    },
  };
}
