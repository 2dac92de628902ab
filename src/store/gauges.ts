import { logGauges } from '../audit/log.ts';
import type { Db, DbTime } from '../db/db.ts';
import { everyTenant, numberIn } from '../db/sql.ts';
import { raw, sql } from '../db/statement.ts';
import type { Connections, Gauges } from './maintenance.ts';

const tables = ['applications', 'sessions', 'tokens'] as const;
const week = 7 * 86_400_000;

/** Row counts are estimates: the highest rowid on SQLite, the result of the last `analyze` on PostgreSQL. */
const sizes = {
  sqlite: {
    bytes: sql`select page_count * page_size as value from pragma_page_count(), pragma_page_size()`,
    rows: (table: string) => sql`select max(_rowid_) as value from ${raw(table)} ${everyTenant}`,
  },
  postgres: {
    bytes: sql`select pg_database_size(current_database()) as value`,
    rows: (table: string) =>
      sql`select greatest(reltuples, 0)::bigint as value from pg_class where oid = ${raw(`'${table}'`)}::regclass`,
  },
};

/** Rows that expire soon are counted up to this number. */
const maxCounted = 10_000;

/** Each query reads a bounded number of rows from an index. */
export async function readGauges(db: Db): Promise<Gauges> {
  const { bytes, rows } = sizes[db.dialect];
  const counts: Record<string, number> = {};
  for (const table of tables) counts[table] = await numberIn(db, rows(table));
  const { sealed, unsealed } = await logGauges(db);
  counts.audit = sealed;
  const oldestExpired = await numberIn(
    db,
    sql`
    select :now - min(expires_at) as value from
       (select min(expires_at) as expires_at from sessions union all
        select min(expires_at) as expires_at from tokens where expires_at is not null) as expiries ${everyTenant}`,
  );
  const expiring = (table: string, and = '') =>
    numberIn(
      db,
      sql`
      select count(*) as value from (select 1 as one from ${raw(table)}
         where expires_at > :now and expires_at <= :now + ${week} ${raw(and)}
         limit ${maxCounted}) as expiring ${everyTenant}`,
    );
  return {
    bytes: await numberIn(db, bytes),
    rows: counts,
    expiring: await expiring('applications'),
    expiringKeys: await expiring('application_keys', 'and trust is null'),
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
