/** Opens a store: connects to the database, adds instrumentation, and creates the repositories. */

import { auditSource } from '../audit/delivery.ts';
import {
  auditLog,
  type EntryWriter,
  growingTables,
  logMaintenance,
  type OpenLog,
  openAuditLog,
} from '../audit/log.ts';
import { proof, signReport } from '../audit/proof.ts';
import { moveTenantRows } from '../db/citus.ts';
import {
  alone,
  type Db,
  DbUnavailable,
  type Entity,
  type Executor,
  type Queries,
  type Transaction,
} from '../db/db.ts';
import { rotateMasterKey } from '../db/keys/key-rotation.ts';
import {
  bindMasterKey,
  currentMaster,
  type Keyring,
  keyring,
  type MasterKeys,
  missingReason,
} from '../db/keys/keyring.ts';
import {
  compatibleSchema,
  IncompatibleSchema,
  type Migrated,
  migrate,
  NoSchema,
  newestSchema,
} from '../db/migrate.ts';
import { openPostgres } from '../db/postgres/postgres.ts';
import { openSqlite } from '../db/sqlite/sqlite.ts';
import { sql } from '../db/statement.ts';
import type { Awaitable } from '../domain/awaitable.ts';
import type { KnownPositions } from '../domain/database-position.ts';
import { applications } from './applications.ts';
import { copyToPostgres } from './copy-to-postgres.ts';
import { credentials } from './credentials.ts';
import { destinations } from './destinations.ts';
import { readGauges } from './gauges.ts';
import { idempotency } from './idempotency.ts';
import {
  applicationKeys,
  keyRevoker,
  logoutTokens,
  personSessions,
  signInTargets,
  workloadTargets,
} from './keys.ts';
import type { Maintenance, Settings, TenantTransaction } from './maintenance.ts';
import { nodes } from './nodes.ts';
import { listExpiring } from './operator-queries.ts';
import { lookUpRevived, repeatRevocations } from './recovery.ts';
import { sessions } from './sessions.ts';
import type { Store, StoreTransaction } from './store.ts';
import { subjects } from './subjects.ts';
import { analyzeGrownTables, removeTenantRows, sweep, writeExpiryNotices } from './sweep.ts';
import { tenantMoves } from './tenant-move.ts';
import { byTag, createFirst, type TenantTags, tenants, tenantTags } from './tenants.ts';
import { reindexTokens } from './token-search.ts';
import { tokens } from './tokens.ts';
import { requestCounts, usage } from './usage.ts';

export interface OpenOptions {
  /** Replaces the clock that decides on expiry: the machine's on SQLite, the database's on PostgreSQL. */
  readonly clock?: (() => number) | undefined;
  /** Receives the duration of each statement and transaction. */
  readonly timing?: Timing | undefined;
  /** Timeout of one read or transaction on PostgreSQL, in milliseconds. */
  readonly timeout?: number | undefined;
  /** PostgreSQL servers that are behind these positions are refused. */
  readonly positions?: KnownPositions | undefined;
  /** The maximum number of PostgreSQL connections. */
  readonly maxConnections?: number | undefined;
  /** If absent, reading or writing tokens and every audited change fails. */
  readonly masters?: MasterKeys | undefined;
  /** Throws `NoSchema` if the database is empty, instead of creating the schema. */
  readonly existing?: boolean | undefined;
  /** Changes nothing: neither migrates the schema, nor creates missing keys. Only with `existing`. */
  readonly readOnly?: boolean | undefined;
  /** Bytes that are reserved for essential changes to a SQLite database on a full disk. By default none. */
  readonly reserved?: number | undefined;
  /** Locks a SQLite database for this process alone. Throws `InUse` if another process has it open. */
  readonly exclusive?: boolean | undefined;
  /** Called before each step that may take long, with a description of what the start waits for. */
  readonly onStep?: ((waitingFor: string) => void) | undefined;
  /** Wraps the database after the migration. */
  readonly through?: ((db: Db) => Db) | undefined;
}

export interface OpenedStore {
  readonly store: Store;
  readonly maintenance: Maintenance;
  readonly migrated: Migrated;
  close(): Promise<void>;
}

/**
 * Opens `sqlite:PATH` or `postgres://…`, migrates the schema and checks the master key. Throws `IncompatibleSchema` or
 * `WrongMasterKey` if the database cannot be used.
 */
export async function openStore(
  url: string,
  {
    clock,
    timeout,
    maxConnections,
    positions,
    masters = noMasters,
    timing,
    existing,
    readOnly = false,
    exclusive,
    reserved,
    onStep = () => {},
    through = (db) => db,
  }: OpenOptions = {},
): Promise<OpenedStore> {
  const opened = url.startsWith('sqlite:')
    ? openSqlite(url.slice('sqlite:'.length), clock ?? Date.now, exclusive, reserved)
    : openPostgres(url, clock, timeout, maxConnections, positions);
  try {
    onStep('a connection to the database');
    const schema = await compatibleSchema(opened);
    if (existing && schema === 0) throw new NoSchema('the database is empty');
    if (readOnly && schema < newestSchema)
      throw new IncompatibleSchema(`the database has the older schema ${schema}`, 'run `sallyport migrate`');
    onStep('the migration of the database, by this process or by another one that holds the lock');
    const migrated = readOnly ? { from: schema, to: schema } : await migrate(opened);
    onStep('the master key, which another process may be rotating');
    if (masters !== noMasters) await bindMasterKey(opened, masters, readOnly);
    const wrapped = through(opened);
    const instrumented = timing ? instrument(wrapped, timing) : { db: wrapped, inFlight: () => 0 };
    const { db } = instrumented;
    const keys = keyring(db, masters);
    if (masters !== noMasters && !readOnly) await keys.chainKeys();
    const log = openAuditLog(db, keys.chainKeys);
    const tags = tenantTags(db);
    const credentialsOn = credentials(tags);
    const { of } = (await db.isDistributed?.()) ? db : {};
    const run = transactionRunner(db, keys, log, credentialsOn);
    const checkReady = () => checkReadiness(db, masters === noMasters ? undefined : masters);
    const store = storeOn({ ...db, of }, keys, run, log, tags, credentialsOn(db), checkReady);
    const maintenance = maintenanceOn(instrumented, masters, keys, run, log);
    return { store, maintenance, migrated, close: () => db.close() };
  } catch (error) {
    await opened.close().catch(() => {});
    throw error;
  }
}

const noMasters: MasterKeys = {
  current: () => {
    throw new Error('this store was opened without a master key');
  },
  find: () => undefined,
  ids: () => [],
};

function storeOn(
  db: Db,
  keys: Keyring,
  run: TransactionRunner,
  log: OpenLog,
  tags: TenantTags,
  found: Store['credentials'],
  checkReady: () => Promise<void>,
): Store {
  return {
    applications: perTenant(db, applications),
    keys: perTenant(db, applicationKeys),
    usage: { ...perTenant(db, usage), write: usage(db).write },
    requestCounts: { ...perTenant(db, requestCounts), add: requestCounts(db).add },
    sessions: perTenant(db, sessions),
    subjects: perTenant(db, subjects),
    tokens: perTenant(db, (of) => tokens(of, keys.dataKey)),
    destinations: perTenant(db, (of) => destinations(of, keys.dataKey)),
    credentials: found,
    tenants: tenants(db),
    audit: { ...perTenant(db, (of) => auditLog({ ...log, db: of })), write: auditLog(log).write },
    change: run,
    durable: async () => db.local?.durable(),
    revokeKey: keyRevoker(db, tags, keys, log.writeChanges),
    findWorkloadTarget: workloadTargets(db, tags),
    findSignInTargets: signInTargets(db, tags),
    findPersonSessions: personSessions(db),
    spendLogout: logoutTokens(db),
    ping: async () => {
      checkFileInPlace(db);
      await checkReady();
      return { isDiskFull: db.local?.isDiskFull() ?? false };
    },
  };
}

/** On a cluster, each method uses the server of the tenant, its first argument. */
function perTenant<R extends object>(db: Db, make: (db: Db) => R): R {
  const { of } = db;
  if (!of) return make(db);
  const method =
    (name: string) =>
    (tenant: string, ...rest: unknown[]) =>
      (make(of(tenant))[name as keyof R] as (...args: unknown[]) => unknown)(tenant, ...rest);
  return Object.fromEntries(Object.keys(make(db)).map((name) => [name, method(name)])) as R;
}

function maintenanceOn(
  { db, inFlight }: Instrumented,
  masters: MasterKeys,
  keys: Keyring,
  run: TransactionRunner,
  log: OpenLog,
): Maintenance {
  const sinks = auditSource(log);
  const { writeEntries } = log;
  const audit = { ...logMaintenance(log), ...proof(log, masters, sinks.deliveries) };
  return {
    tenants: tenants(db),
    audit,
    moves: tenantMoves({ db, keys, masters, audit }),
    moveToServer: async (...move) => {
      const from = await moveTenantRows(db, ...move);
      await migrate(db);
      return from;
    },
    sinks,
    nodes: nodes(db),
    changeTenants: (work) => run(undefined, work, undefined, 'essential'),
    createFirstTenant: async (tenant, prepare) => createFirst(db, tenant, writeEntries, prepare),
    removeTenantRows: (id, limit) => removeTenantRows(db, id, limit),
    rotateMasterKey: (rotation) => rotateMasterKey(db, masters, rotation),
    currentMasterKey: () => currentMaster(db),
    nextMasterKey: (rotation) =>
      db.exclusively(async (tx) => {
        const current = await currentMaster(tx);
        return { current, next: rotation.next(current).id };
      }),
    copyFrom: (source, options) => copyToPostgres(source, db, options),
    lookUpRevived: (rows) => lookUpRevived(db, rows),
    repeatRevocations: (...args) => repeatRevocations(db, writeEntries, ...args),
    expiring: (within, limit) => listExpiring(db, within, limit),
    sweep: async (limit) => {
      const removed = await sweep(db, writeEntries, limit);
      if (removed < limit) await keys.forget();
      return removed;
    },
    writeExpiryNotices: (limit) => writeExpiryNotices(db, writeEntries, limit),
    reindexSearch: () => reindexTokens(db, keys.dataKey),
    analyzeTables: analyzeGrownTables(db, growingTables),
    gauges: async () => {
      checkFileInPlace(db);
      return readGauges(db);
    },
    inFlight,
    masters,
    chainKeys: keys.chainKeys,
  };
}

function checkFileInPlace({ local }: Db): void {
  const problem = local?.fileProblem();
  if (problem !== undefined) throw new DbUnavailable(problem);
}

/**
 * Throws `DbUnavailable` if requests would fail. `masters` is undefined for a store without encryption. A lookup fails
 * on a standby and on a read-only database. Every server of a Citus cluster has a copy of the table, so the loss of a
 * worker does not matter here.
 */
async function checkReadiness(db: Db, masters: MasterKeys | undefined): Promise<void> {
  await db.lookup(byTag, '');
  if (masters) await checkCurrentMaster(db, masters);
}

/** After a rotation, a node without the new master key cannot unwrap data keys. */
async function checkCurrentMaster(db: Db, masters: MasterKeys): Promise<void> {
  const id = await currentMaster(db);
  if (!masters.find(id))
    throw new DbUnavailable(`the database needs the master key ${id}, ${missingReason(masters)}`);
}

type TransactionScope = StoreTransaction & TenantTransaction;

/** See `Store.change`. Without a tenant, tokens and idempotency records cannot be used. */
type TransactionRunner = <T>(
  tenant: string | undefined,
  work: (scope: TransactionScope) => Promise<T>,
  entity?: Entity,
  manner?: 'essential' | 'alone',
) => Promise<T>;

function transactionRunner(
  db: Db,
  keys: Keyring,
  { writeEntries, writeChanges }: Pick<OpenLog, 'writeEntries' | 'writeChanges'>,
  credentialsOn: ReturnType<typeof credentials>,
): TransactionRunner {
  function scopeOf(
    tx: Transaction,
    dataKey: (tenant: string) => Uint8Array,
    write: EntryWriter,
  ): TransactionScope {
    const transaction = <T>(work: (tx: Queries) => Awaitable<T>) => work(tx) as Promise<T>;
    const executor: Executor = { ...tx, transaction };
    const awaitedKey = async (tenant: string) => dataKey(tenant);
    // Repositories are created on access, because most changes need only one of them.
    return {
      get applications() {
        return applications(executor);
      },
      get keys() {
        return applicationKeys(executor);
      },
      get credentials() {
        return credentialsOn(executor);
      },
      get sessions() {
        return sessions(executor);
      },
      get tokens() {
        return tokens(executor, awaitedKey);
      },
      get destinations() {
        return destinations(executor, awaitedKey);
      },
      get tenants() {
        return tenants(executor);
      },
      get settings() {
        return settings(executor);
      },
      get idempotency() {
        return idempotency(executor, dataKey);
      },
      record: (entry) => {
        tx.defer(write, entry);
      },
      signReport: async (report) => signReport(executor, await keys.chainKeys(), report),
    };
  }

  return async (tenant, work, entity, manner) => {
    await keys.chainKeys();
    const key = tenant === undefined ? undefined : await keys.prepareDataKey(tenant);
    const dataKey = (requested: string) => {
      if (!key || requested !== tenant) throw new Error('this change was started for another tenant');
      return key();
    };
    // Without a tenant, an operator makes the change.
    const write = tenant === undefined ? writeEntries : writeChanges;
    const changed = manner === 'alone' ? alone : entity;
    return db.change((tx) => work(scopeOf(tx, dataKey, write)), changed, tenant, manner === 'essential');
  };
}

function settings(db: Pick<Queries, 'get' | 'run' | 'returning'>): Settings {
  return {
    replace: async (name, value, at) => {
      const before = await db.get<{ value: string }>(sql`select value from settings where name = ${name}`);
      // Compares again, because another node may have stored a value since.
      const [changed] = await db.returning<{ name: string }>(sql`
        insert into settings (name, value) values (${name}, ${value})
         on conflict (name) do update set value = excluded.value where settings.value <> excluded.value
         returning name`);
      if (!changed) return undefined;
      await db.run(sql`insert into setting_changes (name, at, value) values (${name}, ${at}, ${value})
        on conflict (name, at) do update set value = excluded.value`);
      return { from: before?.value };
    },
  };
}

interface Instrumented {
  readonly db: Db;
  readonly inFlight: () => number;
}

/** Receives the duration of a call, and the error if it failed. */
type Timing = (operation: string, seconds: number, error?: unknown) => void;

/** Measures the duration of every call and passes it to `note`. */
function instrument(opened: Db, note: Timing): Instrumented {
  let inFlight = 0;

  function watch<T>(operation: string, work: () => Awaitable<T>): Awaitable<T> {
    const start = performance.now();
    const done = (error?: unknown) => note(operation, (performance.now() - start) / 1000, error);
    const failed = (error: unknown) => {
      done(error);
      throw error;
    };
    let result: Awaitable<T>;
    try {
      result = work();
    } catch (error) {
      return failed(error);
    }
    if (!(result instanceof Promise)) {
      done();
      return result;
    }
    inFlight += 1;
    return result
      .finally(() => {
        inFlight -= 1;
      })
      .then((value) => {
        done();
        return value;
      }, failed);
  }

  const instrumented = (db: Db): Db => ({
    ...db,
    get: (statement) => watch('get', () => db.get(statement)),
    all: (statement) => watch('all', () => db.all(statement)),
    run: (statement) => watch('run', () => db.run(statement)),
    returning: (statement) => watch('run', () => db.returning(statement)),
    lookup: (...wanted) => watch('lookup', () => db.lookup(...wanted)),
    transaction: (work, tenant) =>
      watch('transaction', () => db.transaction(work, tenant)) as Promise<Awaited<ReturnType<typeof work>>>,
    change: (work, entity, tenant, isEssential) =>
      watch('transaction', () => db.change(work, entity, tenant, isEssential)) as Promise<
        Awaited<ReturnType<typeof work>>
      >,
    ...(db.of && { of: (tenant: string) => instrumented(db.of?.(tenant) as Db) }),
  });
  return { inFlight: () => inFlight, db: instrumented(opened) };
}
