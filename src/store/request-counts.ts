import { intervalsBetween } from '../domain/intervals.ts';
import { durationLimits, type IntervalCounts, storedInterval } from '../domain/request-counts.ts';
import type { Db, DbTime } from './engine/db.ts';
import type { CountedInterval, RequestCounts } from './store.ts';

/** The columns with numbers of requests by duration, in the order of `durationLimits`. */
const durationColumns = [
  'within_250us',
  'within_500us',
  'within_1ms',
  'within_2500us',
  'within_5ms',
  'within_10ms',
  'within_25ms',
  'within_50ms',
  'within_100ms',
  'within_250ms',
  'within_500ms',
  'within_1s',
  'within_2500ms',
  'within_5s',
  'within_10s',
  'slower',
];
const counters = ['denied', ...durationColumns];
const columns = ['tenant_id', 'started_at', ...counters];

const addToStored = `on conflict (tenant_id, started_at) do update set
  ${counters.map((name) => `${name} = stored.${name} + excluded.${name}`).join(', ')}`;
const insert = `insert into request_counts as stored (${columns.join(', ')})`;

/** Counts of deleted tenants are dropped. */
const addOne = `${insert} select ${columns.map((_, at) => `$${at + 1}`).join(', ')} from tenants where id = $1 ${addToStored}`;

/** Rows are locked in the order of the primary key, so that nodes that write concurrently cannot deadlock. */
const addAll = `${insert} select ${columns.map((name) => `c.${name}`).join(', ')}
  from json_to_recordset(cast(cast($1 as text) as json))
    as c (tenant_id uuid, started_at bigint, ${counters.map((name) => `${name} integer`).join(', ')})
  join tenants t on t.id = c.tenant_id
  order by c.tenant_id, c.started_at ${addToStored}`;

/** Adds the stored intervals up, into longer ones. Casts, because SQLite would otherwise divide as floating point. */
const sums = `select (started_at - cast($2 as bigint)) / cast($3 as bigint) as number,
    ${counters.map((name) => `sum(${name}) as ${name}`).join(', ')}
  from request_counts where tenant_id = $1 and started_at >= $4 and started_at < $5 group by number`;

type SumRow = Record<string, DbTime>;

export function requestCounts(db: Db): RequestCounts {
  async function firstInterval(tenant: string): Promise<number | undefined> {
    const row = await db.get<{ first: DbTime | null }>(
      'select min(started_at) as first from request_counts where tenant_id = $1',
      [tenant],
    );
    return row?.first == null ? undefined : Number(row.first);
  }

  return {
    add: async (intervals) => {
      const rows = intervals.map(rowOf);
      if (db.dialect === 'postgres') {
        if (rows.length > 0) await db.run(addAll, [JSON.stringify(rows)]);
        return;
      }
      await db.transaction(async (tx) => {
        for (const row of rows) await tx.run(addOne, Object.values(row));
      });
    },

    list: async (tenant, { from, to }, now) => {
      // An open period includes the interval that starts in this millisecond.
      const before = to ?? now + 1;
      const first = from ?? Math.min((await firstInterval(tenant)) ?? before, before - 1);
      const { start, length, count } = intervalsBetween(first, before, storedInterval);
      const counts: IntervalCounts[] = Array.from({ length: count }, () => noRequests);
      const firstStored = Math.floor(first / storedInterval) * storedInterval;
      for (const row of await db.all<SumRow>(sums, [tenant, start, length, firstStored, before]))
        counts[Number(row.number)] = {
          denied: Number(row.denied),
          durations: durationColumns.map((name) => Number(row[name])),
        };
      return { start, length, end: to ?? now, counts };
    },
  };
}

const noRequests: IntervalCounts = { denied: 0, durations: Array(durationLimits.length + 1).fill(0) };

function rowOf({ tenantId, start, denied, durations }: CountedInterval): Record<string, string | number> {
  const byDuration = durationColumns.map((name, bucket) => [name, durations[bucket] ?? 0] as const);
  return { tenant_id: tenantId, started_at: start, denied, ...Object.fromEntries(byDuration) };
}
