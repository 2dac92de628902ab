/** Checks of the database, its clock and the audit log. */
import { SQLiteError } from 'bun:sqlite';
import { existsSync, statSync } from 'node:fs';
import type { Config } from '../../config.ts';
import { timestamp } from '../../domain/common-fields.ts';
import {
  type Diagnosis,
  diagnose,
  type Engine,
  type Health,
  type PostgresState,
  type SqliteState,
} from '../../operations/diagnosis.ts';
import { masterKeys } from '../../operations/master-key.ts';
import { anchorOf, type Checkpoint, isChainedOnWrite } from '../../store/audit/hash-chain.ts';
import { newestSchema } from '../../store/engine/migrate.ts';
import { connections } from '../../store/engine/postgres.ts';
import { lockFile } from '../../store/engine/sqlite-lock.ts';
import { systemErrorOf } from '../errors.ts';
import {
  databaseLabel,
  masterKeyHint,
  shortPath,
  sqlitePath,
  unavailableHint,
} from '../terminal/database.ts';
import { type Check, fail, ok, warn } from './doctor-check.ts';

export async function checkDatabase(config: Config): Promise<Check[]> {
  const path = sqlitePath(config.databaseUrl);
  const label = databaseLabel(config.databaseUrl);
  try {
    const missing = path === undefined ? undefined : checkPresence(path, config);
    if (missing) return [missing];
    const diagnosis = await diagnose(config, masterKeys(config), Date.now);
    return checksOf(diagnosis, Date.now(), config);
  } catch (error) {
    const known = systemErrorOf(error);
    const message = known?.reason ?? (error as Error).message;
    const hint = known?.hint ?? unavailableHint(config.databaseUrl);
    return [fail('database', `${label}: ${message}`, isDamage(error as Error) ? restore : hint)];
  }
}

const restore = 'stop the service and restore a backup: see docs/operations/backups.md';
const moveBack = `move the file back, or ${restore}`;

function isDamage({ cause }: { cause?: unknown }): boolean {
  return cause instanceof SQLiteError && /^SQLITE_(CORRUPT|NOTADB)/.test(cause.code ?? '');
}

/**
 * Runs before the file is opened: SQLite deletes the write-ahead log of an empty database, which may hold the only copy
 * of the data.
 */
function checkPresence(path: string, config: Config): Check | undefined {
  const size = statSync(path, { throwIfNoEntry: false })?.size;
  if (size !== undefined && size > 0) return undefined;
  const message = `${shortPath(path)} ${size === 0 ? 'is empty' : 'does not exist'}`;
  const trace = tracesOf(path, config, size === 0).find((file) => existsSync(file));
  if (trace) return fail('database', `${message}, but ${shortPath(trace)} shows that it was used`, moveBack);
  const create = 'run `sallyport serve` to create it';
  const restored = existsSync(config.masterKeyFile) ? '; if it existed before, restore a backup' : '';
  return warn('database', message, create + restored);
}

/** Files that exist only beside a used database. A failed first start leaves an empty database and a lock file. */
function tracesOf(path: string, { managementKeyFile }: Config, empty: boolean): string[] {
  const files = [managementKeyFile, `${path}-wal`, `${path}-shm`];
  return empty ? files : [...files, lockFile(path)];
}

function checksOf(
  { engine, sqlite, postgres, health }: Diagnosis,
  machineTime: number,
  { tokenBytes }: Config,
): Check[] {
  return [
    ...(sqlite ? checkSqlite(engine, sqlite) : []),
    ...(postgres ? checkPostgres(engine, postgres) : []),
    checkSchema(engine),
    checkClock(engine, health, machineTime),
    ...(health ? checkHealth(engine, health, tokenBytes) : []),
  ];
}

/** Older versions can corrupt a database in WAL mode when two connections write at the same time. */
const minSqlite = '3.51.3';

function checkSqlite({ version }: Engine, { journal, synchronous, flaws }: SqliteState): Check[] {
  const problems: Check[] = [];
  const failed = (message: string, hint: string) => problems.push(fail('database', message, hint));
  if (isOlder(version, minSqlite))
    failed(`SQLite ${version} can lose data`, `run with SQLite ${minSqlite} or later: npm ci`);
  if (flaws.length > 0) failed(`the database is damaged: ${flaws[0]}`, restore);
  if (journal !== 'wal' || synchronous !== 2)
    failed(
      `journal_mode is ${journal} and synchronous is ${synchronous}, not WAL and FULL`,
      'put the database on a local disk that supports WAL mode',
    );
  return problems.length > 0 ? problems : [ok('database', `SQLite ${version}, integrity check passed`)];
}

function isOlder(version: string, than: string): boolean {
  return version.localeCompare(than, 'en', { numeric: true }) < 0;
}

const oldestPostgres = 140_000;

function checkPostgres({ version }: Engine, state: PostgresState): Check[] {
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
  if (state.number < oldestPostgres)
    warned(`PostgreSQL ${version} is not supported`, 'use PostgreSQL 14 or later');
  if (state.left < connections)
    warned(
      `only ${Math.max(0, state.left)} connections are free`,
      `raise max_connections: one process uses up to ${connections}`,
    );
  return problems.length > 0
    ? problems
    : [ok('database', `PostgreSQL ${version}, ${state.left} connections free`)];
}

function checkSchema({ schema, schemaProblem }: Engine): Check {
  if (schemaProblem) return fail('schema', schemaProblem.message, schemaProblem.todo);
  if (schema === newestSchema) return ok('schema', `version ${schema}`);
  return warn(
    'schema',
    `version ${schema}; this program needs version ${newestSchema}`,
    'run `sallyport migrate`, or start the service',
  );
}

const tolerance = 2000;
const setClock =
  'correct the clock: while it is slow, sessions and keys expire too late; if it was fast and is now correct, the next change clears this';
const recheck = 'check that the clock is correct now; expiry times set before may be wrong';

function checkClock({ kind, now }: Engine, health: Health | undefined, machineTime: number): Check {
  const { newestEntry, leapt } = health ?? {};
  if (newestEntry !== undefined && now < newestEntry - tolerance) {
    const message = `the time is ${timestamp(now)}, but the newest audit entry is from ${timestamp(newestEntry)}`;
    return leapt
      ? warn('clock', `${message}, written while the clock was fast`, recheck)
      : fail('clock', message, setClock);
  }
  const difference = Math.abs(machineTime - now);
  if (difference > tolerance) {
    const message = `the clocks of this machine and the database are ${Math.round(difference / 1000)} s apart`;
    return warn(
      'clock',
      message,
      'synchronize both with the same time servers; expiry uses the clock of the database',
    );
  }
  return ok('clock', `${timestamp(now)} (${kind === 'sqlite' ? 'this machine' : 'the database'})`);
}

/** The service sweeps and chains every few seconds. Seconds and milliseconds after which a delay is a warning. */
const maxSweepLag = 300;
const maxUnchained = 60_000;

const start = 'start the service, or look for errors in its log';
const verify = 'run `sallyport audit export` and `sallyport audit verify`: see docs/operations/audit.md';
const keyFirst = 'provide the correct master key first; the audit log cannot be verified without it';

function checkHealth(engine: Engine, health: Health, quota: number): Check[] {
  const { master, sweepLag, head } = health;
  const hint = master === undefined ? verify : keyFirst;
  return [
    master === undefined
      ? ok('master key', 'decrypts the data keys of the database')
      : fail('master key', master, masterKeyHint),
    sweepLag > maxSweepLag
      ? warn('sweep', `the oldest expired row is ${Math.round(sweepLag)} s overdue for removal`, start)
      : ok('sweep', 'no expired rows are overdue for removal'),
    checkStorage(health, quota),
    checkChained(engine, health, hint),
    ...(head ? [checkHead(head, health, hint)] : []),
  ];
}

/** The share of its storage quota from which an application is named. */
const nearlyFull = 0.8;

function checkStorage({ fullest }: Health, quota: number): Check {
  if (!fullest || fullest.bytes <= 0) return ok('storage', 'no tokens are stored');
  const gibibytes = (bytes: number) => `${(bytes / 2 ** 30).toFixed(2)} GiB`;
  const usage = `the largest application, ${fullest.application}, stores ${gibibytes(fullest.bytes)} of tokens`;
  if (quota === 0) return ok('storage', `${usage}; no quota is set`);
  const message = `${usage} of a quota of ${gibibytes(quota)}`;
  if (fullest.bytes < nearlyFull * quota) return ok('storage', message);
  return warn('storage', message, 'delete tokens, or raise SALLYPORT_TOKEN_BYTES_PER_APPLICATION');
}

function checkChained({ kind }: Engine, { unchained, unchainedFor }: Health, hint: string): Check {
  if (isChainedOnWrite({ dialect: kind })) {
    return unchained === 0
      ? ok('audit log', 'all entries are chained')
      : fail('audit log', `${entriesAre(unchained)} not chained: inserted or reset by another program`, hint);
  }
  const lag = `${entriesAre(unchained)} not yet chained, the oldest for ${Math.round(unchainedFor / 1000)} s`;
  return unchainedFor > maxUnchained
    ? warn('audit log', lag, start)
    : ok('audit log', `${entriesAre(unchained)} not yet chained`);
}

function entriesAre(count: number): string {
  return count === 1 ? '1 entry is' : `${count} entries are`;
}

function checkHead(head: Checkpoint, { headSigned, headKept }: Health, hint: string): Check {
  if (headSigned === undefined)
    return fail('audit log', 'the signature of the last checkpoint cannot be verified', hint);
  if (!headSigned) return fail('audit log', 'the signature of the last checkpoint is invalid', hint);
  if (!headKept)
    return fail('audit log', `entry ${head.seq} was changed or removed after it was signed`, hint);
  return ok('audit log', `signed up to anchor ${anchorOf(head)}`);
}
