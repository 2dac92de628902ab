import { applications } from './applications.ts';
import { auditLog } from './audit/log.ts';
import { credentials } from './credentials.ts';
import { rotateMasterKey } from './crypto/key-rotation.ts';
import { bindMasterKey, type Keyring, keyring, type MasterKeys } from './crypto/keyring.ts';
import { type Db, DbUnavailable } from './engine/db.ts';
import { type Instrumented, instrument } from './engine/instrumented-db.ts';
import { type Migrated, migrate, NoSchema, schemaOf } from './engine/migrate.ts';
import { openPostgres } from './engine/postgres.ts';
import { analyzeGrownTables } from './engine/postgres-analyze.ts';
import { openSqlite } from './engine/sqlite.ts';
import { readGauges } from './gauges.ts';
import { applicationKeys } from './keys.ts';
import { sessions } from './sessions.ts';
import type { Store } from './store.ts';
import { sweep } from './sweep.ts';
import { createFirst, removeSome, tenants } from './tenants.ts';
import { tokens } from './tokens.ts';
import { changes } from './transaction-scope.ts';
import { usage } from './usage.ts';

export interface OpenOptions {
  /** Replaces the deciding clock, which is the machine's for SQLite and the database's for PostgreSQL. */
  readonly clock?: (() => number) | undefined;
  /** Is told how long each statement took. */
  readonly timing?: ((operation: string, seconds: number) => void) | undefined;
  /** Of a request to PostgreSQL, in milliseconds. */
  readonly timeout?: number | undefined;
  /** Without them there are no Tokens, and nothing that the audit log tells of can be changed. */
  readonly masters?: MasterKeys | undefined;
  /** Refuses a database with nothing in it, where the schema would be made otherwise. */
  readonly existing?: boolean | undefined;
  /** Holds off whoever else would use a SQLite database, and throws `InUse` if somebody does. */
  readonly alone?: boolean | undefined;
  /** Puts something between the store and its database, which is opened and up to date by then. */
  readonly through?: ((db: Db) => Db) | undefined;
}

/** What operator tools need beside the store. */
export interface StoreParts {
  readonly db: Db;
  readonly masters: MasterKeys;
  readonly chainKeys: Keyring['ofChain'];
}

export interface OpenedStore {
  readonly store: Store;
  readonly migrated: Migrated;
  readonly parts: StoreParts;
}

/** Opens `sqlite:PATH` or `postgres://…`, migrates the schema and checks the master key. */
export async function openStore(
  url: string,
  { clock, timeout, masters, timing, existing, alone, through = (db) => db }: OpenOptions = {},
): Promise<OpenedStore> {
  const db = url.startsWith('sqlite:')
    ? openSqlite(url.slice('sqlite:'.length), clock ?? Date.now, alone)
    : openPostgres(url, clock, timeout);
  try {
    if (existing && (await schemaOf(db)) === 0) throw new NoSchema('the database is empty');
    const migrated = await migrate(db);
    if (masters) await bindMasterKey(db, masters);
    const between = through(db);
    const watched = timing ? instrument(between, timing) : { db: between, inFlight: () => 0 };
    const keys = keyring(watched.db, masters ?? noMasters);
    if (masters) await keys.ofChain();
    const parts = { db: watched.db, masters: masters ?? noMasters, chainKeys: keys.ofChain };
    return { migrated, store: storeOn(watched, masters ?? noMasters, keys), parts };
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

function storeOn({ db, inFlight }: Instrumented, masters: MasterKeys, keys: Keyring): Store {
  return {
    applications: applications(db),
    keys: applicationKeys(db),
    usage: usage(db),
    sessions: sessions(db),
    tokens: tokens(db, keys),
    credentials: credentials(db),
    tenants: {
      ...tenants(db),
      createFirst: async (tenant, prepare) => createFirst(db, tenant, await keys.ofChain(), prepare),
      removeSome: (tenant, limit) => removeSome(db, tenant, limit),
    },
    audit: auditLog(db, keys.ofChain),
    change: changes(db, keys),
    rotateMasterKey: (rotation) => rotateMasterKey(db, masters, rotation),
    sweep: async (limit) => {
      const removed = await sweep(db, limit);
      if (removed < limit) await keys.forget();
      return removed;
    },
    renewStatistics: analyzeGrownTables(db),
    gauges: async () => {
      mustNotBeLost(db);
      return readGauges(db);
    },
    inFlight,
    ping: async () => {
      mustNotBeLost(db);
      await db.lookup('select digest as key from application_keys where digest = :key', new Uint8Array(32));
    },
    close: () => db.close(),
  };
}

function mustNotBeLost({ local }: Db): void {
  const lost = local?.lost();
  if (lost !== undefined) throw new DbUnavailable(lost);
}
