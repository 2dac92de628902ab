/**
 * Checks a database, its clock and the audit log for `doctor`. Writes no data and does not migrate. Opens an undamaged
 * SQLite database in the same way as the service, so that the checked settings are those of the service.
 */
import { auditSource, type SinkState } from '../audit/delivery.ts';
import { newestTimes, type PendingEntries, pendingEntries } from '../audit/log.ts';
import { chainKeysOf, isEmptyLog, checkHeads as verifyHeads } from '../audit/proof.ts';
import { type Config, hasTrustedProxies } from '../config/settings.ts';
import {
  describeMisplaced,
  misplacedOf,
  placementHint,
  readClockDifferences,
  readPlacements,
  readServers,
} from '../db/citus.ts';
import { commandTimeout, type Db, DbUnavailable } from '../db/db.ts';
import { bindMasterKey, currentMaster, type MasterKeys } from '../db/keys/keyring.ts';
import { appliedMigrations, findSchemaProblem, newestSchema, tablesOf, versionOf } from '../db/migrate.ts';
import { openPostgres } from '../db/postgres/postgres.ts';
import { isTimeout } from '../db/postgres/postgres-errors.ts';
import { databaseTime } from '../db/sql.ts';
import { openSqlite } from '../db/sqlite/sqlite.ts';
import { isInUse } from '../db/sqlite/sqlite-lock.ts';
import { timestamp } from '../domain/common-fields.ts';
import { readGauges } from '../store/gauges.ts';
import { type ActiveNode, nodes } from '../store/nodes.ts';
import {
  findBoundSessions,
  findLargestApplication,
  listTooLong,
  readSchemaAccess,
  readServerState,
  readTimeouts,
  type SchemaAccess,
  type Timeouts,
  type TooLong,
} from '../store/operator-queries.ts';
import { type Check, fail, missingHint, ok, startHint, warn } from './check.ts';
import { knownPositions } from './known-positions.ts';
import { masterKeyHint } from './master-key.ts';
import { findFleetProblems } from './node-problems.ts';
import { clockTolerance } from './node-recorder.ts';
import { checkSqliteFile, checkSqliteSettings } from './sqlite-check.ts';

/**
 * `now` is the clock of this machine. `sinks` are the names of the configured sinks. `onStep` receives a description of
 * what the checks wait for. If the schema is not that of this version, checks only the database settings, the schema and
 * the clock.
 */
export async function diagnose(
  config: Config,
  masters: MasterKeys,
  now: () => number,
  sinks: readonly string[] = [],
  onStep: (waitingFor: string) => void = () => {},
): Promise<Check[]> {
  const { databaseUrl: url, databaseTimeout, databaseConnections, tokenBytes } = config;
  onStep('a connection to the database');
  const path = url.startsWith('sqlite:') ? url.slice('sqlite:'.length) : undefined;
  const inUse = path !== undefined && isInUse(path);
  const problems = path === undefined ? [] : checkSqliteFile(path);
  if (problems.some(({ state }) => state === 'fail')) return problems;
  const timeout = Math.max(databaseTimeout, commandTimeout);
  const db =
    path === undefined
      ? openPostgres(url, undefined, timeout, databaseConnections, knownPositions(config))
      : openSqlite(path, now);
  try {
    const settings = path === undefined ? checkPostgres(db, config) : checkSqliteSettings(db, path);
    const engine = [...(await settings), ...problems];
    onStep('answers of the database');
    const schema = await checkSchema(db, config.requireExisting);
    const isCurrent = schema.state === 'ok';
    const cluster = isCurrent ? await checkCluster(db) : [];
    const isUsable = isCurrent && cluster.every(({ state }) => state !== 'fail');
    const clock = await checkClock(db, now, isUsable);
    if (!isUsable) return [...engine, schema, ...cluster, clock];
    const masterKey = await checkMasterKey(db, masters);
    const auditHint = masterKey.state === 'ok' ? verify : keyFirst;
    const { sweepLag } = await readGauges(db);
    return [
      ...engine,
      schema,
      ...cluster,
      clock,
      masterKey,
      ...(await checkNodes(db, config, now, inUse)),
      checkSweep(sweepLag),
      await checkLifetimes(db),
      await checkBoundSessions(db, config),
      await checkStorage(db, tokenBytes),
      checkSealed(await pendingEntries(db, maxCounted + 1)),
      ...(await checkHeads(db, masters, auditHint)),
      ...(await checkSinks(db, masters, sinks)),
    ];
  } finally {
    await db.close();
  }
}

/** Seconds. Expiry times are compared with the clock of the worker, or of the coordinator if the statement goes through it. */
const maxDifference = 2;

/** A server with this many times the mean has most of the load. */
const maxSkew = 2;

/** Checks where the tables are in a Citus cluster. Returns no check if the database is not in one. */
async function checkCluster(db: Db): Promise<Check[]> {
  if (!(await db.isDistributed?.())) return [];
  const failed = (message: string, todo: string) => [fail('cluster', message, todo)];
  const misplaced = misplacedOf(await readPlacements(db, tablesOf('postgres')));
  if (misplaced.length > 0) return failed(describeMisplaced(misplaced), placementHint(misplaced));
  const rows = await readServers(db);
  const inactive = rows.filter(({ active }) => !active).map(({ server }) => server);
  if (inactive.length > 0)
    return failed(
      `${inactive.join(', ')} is not active: requests of its tenants fail with 503`,
      'start it, and activate it with citus_activate_node',
    );
  const clocks = await readClockDifferences(db);
  const lost = clocks.filter(([, seconds]) => seconds === undefined).map(([worker]) => worker);
  if (lost.length > 0)
    return failed(
      `the coordinator cannot connect to ${lost.join(', ')}: requests of its tenants get 503`,
      'start the worker, and check that the coordinator can log in there as this role',
    );
  if (clocks.some(([, seconds = 0]) => Math.abs(seconds) > maxDifference))
    return failed('the clocks of the servers differ by more than two seconds', 'synchronise the clocks');
  const problems = (await db.workerProblems?.()) ?? [];
  if (problems.length > 0)
    return failed(
      `this machine cannot use workers (${problems.join('; ')}): requests of their tenants get 503`,
      'let the role of DATABASE_URL log in to the workers from here, with the same password',
    );
  const shards = rows.reduce((sum, row) => sum + row.shards, 0);
  const bytes = rows.map((row) => row.bytes);
  const mean = bytes.reduce((sum, each) => sum + each, 0) / rows.length;
  const skew = mean > 0 ? Math.max(...bytes) / mean : 1;
  const fullest = `${rows.length} servers, the fullest has ${skew.toFixed(1)} times the mean`;
  const state = `Citus: ${shards} shards on ${rows.length === 1 ? 'one server' : fullest}`;
  return [
    skew > maxSkew
      ? warn('cluster', state, 'run citus_rebalance_start, or `tenants move --worker` for large tenants')
      : ok('cluster', state),
  ];
}

async function checkSchema(db: Db, requireExisting: boolean): Promise<Check> {
  const applied = await appliedMigrations(db);
  const problem = await findSchemaProblem(db, applied);
  if (problem) return fail('schema', problem.message, problem.todo);
  const version = versionOf(applied);
  if (version === newestSchema) return ok('schema', `version ${version}; the hashes of its migrations match`);
  const { missing, mayMigrate } = db.isEmbedded ? onSqlite : await readSchemaAccess(db);
  if (missing !== undefined)
    return fail(
      'schema',
      `the schema ${missing} does not exist, or the role of DATABASE_URL may not use it`,
      'create the schema and grant the role usage on it, or correct `schema` in DATABASE_URL',
    );
  if (version === 0 && requireExisting)
    return fail('schema', 'the database is empty, and SALLYPORT_REQUIRE_EXISTING is true', missingHint);
  return warn(
    'schema',
    `version ${version}; this program needs version ${newestSchema}`,
    mayMigrate
      ? 'run `sallyport migrate`, or start the service'
      : 'run `sallyport migrate` with the URL of the role that owns the tables: the role of DATABASE_URL may not change the schema',
  );
}

const onSqlite: SchemaAccess = { missing: undefined, mayMigrate: true };

const tolerance = 2000;
const setClock =
  'correct the clock: while it is slow, sessions and keys expire too late; if it was fast and is now correct, the next change clears this';
const recheck = 'check that the clock is correct now; expiry times set before may be wrong';

/** Compares the clock that decides on expiry with the clock of this machine and with the times in the audit log. */
async function checkClock(db: Db, machineTime: () => number, hasAuditLog: boolean): Promise<Check> {
  const now = await databaseTime(db);
  const difference = Math.abs(machineTime() - now);
  const { newest, wasFast } = hasAuditLog ? await newestTimes(db, now) : { newest: 0, wasFast: false };
  if (now < newest - tolerance) {
    const message = `the time is ${timestamp(now)}, but the newest audit entry is from ${timestamp(newest)}`;
    return wasFast
      ? warn('clock', `${message}, written while the clock was fast`, recheck)
      : fail('clock', message, setClock);
  }
  if (difference > tolerance)
    return warn(
      'clock',
      `the clocks of this machine and the database are ${Math.round(difference / 1000)} s apart`,
      'synchronize both with the same time servers; expiry uses the clock of the database',
    );
  return ok('clock', `${timestamp(now)} (${db.isEmbedded ? 'this machine' : 'the database'})`);
}

/** A database that is not bound to a master key accepts any. */
async function checkMasterKey(db: Db, masters: MasterKeys): Promise<Check> {
  try {
    await bindMasterKey(db, masters, true);
    return ok('master key', 'decrypts the data keys of the database');
  } catch (error) {
    return fail('master key', (error as Error).message, masterKeyHint);
  }
}

/** Seconds. A longer lag causes a warning. */
const maxSweepLag = 300;

const verify = 'run `sallyport audit verify`, which lists the entries: see docs/operations/audit.md';
const keyFirst = 'provide the correct master key first; the audit log cannot be verified without it';

function checkSweep(lag: number): Check {
  return lag > maxSweepLag
    ? warn('sweep', `the oldest expired row is ${Math.round(lag)} s overdue for removal`, startHint)
    : ok('sweep', 'no expired rows are overdue for removal');
}

/** How many applications and keys a message names, and how many rows are counted. */
const [maxNamed, maxCounted] = [10, 10_000];

const counted = (rows: number) => (rows > maxCounted ? `more than ${maxCounted}` : `${rows}`);

async function checkLifetimes(db: Db): Promise<Check> {
  const tooLong = await listTooLong(db, maxCounted + 1);
  if (tooLong.length === 0) return ok('lifetimes', 'no key exceeds the maximum lifetime of its tenant');
  const named = tooLong.slice(0, maxNamed).map(describe).join(', ');
  const rest = tooLong.length > maxNamed ? ', and others' : '';
  return warn(
    'lifetimes',
    `${counted(tooLong.length)} applications and keys exceed the maximum lifetime of their tenant: ${named}${rest}`,
    'set an expiry with `sallyport apps update`, and replace keys with `sallyport keys create --old-keys-expire-at`',
  );
}

function describe({ id, name, ending }: TooLong): string {
  const application = `"${name}" (${id})`;
  return ending === null ? application : `key …${ending} of ${application}`;
}

/** A proof contains the URL that the browser used. Behind a proxy, the service sees another URL. */
async function checkBoundSessions(db: Db, config: Config): Promise<Check> {
  const { publicUrl } = config;
  if (publicUrl !== undefined) return ok('bound sessions', `proofs must be for ${publicUrl}`);
  if (!hasTrustedProxies(config))
    return ok('bound sessions', 'proofs must be for the URL of the request; no proxy is configured');
  const found = await findBoundSessions(db);
  if (found === false) return ok('bound sessions', 'none exist or are required');
  const subject =
    found === true ? 'bound sessions exist' : `"${found.name}" (${found.id}) requires bound sessions`;
  return warn(
    'bound sessions',
    `${subject}, and SALLYPORT_TRUSTED_PROXIES is set, but SALLYPORT_PUBLIC_URL is not`,
    'set SALLYPORT_PUBLIC_URL to the URL that browsers use: if a proxy changes the scheme, host or path, all proofs are refused',
  );
}

/** The share of an application's storage quota above which `doctor` warns. */
const nearlyFull = 0.8;

async function checkStorage(db: Db, quota: number): Promise<Check> {
  const fullest = await findLargestApplication(db);
  const bytes = fullest?.bytes ?? 0;
  if (!fullest || bytes <= 0) return ok('storage', 'no application stores tokens or idempotency records');
  const gibibytes = (count: number) => `${(count / 2 ** 30).toFixed(2)} GiB`;
  const usage = `the largest application, ${fullest.id}, stores ${gibibytes(bytes)}`;
  if (quota === 0) return ok('storage', `${usage}; no quota is set`);
  const message = `${usage} of a quota of ${gibibytes(quota)}`;
  if (bytes < nearlyFull * quota) return ok('storage', message);
  return warn('storage', message, 'delete tokens, or raise SALLYPORT_TOKEN_BYTES_PER_APPLICATION');
}

/** `now` is the clock of this machine. `inUse`: whether another process uses the SQLite database. */
async function checkNodes(db: Db, config: Config, now: () => number, inUse: boolean): Promise<Check[]> {
  const active = await nodes(db).active();
  if (active.length === 0) return [await checkLastNode(db, inUse)];
  const master = await currentMaster(db);
  const problems = active.flatMap((node) => [
    ...checkKeyOfNode(node, master),
    // On SQLite, the clock of the node decides on expiry, so it is compared with this machine.
    ...checkClockOfNode(node.name, db.isEmbedded ? Math.max(0, node.seenAt - now()) : node.clockOffset),
  ]);
  const running = count(active.length, 'node is', 'nodes are');
  const usable = ok('nodes', `${running} running, with the master key and a correct clock`);
  const others = await findFleetProblems(config, active);
  return [...(problems.length > 0 ? problems : [usable]), ...others];
}

/** A node that stops deletes its row. A row that has expired is of a node that was killed, or that cannot write. */
async function checkLastNode(db: Db, inUse: boolean): Promise<Check> {
  const last = await nodes(db).latest();
  if (!last)
    return ok(
      'nodes',
      inUse ? 'no node is running; another process uses the database' : 'no node is running',
    );
  const message = `${last.name} has not renewed its record since ${timestamp(last.seenAt)}`;
  return inUse
    ? warn(
        'nodes',
        `${message}, but a process uses the database`,
        'look for errors in the log of that node: it cannot write, for example because the disk is full',
      )
    : warn('nodes', message, 'if that node still runs, look for errors in its log; otherwise start it');
}

function checkKeyOfNode({ name, masterKeys }: ActiveNode, master: string): Check[] {
  if (masterKeys.includes(master)) return [];
  return [fail('nodes', `${name} does not have the master key ${master}`, `on that node, ${masterKeyHint}`)];
}

function checkClockOfNode(name: string, offset: number): Check[] {
  if (Math.abs(offset) <= clockTolerance) return [];
  const seconds = Math.round(Math.abs(offset) / 1000);
  const message = `the clock of ${name} is ${seconds} s ${offset > 0 ? 'ahead' : 'behind'}`;
  const hint =
    'synchronize it with a time server; denials and reads that the node handles have a wrong time in the audit log';
  return [warn('nodes', message, hint)];
}

async function checkPostgres(db: Db, config: Config): Promise<Check[]> {
  return [...(await checkServer(db, config.databaseConnections)), await checkTimeouts(config)];
}

/** `maxConnections` is the size of the connection pool of a process. */
async function checkServer(db: Db, maxConnections: number): Promise<Check[]> {
  const state = await readServerState(db);
  const problems: Check[] = [];
  const failed = (message: string, hint: string) => problems.push(fail('database', message, hint));
  const warned = (message: string, hint: string) => problems.push(warn('database', message, hint));
  if (state.standby) failed('the server is a standby and read-only', 'set DATABASE_URL to the primary');
  if (state.readOnly)
    failed(
      'default_transaction_read_only is on: every write fails with 503',
      'set it to off; hosting providers turn it on when storage runs out',
    );
  if (state.fsync !== 'on')
    failed('fsync is off: a crash can corrupt the database', 'set fsync = on in postgresql.conf');
  if (state.fullPageWrites !== 'on')
    failed(
      'full_page_writes is off: a crash can corrupt the database',
      'set full_page_writes = on in postgresql.conf',
    );
  if (state.synchronousCommit === 'off')
    failed('synchronous_commit is off: a crash can lose acknowledged writes', 'set synchronous_commit = on');
  if (state.encoding !== 'UTF8')
    failed(`the encoding of the database is ${state.encoding}`, 'create a database with encoding UTF8');
  if (state.number < 140_000)
    warned(`PostgreSQL ${state.version} is not supported`, 'use PostgreSQL 14 or later');
  if (state.left < maxConnections)
    warned(
      `only ${Math.max(0, state.left)} connections are free`,
      `raise max_connections: one process uses up to ${maxConnections}`,
    );
  return problems.length > 0
    ? problems
    : [ok('database', `PostgreSQL ${state.version}, ${state.left} connections free`)];
}

/** Connects with the timeouts of the service, and reads those that apply to a request. */
async function checkTimeouts({ databaseUrl, databaseTimeout }: Config): Promise<Check> {
  const db = openPostgres(databaseUrl, undefined, databaseTimeout, 1);
  try {
    return formatTimeouts(await readTimeouts(db));
  } catch (error) {
    if (!(error instanceof DbUnavailable)) throw error;
    const reason = isTimeout(error)
      ? `took longer than SALLYPORT_DATABASE_TIMEOUT, ${databaseTimeout} ms`
      : `failed: ${error.message}`;
    return fail(
      'timeouts',
      `a new connection ${reason}: the service would respond with 503`,
      'check the load of the database and the network to it, or raise SALLYPORT_DATABASE_TIMEOUT',
    );
  } finally {
    await db.close();
  }
}

function formatTimeouts({ statement, lock, idle, onConnection }: Timeouts): Check {
  const values = `statement_timeout ${statement}, lock_timeout ${lock}, idle_in_transaction_session_timeout ${idle}`;
  if ([statement, lock, idle].includes('0'))
    return warn('timeouts', `${values}: 0 is no timeout`, 'use PostgreSQL 14 or later');
  const how = onConnection
    ? 'set for each connection'
    : 'set for each transaction, because a connection pooler does not pass them on';
  return ok('timeouts', `${values}; ${how}`);
}

/** Milliseconds after which an entry that is not sealed causes a warning. */
const maxUnsealed = 60_000;

function checkSealed({ entries, age }: PendingEntries): Check {
  const some = entries === 1 ? '1 entry is' : `${counted(entries)} entries are`;
  if (age > maxUnsealed)
    return warn('audit log', `${some} not sealed yet, the oldest for ${Math.round(age / 1000)} s`, startHint);
  return ok('audit log', entries === 0 ? 'all entries are sealed' : `${some} not sealed yet`);
}

/** Verifies the last segment of each chain and its index. */
export async function checkHeads(db: Db, masters: MasterKeys, hint: string): Promise<Check[]> {
  const keys = await chainKeysOf(db, masters);
  if (!keys)
    return (await isEmptyLog(db))
      ? []
      : [fail('audit log', 'the signatures of the segments cannot be verified', hint)];
  const { chains, entries, problem } = await verifyHeads(db, keys);
  if (problem !== undefined) return [fail('audit log', problem, hint)];
  if (chains === 0) return [];
  return [ok('audit log', `signed: ${entries} entries in ${count(chains, 'chain')}`)];
}

/**
 * Seconds after which undelivered entries cause a warning. More than a minute, because batches for S3 are collected
 * that long by default.
 */
const maxLag = 300;

/** `sinks` are the names of the configured sinks. */
export async function checkSinks(db: Db, masters: MasterKeys, sinks: readonly string[]): Promise<Check[]> {
  const keys = sinks.length === 0 ? undefined : await chainKeysOf(db, masters);
  // If the keys are missing, the checks of the audit log already report it.
  if (!keys) return [];
  const states = await Promise.all(
    sinks.map((name) => auditSource({ db, keys: async () => keys }).deliveries.state(name)),
  );
  const problems = states.flatMap(checkSink);
  if (problems.length > 0) return problems;
  return sinks.length === 0 ? [] : [ok('sinks', `the audit log was delivered to ${sinks.join(', ')}`)];
}

function checkSink(state: SinkState): Check[] {
  const { name, failures, lastError, lagEntries, lagSeconds } = state;
  const { rejectedChains, truncatedChains, skippedEntries, changedPositions } = state;
  const found: Check[] = [];
  const warned = (message: string, hint: string) => found.push(warn('sinks', message, hint));
  if (truncatedChains > 0)
    found.push(
      fail(
        'sinks',
        `${name} has received later entries than this database has, in ${count(truncatedChains, 'chain')}`,
        'unless you restored a backup, entries were removed: see "Detect a truncated log" in docs/operations/audit-delivery.md',
      ),
    );
  if (changedPositions > 0)
    warned(
      `the position of ${name} was changed in ${count(changedPositions, 'chain')}, which are not delivered`,
      `find out who can write to the database; then run \`sallyport sinks acknowledge ${name}\` to deliver them again`,
    );
  if (failures > 0)
    warned(
      `${name}: ${count(failures, 'failed attempt')} since the last delivery: ${lastError}`,
      `correct the cause, and run \`sallyport sinks test ${name}\``,
    );
  else if (lagSeconds > maxLag)
    warned(
      `${name} is ${Math.round(lagSeconds)} s and ${count(lagEntries, 'entry', 'entries')} behind`,
      'start the service, or find out why the receiver is slow',
    );
  if (skippedEntries > 0)
    warned(
      `${name} has never received ${count(skippedEntries, 'entry', 'entries')} that were archived and deleted`,
      'copy them from the archives to the receiver if it needs them',
    );
  if (rejectedChains > 0)
    warned(
      `${name} has rejected entries in ${count(rejectedChains, 'chain')}: ${lastError}`,
      `save them with \`sallyport audit export\`, because they are not sent again; then run \`sallyport sinks acknowledge ${name}\`, so that automatic deletion continues`,
    );
  return found;
}

function count(number: number, one: string, many = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`;
}
