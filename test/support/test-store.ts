/** Opens the store without HTTP, on one or several nodes, and creates the rows that tests start from. */
import { Database as Sqlite } from 'bun:sqlite';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Db } from '../../src/db/db.ts';
import { parseMasterKeys } from '../../src/db/keys/cipher.ts';
import type { MasterKeys } from '../../src/db/keys/keyring.ts';
import { applicationKinds, type Kind, type Minted, mint, newId } from '../../src/domain/key.ts';
import { newTenant } from '../../src/operations/bootstrap.ts';
import type { Maintenance } from '../../src/store/maintenance.ts';
import { type OpenedStore, type OpenOptions, openStore } from '../../src/store/open.ts';
import type { NewApplication, NewSession, Store } from '../../src/store/store.ts';
import { closeLater } from './cleanup.ts';
import { checkTenants, wrapped } from './tenant-statements.ts';
import {
  Clock,
  type Database,
  fewConnections,
  generousTimeout,
  runPostgres,
  testMasterKey,
} from './test-server.ts';

export interface TestStore {
  readonly store: Store;
  readonly maintenance: Maintenance;
  /** The database below the store, for functions that take one. */
  readonly db: Db;
  readonly clock: Clock;
  readonly url: string;
  /** Opens the same database a second time, like another node. `openStore` documents the arguments. */
  open(masters?: MasterKeys, through?: OpenOptions['through'], timeout?: number): Promise<OpenedStore>;
  /** Like `open`, for tests that need only the store. */
  openNode(...options: Parameters<TestStore['open']>): Promise<Store>;
  /** Creates a tenant and returns its id. Tests that share a database use separate tenants. */
  tenant(): Promise<string>;
  /** A new key of the tenant, which no application has yet. */
  mint(kind: Kind, tenant: string): Minted;
  application(tenant: string, fields?: Partial<NewApplication>): Promise<{ id: string; key: Minted }>;
  session(tenant: string, application: string, fields?: Partial<NewSession>): Promise<CreatedSession>;
  /** Runs SQL on a separate connection. */
  runSql<R>(sql: string): Promise<R[]>;
  close(): Promise<void>;
}

export interface CreatedSession {
  readonly id: string;
  readonly key: Minted;
  readonly nonce: Minted;
}

export const grants = { permissions: ['token:read'], rules: [] };

/** `maxConnections` is for PostgreSQL. Tests of concurrent transactions need more than a few. */
export async function openTestStore(
  database: Database,
  maxConnections: number = fewConnections,
): Promise<TestStore> {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-store-'));
  const url = await database.createMigrated(folder);
  const clock = new Clock();
  const opened: OpenedStore[] = [];
  const databases: Db[] = [];
  const open: TestStore['open'] = async (
    masters = masterKeys(testMasterKey),
    through,
    timeout = generousTimeout,
  ) => {
    const node = await openStore(url, {
      clock: clock.now,
      timeout,
      maxConnections,
      masters,
      through: (db) => {
        const checked = wrapped(db, (each) => checkTenants(through?.(each) ?? each));
        databases.push(checked);
        return checked;
      },
    });
    opened.push(node);
    return node;
  };
  const { store, maintenance } = await open();
  const tags = new Map<string, string>();
  const mintFor = (kind: Kind, tenant: string) => mint(kind, tags.get(tenant) as string);
  return {
    store,
    maintenance,
    db: databases[0] as Db,
    clock,
    url,
    open,
    openNode: async (...options) => (await open(...options)).store,
    tenant: async () => {
      const tenant = newTenant('test', clock.now());
      await maintenance.tenants.create(tenant);
      tags.set(tenant.id, tenant.tag);
      return tenant.id;
    },
    mint: mintFor,
    application: async (tenant, fields) => {
      const application = newApplication(clock.now(), fields);
      const key = mintFor(applicationKinds[application.type], tenant);
      await store.applications.create(tenant, application, key);
      return { id: application.id, key };
    },
    session: async (tenant, applicationId, fields) => {
      const [key, nonce] = [mintFor('ses', tenant), mintFor('non', tenant)];
      const session = newSession(clock.now(), applicationId, key, nonce, fields);
      await store.sessions.create(tenant, session);
      return { id: session.id, key, nonce };
    },
    runSql: (sql) => runSql(url, sql),
    close: closeLater(async () => {
      for (const each of opened) await each.close();
      rmSync(folder, { recursive: true, force: true });
    }),
  };
}

/** Master keys for `openStore`. The first one encrypts. */
export function masterKeys(...keys: string[]): MasterKeys {
  const parsed = parseMasterKeys(keys.join());
  return {
    current: () => parsed[0] as (typeof parsed)[0],
    find: (id) => parsed.find((key) => key.id === id),
    ids: () => parsed.map(({ id }) => id),
  };
}

export function newApplication(now: number, fields: Partial<NewApplication> = {}): NewApplication {
  return {
    id: newId(now),
    name: 'an application',
    type: 'private',
    ...grants,
    createdBy: undefined,
    createdAt: now,
    expiresAt: undefined,
    ...fields,
  };
}

export function newSession(
  now: number,
  applicationId: string,
  key: Minted,
  nonce: Minted,
  fields: Partial<NewSession> = {},
): NewSession {
  return {
    id: newId(now),
    applicationId,
    key: key.digest,
    nonce: nonce.digest,
    createdAt: now,
    expiresAt: now + 180_000,
    ...fields,
  };
}

export async function runSql<R>(url: string, sql: string): Promise<R[]> {
  if (url.startsWith('sqlite:')) {
    const db = new Sqlite(url.slice('sqlite:'.length));
    try {
      db.run('pragma busy_timeout = 5000');
      return db.query(sql).all() as R[];
    } finally {
      db.close();
    }
  }
  return runPostgres(url, sql);
}
