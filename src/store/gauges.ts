import type { Db, DbTime } from './engine/db.ts';
import type { Gauges } from './maintenance.ts';

const tables = ['applications', 'sessions', 'tokens', 'audit'] as const;
const week = 7 * 86_400_000;

/** Cheap enough for every scrape: no query scans a whole table. */
export async function readGauges(db: Db): Promise<Gauges> {
  const [bytes, rows] = await (db.dialect === 'sqlite' ? sqliteSizes(db) : postgresSizes(db));
  const expiring = await number(
    db,
    'select count(*) as value from applications where expires_at > :now and expires_at <= :now + $1',
    [week],
  );
  const oldestExpired = await number(
    db,
    `select :now - min(expires_at) as value from
       (select min(expires_at) as expires_at from sessions union all
        select min(expires_at) as expires_at from tokens) as expiries`,
  );
  const unchained = await number(
    db,
    'select count(*) as value from (select 1 as one from audit where seq is null limit 10000) as waiting',
  );
  return { bytes, rows, expiring, sweepLag: Math.max(0, oldestExpired / 1000), unchained };
}

async function number(db: Db, sql: string, params: number[] = []): Promise<number> {
  const row = await db.get<{ value: DbTime | null }>(sql, params);
  return Number(row?.value ?? 0);
}

type Sizes = [bytes: number, rows: Record<string, number>];

/** Uses the highest row number as an estimate of the number of rows. */
async function sqliteSizes(db: Db): Promise<Sizes> {
  const bytes = await number(
    db,
    'select page_count * page_size as value from pragma_page_count(), pragma_page_size()',
  );
  const rows: Record<string, number> = {};
  for (const table of tables) rows[table] = await number(db, `select max(_rowid_) as value from ${table}`);
  return [bytes, rows];
}

/** As of the last `analyze`. */
async function postgresSizes(db: Db): Promise<Sizes> {
  const bytes = await number(db, 'select pg_database_size(current_database()) as value');
  const rows: Record<string, number> = {};
  for (const table of tables) {
    const sql = `select greatest(reltuples, 0)::bigint as value from pg_class where oid = '${table}'::regclass`;
    rows[table] = await number(db, sql);
  }
  return [bytes, rows];
}
