import { applications } from './applications.ts';
import { credentials } from './credentials.ts';
import { type Db, skipLocked } from './db.ts';
import { type Migrated, migrate } from './migrate.ts';
import { openPostgres } from './postgres.ts';
import { sessions } from './sessions.ts';
import { openSqlite } from './sqlite.ts';
import type { Store } from './store.ts';
import { tenants } from './tenants.ts';

/**
 * `sqlite:PATH` or `postgres://…`, with its schema brought up to date. `clock` replaces the deciding clock,
 * which is the machine's for SQLite and the database's for PostgreSQL.
 */
export async function openStore(
  url: string,
  clock?: () => number,
): Promise<{ store: Store; migrated: Migrated }> {
  const db = url.startsWith('sqlite:')
    ? openSqlite(url.slice('sqlite:'.length), clock ?? Date.now)
    : openPostgres(url, clock);
  try {
    return { migrated: await migrate(db), store: storeOn(db) };
  } catch (error) {
    await db.close().catch(() => {});
    throw error;
  }
}

function storeOn(db: Db): Store {
  return {
    applications: applications(db),
    sessions: sessions(db),
    credentials: credentials(db),
    tenants: tenants(db),
    sweep: async (limit) =>
      (await removeExpired(db, 'sessions', limit)) + (await removeExpired(db, 'applications', limit)),
    ping: async () => {
      await db.get('select 1 as one');
    },
    close: () => db.close(),
  };
}

async function removeExpired(db: Db, table: 'sessions' | 'applications', limit: number): Promise<number> {
  const key = table === 'sessions' ? 'tenant_id, application_id, id' : 'tenant_id, id';
  return db.run(
    `delete from ${table} where (${key}) in
       (select ${key} from ${table} where expires_at <= (select :now) order by expires_at limit $1 ${skipLocked(db)})`,
    [limit],
  );
}
