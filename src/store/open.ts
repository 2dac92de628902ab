import { applications } from './applications.ts';
import { credentials } from './credentials.ts';
import { type Db, skipLocked } from './db.ts';
import { bindMasterKey, keyring, type MasterKeys, rotateMasterKey } from './keyring.ts';
import { type Migrated, migrate } from './migrate.ts';
import { openPostgres } from './postgres.ts';
import { sessions } from './sessions.ts';
import { openSqlite } from './sqlite.ts';
import type { Store } from './store.ts';
import { tenants } from './tenants.ts';
import { tokens } from './tokens.ts';

export interface OpenOptions {
  /** Replaces the deciding clock, which is the machine's for SQLite and the database's for PostgreSQL. */
  readonly clock?: (() => number) | undefined;
  /** Without them, everything but Tokens can be used. */
  readonly masters?: MasterKeys | undefined;
}

/** `sqlite:PATH` or `postgres://…`, with its schema brought up to date and its master key checked. */
export async function openStore(
  url: string,
  { clock, masters }: OpenOptions = {},
): Promise<{ store: Store; migrated: Migrated }> {
  const db = url.startsWith('sqlite:')
    ? openSqlite(url.slice('sqlite:'.length), clock ?? Date.now)
    : openPostgres(url, clock);
  try {
    const migrated = await migrate(db);
    if (masters) await bindMasterKey(db, masters);
    return { migrated, store: storeOn(db, masters ?? noMasters) };
  } catch (error) {
    await db.close().catch(() => {});
    throw error;
  }
}

const noMasters: MasterKeys = {
  current: () => {
    throw new Error('this store was opened without a master key');
  },
  find: () => undefined,
};

function storeOn(db: Db, masters: MasterKeys): Store {
  return {
    applications: applications(db),
    sessions: sessions(db),
    credentials: credentials(db),
    tokens: tokens(db, keyring(db, masters)),
    tenants: tenants(db),
    rotateMasterKey: (to) => rotateMasterKey(db, masters, to),
    sweep: async (limit) => {
      let removed = 0;
      for (const table of ['sessions', 'tokens', 'applications'] as const)
        removed += await removeExpired(db, table, limit);
      return removed;
    },
    ping: async () => {
      await db.get('select 1 as one');
    },
    close: () => db.close(),
  };
}

const primaryKeys = {
  sessions: 'tenant_id, application_id, id',
  tokens: 'tenant_id, seq',
  applications: 'tenant_id, id',
};

async function removeExpired(db: Db, table: keyof typeof primaryKeys, limit: number): Promise<number> {
  const key = primaryKeys[table];
  return db.run(
    `delete from ${table} where (${key}) in
       (select ${key} from ${table} where expires_at <= (select :now) order by expires_at limit $1 ${skipLocked(db)})`,
    [limit],
  );
}
