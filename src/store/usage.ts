import type { Db, DbTime, Executor, Queries } from '../db/db.ts';
import { type Clause, clause, list, Param, raw, sql, target, tuple } from '../db/statement.ts';
import type { Awaitable } from '../domain/awaitable.ts';
import { timestamp } from '../domain/common-fields.ts';
import { intervalsBetween } from '../domain/intervals.ts';
import { durationLimits, type IntervalCounts, storedInterval } from '../domain/request-counts.ts';
import {
  boundedUses,
  dayLength,
  dayOf,
  keptDays,
  type LastUses,
  maxUses,
  type Use,
} from '../domain/usage.ts';
import { notExpired } from './applications.ts';
import type { ApplicationUse, CountedInterval, RequestCounts, Usage } from './store.ts';

/** Maximum number of containers that are recorded per permission of an application. */
export const maxContainers = 50;

type UseRow = { permission: string; container: string; last_used_at: DbTime };

function toUse({ permission, container, last_used_at }: UseRow): Use {
  return { permission, container, last_used_at: timestamp(Number(last_used_at)) };
}

/** Also locks the application, like every change of its keys. Returns 0 if it does not exist. */
function markUsed(tx: Queries, { tenantId, applicationId, at }: ApplicationUse): Awaitable<number> {
  const used = new Param(at);
  return tx.run(sql`
    update applications set last_used_at = case when last_used_at > ${used} then last_used_at else ${used} end
      where tenant_id = ${tenantId} and id = ${applicationId} and ${notExpired('applications')}`);
}

export function usage(db: Executor): Usage {
  /** Locks the application first, so that this and a change of its keys cannot deadlock. */
  async function write(tx: Queries, use: ApplicationUse): Promise<void> {
    if ((await markUsed(tx, use)) === 0) return;
    await Promise.all([
      use.keys.size > 0 && writeKeyUses(tx, use),
      use.permissions.size > 0 && writeUses(tx, use),
    ]);
  }

  return {
    write: (uses) =>
      db.transaction(async (tx) => {
        for (const use of uses) await write(tx, use);
      }, uses[0]?.tenantId),

    list: async (tenant, application) => {
      const rows = await db.all<UseRow>(sql`select permission, container, last_used_at from application_uses
        where tenant_id = ${tenant} and application_id = ${application}
        order by last_used_at desc, permission, container limit ${maxUses}`);
      return rows.map(toUse);
    },

    listAll: async (tenant, ids) => {
      const rows = await db.all<UseRow & { application_id: string }>(sql`
        select application_id, permission, container, last_used_at from application_uses
         where tenant_id = ${tenant} and application_id in ${list(ids)}
         order by last_used_at desc, permission, container limit ${maxUses * ids.length}`);
      const groups = Map.groupBy(rows, ({ application_id }) => application_id);
      return new Map([...groups].map(([id, uses]) => [id, uses.map(toUse)]));
    },

    keys: async (tenant, application, now) => {
      const rows = await db.all<{ id: string; ending: string; daily_requests: string | null }>(sql`
        select k.id, k.ending, k.daily_requests from application_keys k where k.tenant_id = ${tenant}
           and k.application_id = ${application} and k.trust is null and ${notExpired('k')} order by k.id desc`);
      return rows.map(({ id, ending, daily_requests }) => {
        const last = [...dailyRequests(daily_requests)].filter(([day]) => day > dayOf(now) - keptDays);
        const days = last.map(([day, requests]) => ({
          date: timestamp(day * dayLength).slice(0, 10),
          requests,
        }));
        return { id, ending, days };
      });
    },
  };
}

/** By day, see `dayOf`. */
const dailyRequests = (json: string | null) => new Map<number, number>(JSON.parse(json ?? '[]'));

const ofApplication = ({ tenantId, applicationId }: ApplicationUse) =>
  clause`tenant_id = ${tenantId} and application_id = ${applicationId}`;

/** The application must be locked, because this adds to what it has read. */
async function writeKeyUses(tx: Queries, use: ApplicationUse): Promise<void> {
  const { keys } = use;
  const rows = await tx.all<{ id: string; last_used_at: DbTime | null; daily_requests: string | null }>(sql`
    select id, last_used_at, daily_requests from application_keys
      where ${ofApplication(use)} and id in ${list([...keys.keys()])}`);
  for (const { id, last_used_at, daily_requests } of rows) {
    const { at, days: added } = keys.get(id)!;
    const days = dailyRequests(daily_requests);
    for (const [day, requests] of added) days.set(day, requests + (days.get(day) ?? 0));
    const kept = [...days].sort(([a], [b]) => a - b).slice(-keptDays);
    await tx.run(sql`update application_keys set last_used_at = ${Math.max(at, Number(last_used_at ?? 0))},
      daily_requests = ${JSON.stringify(kept)} where ${ofApplication(use)} and id = ${id}`);
  }
}

const useTable = target<UseRow & { tenant_id: string; application_id: string }>(
  'application_uses',
  {
    tenant_id: 'uuid',
    application_id: 'uuid',
    permission: 'text',
    container: 'text',
    last_used_at: 'bigint',
  },
  'on conflict (tenant_id, application_id, permission, container) do update set last_used_at = excluded.last_used_at',
);

/** Writes only the uses that changed, in at most three statements. */
async function writeUses(tx: Queries, use: ApplicationUse): Promise<void> {
  const { tenantId, applicationId, permissions } = use;
  const rows = await tx.all<UseRow>(sql`
    select permission, container, last_used_at from application_uses where ${ofApplication(use)}`);
  const stored = new Map<string, Map<string, number>>();
  for (const { permission, container, last_used_at } of rows) {
    const containers = stored.get(permission) ?? new Map<string, number>();
    stored.set(permission, containers.set(container, Number(last_used_at)));
  }
  const merged = new Map<string, LastUses>(stored);
  for (const [permission, uses] of permissions)
    merged.set(permission, latest(stored.get(permission) ?? new Map(), uses));
  const next = boundedUses(merged, maxUses, maxContainers);
  const outdated = rows.filter(({ permission, container }) => !next.get(permission)?.has(container));
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
  if (outdated.length > 0) await deleteUses(tx, use, outdated);
  if (changed.length > 0) await tx.insert(useTable, changed);
}

/** Merges two maps. If both have a container, the later time counts. */
function latest(a: LastUses, b: LastUses): LastUses {
  const both = new Map(a);
  for (const [container, at] of b) both.set(container, Math.max(at, both.get(container) ?? at));
  return both;
}

/** A space separates the two columns: neither can contain one. */
async function deleteUses(tx: Queries, use: ApplicationUse, rows: UseRow[]): Promise<void> {
  const names = list(rows.map(({ permission, container }) => `${permission} ${container}`));
  await tx.run(sql`
    delete from application_uses where ${ofApplication(use)} and permission || ' ' || container in ${names}`);
}

/** The columns with numbers of requests by duration, such as `within_250us`, `within_5ms` and `within_1s`. */
const durationColumns = [...durationLimits.map((limit) => `within_${durationText(limit)}`), 'slower'];

function durationText(milliseconds: number): string {
  if (milliseconds % 1 > 0) return `${milliseconds * 1000}us`;
  return milliseconds % 1000 > 0 ? `${milliseconds}ms` : `${milliseconds / 1000}s`;
}
const counters = ['denied', ...durationColumns];
const counterNames = counters.map(raw);
const separated = (clauses: readonly Clause[]) =>
  clauses.reduce((before, next) => clause`${before}, ${next}`);
const sumsOfCounters = raw(counters.map((name) => `sum(${name}) as ${name}`).join(', '));
const addedToStored = raw(counters.map((name) => `${name} = stored.${name} + excluded.${name}`).join(', '));

type SumRow = Record<string, DbTime>;

export function requestCounts(db: Db): RequestCounts {
  async function firstInterval(tenant: string): Promise<number | undefined> {
    const row = await db.get<{ first: DbTime | null }>(sql`
      select min(started_at) as first from request_counts where tenant_id = ${tenant}`);
    return row?.first == null ? undefined : Number(row.first);
  }

  return {
    /** Rows are locked in the order of the primary key, so that nodes that write concurrently cannot deadlock. */
    add: (intervals) =>
      db.transaction(async (tx) => {
        for (const interval of intervals.toSorted((a, b) => a.start - b.start)) {
          if ((await tx.run(addToStored(interval))) > 0) continue;
          // Counts of deleted tenants are dropped. With `insert … select`, Citus would wait while any shard moves.
          if (await tx.get(sql`select 1 as one from tenants where id = ${interval.tenantId}`))
            await tx.run(insertFirst(interval));
        }
      }, intervals[0]?.tenantId),

    list: async (tenant, { from, to }, now) => {
      // An open period includes the interval that starts in this millisecond.
      const before = to ?? now + 1;
      const first = from ?? Math.min((await firstInterval(tenant)) ?? before, before - 1);
      const { start, length, count } = intervalsBetween(first, before, storedInterval);
      const counts: IntervalCounts[] = Array.from({ length: count }, () => noRequests);
      const firstStored = Math.floor(first / storedInterval) * storedInterval;
      // Adds the stored intervals up, into longer ones. Casts, because SQLite would otherwise divide as floating point.
      const sums = sql`select (started_at - cast(${start} as bigint)) / cast(${length} as bigint) as number,
          ${sumsOfCounters}
        from request_counts where tenant_id = ${tenant} and started_at >= ${firstStored} and started_at < ${before}
        group by number`;
      for (const row of await db.all<SumRow>(sums))
        counts[Number(row.number)] = {
          denied: Number(row.denied),
          durations: durationColumns.map((name) => Number(row[name])),
        };
      return { start, length, end: to ?? now, counts };
    },
  };
}

const noRequests: IntervalCounts = { denied: 0, durations: Array(durationLimits.length + 1).fill(0) };

/** In the order of the counters. */
function valuesOf({ denied, durations }: CountedInterval): number[] {
  return [denied, ...durationColumns.map((_, bucket) => durations[bucket] ?? 0)];
}

function addToStored(interval: CountedInterval) {
  const added = valuesOf(interval).map(
    (value, at) => clause`${counterNames[at]} = ${counterNames[at]} + ${value}`,
  );
  return sql`update request_counts set ${separated(added)}
    where tenant_id = ${interval.tenantId} and started_at = ${interval.start}`;
}

function insertFirst(interval: CountedInterval) {
  const values = [interval.tenantId, interval.start, ...valuesOf(interval)];
  return sql`insert into request_counts as stored (tenant_id, started_at, ${separated(counterNames)})
    values ${tuple(values)} on conflict (tenant_id, started_at) do update set ${addedToStored}`;
}
