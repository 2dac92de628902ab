/** Deletes rows that no read returns any more: expired rows, and rows of deleted applications. */
import { type Db, rowLock } from './engine/db.ts';
import { primaryKeys } from './tables.ts';
import { deleteTokens } from './token-storage.ts';

/** Removes at most `limit` rows of each kind and returns how many. Rows that another transaction has locked are skipped. */
export async function sweep(db: Db, limit: number): Promise<number> {
  let removed = 0;
  for (const table of ['idempotency', 'sessions'] as const) removed += await removeExpired(db, table, limit);
  removed += await db.transaction((tx) => deleteTokens(tx, db.dialect, expired(db, 'tokens'), [limit]));
  removed += await removeOrphanedSessions(db, limit);
  return removed + (await removeExpired(db, 'applications', limit, `and ${someSession} is null`));
}

/** A scalar subquery, because PostgreSQL would turn `exists` into a join that reads all sessions. */
const someSession = `(select 1 from sessions s
  where s.tenant_id = applications.tenant_id and s.application_id = applications.id limit 1)`;

type Table = 'idempotency' | 'sessions' | 'tokens' | 'applications';

const expired = (db: Db, table: Table, also = '') =>
  `delete from ${table} where (${primaryKeys[table]}) in
     (select ${primaryKeys[table]} from ${table} where expires_at <= (select :now) ${also}
      order by expires_at limit $1 ${rowLock(db, 'for update skip locked')})`;

async function removeExpired(db: Db, table: Table, limit: number, also?: string): Promise<number> {
  return db.run(expired(db, table, also), [limit]);
}

/** Deletes sessions before their application, whose foreign key would delete all of them in one statement. */
async function removeOrphanedSessions(db: Db, limit: number): Promise<number> {
  const ended = await db.all<{ tenant_id: string; id: string; session: number | null }>(
    `select tenant_id, id, ${someSession} as session from applications
     where expires_at <= (select :now) order by expires_at limit $1`,
    [limit],
  );
  let removed = 0;
  for (const { tenant_id, id, session } of ended) {
    if (session === null) continue;
    if (removed >= limit) break;
    removed += await db.run(
      `delete from sessions where (tenant_id, id) in
         (select tenant_id, id from sessions where tenant_id = $1 and application_id = $2
          limit $3 ${rowLock(db, 'for update skip locked')})`,
      [tenant_id, id, limit - removed],
    );
  }
  return removed;
}
