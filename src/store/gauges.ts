import type { Db, DbTime } from './engine/db.ts';
import { everyTenant } from './engine/sql.ts';
import type { Connections, Gauges } from './maintenance.ts';

const tables = ['applications', 'sessions', 'tokens'] as const;
const week = 7 * 86_400_000;

/** Row counts are estimates: the highest rowid on SQLite, the result of the last `analyze` on PostgreSQL. */
const sizes = {
  sqlite: {
    bytes: 'select page_count * page_size as value from pragma_page_count(), pragma_page_size()',
    rows: (table: string) => everyTenant(`select max(_rowid_) as value from ${table}`),
    unchained: 'select max(id) - min(id) + 1 as value from audit_pending',
  },
  postgres: {
    bytes: 'select pg_database_size(current_database()) as value',
    rows: (table: string) =>
      `select greatest(reltuples, 0)::bigint as value from pg_class where oid = '${table}'::regclass`,
    unchained: `select pg_stat_get_live_tuples('audit_pending'::regclass) as value`,
  },
};

/** Up to this number, audit entries that are not chained are counted. Above, their number is an estimate. */
const maxCounted = 10_000;

/** Cheap enough for every scrape of the metrics: no query scans a whole table. */
export async function readGauges(db: Db): Promise<Gauges> {
  const number = async (sql: string, params: number[] = []) =>
    Number((await db.get<{ value: DbTime | null }>(sql, params))?.value ?? 0);
  const { bytes, rows, unchained } = sizes[db.dialect];
  const counts: Record<string, number> = {};
  for (const table of tables) counts[table] = await number(rows(table));
  counts.audit = await number('select sum(seq - base_seq) as value from audit_chains');
  const oldestExpired = await number(
    everyTenant(`select :now - min(expires_at) as value from
       (select min(expires_at) as expires_at from sessions union all
        select min(expires_at) as expires_at from tokens) as expiries`),
  );
  const expiring = (table: string) =>
    everyTenant(`select count(*) as value from ${table} where expires_at > :now and expires_at <= :now + $1`);
  const counted = await number(
    'select count(*) as value from (select 1 as one from audit_pending limit $1) as unchained',
    [maxCounted],
  );
  return {
    bytes: await number(bytes),
    rows: counts,
    expiring: await number(expiring('applications'), [week]),
    expiringKeys: await number(expiring('application_keys'), [week]),
    sweepLag: Math.max(0, oldestExpired / 1000),
    unchained: counted < maxCounted ? counted : Math.max(counted, await number(unchained)),
    connections: db.dialect === 'postgres' ? await readConnections(db) : undefined,
  };
}

/** Returns undefined on databases that are compatible with PostgreSQL, but lack these views and settings. */
async function readConnections(db: Db): Promise<Connections | undefined> {
  const sql = `select sum(case when state = 'idle' then 1 else 0 end) as idle, sum(case when state = 'idle' then 0 else 1 end) as busy,
      current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int as max
    from pg_stat_activity where usename = current_user and datname = current_database()`;
  try {
    const row = await db.get<Record<keyof Connections, DbTime>>(sql);
    return row && { busy: Number(row.busy), idle: Number(row.idle), max: Number(row.max) };
  } catch {
    return undefined;
  }
}
