/** Opens a store: connects to the database, adds instrumentation, and creates the repositories. */
import { auditSource } from '../audit/delivery.ts';
import { auditLog, growingTables, logMaintenance, type OpenLog, openAuditLog } from '../audit/log.ts';
import { proof } from '../audit/proof.ts';
import type { KnownPositions } from '../domain/database-position.ts';
import { nilTenant } from '../domain/key.ts';
import { applications } from './applications.ts';
import { copyToPostgres } from './copy-to-postgres.ts';
import { credentials } from './credentials.ts';
import { rotateMasterKey } from './crypto/key-rotation.ts';
import {
  bindMasterKey,
  currentMaster,
  type Keyring,
  keyring,
  type MasterKeys,
  missingReason,
} from './crypto/keyring.ts';
import { type Db, DbUnavailable } from './engine/db.ts';
import { type Instrumented, instrument, type Timing } from './engine/instrumented-db.ts';
import {
  IncompatibleSchema,
  type Migrated,
  migrate,
  NoSchema,
  newestSchema,
  schemaOf,
} from './engine/migrate.ts';
import { openPostgres } from './engine/postgres.ts';
import { analyzeGrownTables } from './engine/postgres-analyze.ts';
import { openSqlite } from './engine/sqlite.ts';
import { writeExpiryNotices } from './expiry-notices.ts';
import { readGauges } from './gauges.ts';
import { applicationKeys } from './keys.ts';
import { keyRevoker } from './leaked-keys.ts';
import type { Maintenance } from './maintenance.ts';
import { nodes } from './nodes.ts';
import { listExpiring } from './operator-queries.ts';
import { lookUpRevived, repeatRevocations } from './recovery.ts';
import { requestCounts } from './request-counts.ts';
import { sessions } from './sessions.ts';
import type { Store } from './store.ts';
import { subjects } from './subjects.ts';
import { removeTenantRows, sweep } from './sweep.ts';
import { createFirst, tenants, tenantTags } from './tenants.ts';
import { tokens } from './tokens.ts';
import { type TransactionRunner, transactionRunner } from './transaction-scope.ts';
import { usage } from './usage.ts';

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
    onStep = () => {},
    through = (db) => db,
  }: OpenOptions = {},
): Promise<OpenedStore> {
  const opened = url.startsWith('sqlite:')
    ? openSqlite(url.slice('sqlite:'.length), clock ?? Date.now, exclusive)
    : openPostgres(url, clock, timeout, maxConnections, positions);
  try {
    onStep('a connection to the database');
    const schema = await schemaOf(opened);
    if (existing && schema === 0) throw new NoSchema('the database is empty');
    if (readOnly && schema < newestSchema)
      throw new IncompatibleSchema(`the database has the older schema ${schema}`, 'run `sallyport migrate`');
    onStep('the migration of the database, by this process or by another one that holds the lock');
    const migrated = await migrate(opened);
    onStep('the master key, which another process may be rotating');
    if (masters !== noMasters) await bindMasterKey(opened, masters, readOnly);
    const wrapped = through(opened);
    const instrumented = timing ? instrument(wrapped, timing) : { db: wrapped, inFlight: () => 0 };
    const { db } = instrumented;
    const keys = keyring(db, masters);
    if (masters !== noMasters && !readOnly) await keys.chainKeys();
    const log = openAuditLog(db, keys.chainKeys);
    const run = transactionRunner(db, keys, log.writeEntries);
    const checkReady = () => checkReadiness(db, masters === noMasters ? undefined : masters);
    const store = storeOn(db, keys, run, log, checkReady);
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
  checkReady: () => Promise<void>,
): Store {
  const tags = tenantTags(db);
  return {
    applications: applications(db),
    keys: applicationKeys(db),
    usage: usage(db),
    requestCounts: requestCounts(db),
    sessions: sessions(db),
    subjects: subjects(db),
    tokens: tokens(db, keys.dataKey),
    credentials: credentials(db, tags),
    tenants: tenants(db),
    audit: auditLog(log),
    change: run,
    revokeKey: keyRevoker(db, tags, keys.chainKeys, log.writeEntries),
    ping: async () => {
      checkFileInPlace(db);
      await checkReady();
    },
  };
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
  return {
    tenants: tenants(db),
    audit: { ...logMaintenance(log), ...proof(log, masters, sinks.deliveries) },
    sinks,
    nodes: nodes(db),
    changeTenants: (work) => run(undefined, work),
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
 * on a standby and on a read-only database.
 */
async function checkReadiness(db: Db, masters: MasterKeys | undefined): Promise<void> {
  await db.lookup(
    'select digest as key from application_keys where tenant_id = $2 and digest = :key',
    new Uint8Array(32),
    [nilTenant],
  );
  if (masters) await checkCurrentMaster(db, masters);
}

/** After a rotation, a node without the new master key cannot unwrap data keys. */
async function checkCurrentMaster(db: Db, masters: MasterKeys): Promise<void> {
  const id = await currentMaster(db);
  if (!masters.find(id))
    throw new DbUnavailable(`the database needs the master key ${id}, ${missingReason(masters)}`);
}
