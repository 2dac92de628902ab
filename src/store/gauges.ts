import { logGauges } from '../audit/log.ts';
import type { Db, DbTime } from '../db/db.ts';
import { everyTenant } from '../db/sql.ts';
import type { Connections, Gauges } from './maintenance.ts';

const tables = ['applications', 'sessions', 'tokens'] as const;
const week = 7 * 86_400_000;

/** Row counts are estimates: the highest rowid on SQLite, the result of the last `analyze` on PostgreSQL. */
const sizes = {
  sqlite: {
    bytes: 'select page_count * page_size as value from pragma_page_count(), pragma_page_size()',
    rows: (table: string) => everyTenant(`select max(_rowid_) as value from ${table}`),
  },
  postgres: {
    bytes: 'select pg_database_size(current_database()) as value',
    rows: (table: string) =>
      `select greatest(reltuples, 0)::bigint as value from pg_class where oid = '${table}'::regclass`,
  },
};

/** Rows that expire soon are counted up to this number. */
const maxCounted = 10_000;

/** Each query reads a bounded number of rows from an index. */
export async function readGauges(db: Db): Promise<Gauges> {
  const number = async (sql: string, params: number[] = []) =>
    Number((await db.get<{ value: DbTime | null }>(sql, params))?.value ?? 0);
  const { bytes, rows } = sizes[db.dialect];
  const counts: Record<string, number> = {};
  for (const table of tables) counts[table] = await number(rows(table));
  const { sealed, unsealed } = await logGauges(db);
  counts.audit = sealed;
  const oldestExpired = await number(
    everyTenant(`select :now - min(expires_at) as value from
       (select min(expires_at) as expires_at from sessions union all
        select min(expires_at) as expires_at from tokens where expires_at is not null) as expiries`),
  );
  const expiring = (table: string, and = '') =>
    everyTenant(
      `select count(*) as value from (select 1 as one from ${table}
         where expires_at > :now and expires_at <= :now + $1 ${and} limit ${maxCounted}) as expiring`,
    );
  return {
    bytes: await number(bytes),
    rows: counts,
    expiring: await number(expiring('applications'), [week]),
    expiringKeys: await number(expiring('application_keys', 'and trust is null'), [week]),
    sweepLag: Math.max(0, oldestExpired / 1000),
    unsealed,
    diskFull: db.local && Number(db.local.isDiskFull()),
    connections: db.isEmbedded ? undefined : await readConnections(db),
  };
}

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
