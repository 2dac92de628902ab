/** What the database tells of itself, of its clock, and of the audit log. */
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
import { anchorOf, type Checkpoint, isSealedAtOnce } from '../../store/audit/hash-chain.ts';
import { newestSchema } from '../../store/engine/migrate.ts';
import { connections } from '../../store/engine/postgres.ts';
import { lockFile } from '../../store/engine/sqlite-lock.ts';
import { databasePlace, shortPath, sqlitePath } from '../terminal/paths.ts';
import { systemErrorOf } from '../terminal/system-error.ts';
import { type Check, fail, ok, warn } from './check.ts';

export async function checkDatabase(config: Config): Promise<Check[]> {
  const path = sqlitePath(config.databaseUrl);
  const place = databasePlace(config.databaseUrl);
  try {
    const nothing = path === undefined ? undefined : checkPresence(path, config);
    if (nothing) return [nothing];
    const examined = await diagnose(config, masterKeys(config), Date.now);
    return checksOf(examined, Date.now(), config);
  } catch (error) {
    const { says, todo } = systemErrorOf(error) ?? { says: (error as Error).message, todo: reach };
    return [fail('database', `${place}: ${says}`, isDamage(error as Error) ? restore : todo)];
  }
}

const reach = 'check that it is there, and can be reached and written to from here';
const restore = 'stop the service, and restore a backup: docs/operations/backups.md';

/** What SQLite says of a file that is torn, or is none of its own. */
function isDamage({ cause }: { cause?: unknown }): boolean {
  return cause instanceof SQLiteError && /^SQLITE_(CORRUPT|NOTADB)/.test(cause.code ?? '');
}

/** Before it is opened, since SQLite removes the log of an empty file, which may hold all that is left. */
function checkPresence(path: string, config: Config): Check | undefined {
  const size = statSync(path, { throwIfNoEntry: false })?.size;
  if (size !== undefined && size > 0) return undefined;
  const says = `${shortPath(path)} is ${size === 0 ? 'empty' : 'not there'}`;
  const left = tracesOf(path, config, size === 0).find((file) => existsSync(file));
  if (left) return fail('database', `${says}, but ${shortPath(left)} shows that it was in use`, restore);
  const start = 'the first start of the service makes it';
  const unless = existsSync(config.masterKeyFile) ? '; if there was one before, restore a backup' : '';
  return warn('database', says, start + unless);
}

/** What a database leaves behind. A start that has failed leaves an empty one with a lock. */
function tracesOf(path: string, { managementKeyFile }: Config, empty: boolean): string[] {
  const files = [managementKeyFile, `${path}-wal`, `${path}-shm`];
  return empty ? files : [...files, lockFile(path)];
}

function checksOf(
  { engine, sqlite, postgres, health }: Diagnosis,
  machine: number,
  { tokenBytes }: Config,
): Check[] {
  return [
    ...(sqlite ? checkSqlite(engine, sqlite) : []),
    ...(postgres ? checkPostgres(engine, postgres) : []),
    checkSchema(engine.schema),
    checkClock(engine, health, machine),
    ...(health ? checkHealth(engine, health, tokenBytes) : []),
  ];
}

/** Before it, two connections at the wrong moment could damage a database with a log. */
const leastSqlite = '3.51.3';

function checkSqlite({ version }: Engine, { journal, synchronous, flaws }: SqliteState): Check[] {
  const wrong: Check[] = [];
  const bad = (says: string, todo: string) => wrong.push(fail('database', says, todo));
  if (isOlder(version, leastSqlite))
    bad(`SQLite ${version} can lose data`, `run with SQLite ${leastSqlite} or later: npm ci`);
  if (flaws.length > 0) bad(`it is damaged: ${flaws[0]}`, restore);
  if (journal !== 'wal' || synchronous !== 2)
    bad(
      `journal ${journal}, synchronous ${synchronous}`,
      'keep it on a local disk, where SQLite can have its log',
    );
  return wrong.length > 0 ? wrong : [ok('database', `SQLite ${version}, whole`)];
}

function isOlder(version: string, than: string): boolean {
  return version.localeCompare(than, 'en', { numeric: true }) < 0;
}

const oldestPostgres = 140_000;

function checkPostgres({ version }: Engine, state: PostgresState): Check[] {
  const wrong: Check[] = [];
  const bad = (says: string, todo: string) => wrong.push(fail('database', says, todo));
  const doubtful = (says: string, todo: string) => wrong.push(warn('database', says, todo));
  if (state.standby) bad('it is a standby, which cannot be written to', 'let DATABASE_URL name the primary');
  if (state.readOnly)
    bad(
      'default_transaction_read_only is on: every change is answered with 503',
      'see why it was set, which providers do when storage runs out, and set it off again',
    );
  if (state.fsync !== 'on') bad('fsync is off: a crash can damage it', 'set fsync = on in postgresql.conf');
  if (state.fullPageWrites !== 'on')
    bad('full_page_writes is off: a crash can damage it', 'set full_page_writes = on in postgresql.conf');
  if (state.synchronousCommit === 'off')
    bad('synchronous_commit is off: a crash undoes what was answered', 'set synchronous_commit = on');
  if (state.encoding !== 'UTF8')
    bad(`its encoding is ${state.encoding}`, 'make a database with encoding UTF8');
  if (state.number < oldestPostgres)
    doubtful(`PostgreSQL ${version} is too old to be known here`, 'use 14 or later');
  if (state.left < connections)
    doubtful(
      `${Math.max(0, state.left)} connections are left`,
      `raise max_connections: one process takes up to ${connections}`,
    );
  return wrong.length > 0 ? wrong : [ok('database', `PostgreSQL ${version}, ${state.left} connections left`)];
}

function checkSchema(schema: number): Check {
  if (schema === newestSchema) return ok('schema', `version ${schema}`);
  if (schema > newestSchema)
    return fail(
      'schema',
      `version ${schema}, this program knows up to ${newestSchema}`,
      'run a newer program',
    );
  return warn(
    'schema',
    `version ${schema} of ${newestSchema}`,
    'sallyport migrate brings it up to date, and so does a start',
  );
}

const tolerance = 2000;
const set =
  'set the clock: while it is behind, what should have expired lives on; if it was ahead and is right, the next change tells';
const recheck = 'see that the clock is right now; what was made then expires by the clock of then';

function checkClock({ kind, now }: Engine, health: Health | undefined, machine: number): Check {
  const { newestEntry, leapt } = health ?? {};
  if (newestEntry !== undefined && now < newestEntry - tolerance) {
    const says = `it is ${timestamp(now)}, but the audit log has an entry of ${timestamp(newestEntry)}`;
    return leapt
      ? warn('clock', `${says}, made while the clock was ahead`, recheck)
      : fail('clock', says, set);
  }
  const apart = Math.abs(machine - now);
  if (apart > tolerance) {
    const says = `this machine and the database are ${Math.round(apart / 1000)} s apart`;
    return warn('clock', says, 'let both follow the same time servers; the database decides');
  }
  return ok(
    'clock',
    `${timestamp(now)} by ${kind === 'sqlite' ? 'this machine' : 'the database'}, which decides`,
  );
}

/** Either happens every few seconds while a service runs. */
const longestSweep = 300;
const longestUnsealed = 60_000;

const start = 'start the service, or look for the reason in its log';
const prove = 'sallyport audit export, then sallyport audit verify: docs/operations/audit.md';
const keyFirst = 'give the right master key first: nothing can be proved without it';

function checkHealth(engine: Engine, health: Health, quota: number): Check[] {
  const { master, sweepLag, head } = health;
  const todo = master === undefined ? prove : keyFirst;
  return [
    master === undefined
      ? ok('master key', 'opens what the database holds')
      : fail('master key', master, 'give the key that was in use when the data was written'),
    sweepLag > longestSweep
      ? warn('sweep', `something expired ${Math.round(sweepLag)} s ago and still takes up room`, start)
      : ok('sweep', 'nothing expired is left lying about'),
    checkStorage(health, quota),
    checkSealed(engine, health, todo),
    ...(head ? [checkHead(head, health, todo)] : []),
  ];
}

/** The share of its storage quota from which an application is named. */
const nearlyFull = 0.8;

function checkStorage({ fullest }: Health, quota: number): Check {
  if (!fullest || fullest.bytes <= 0) return ok('storage', 'no tokens are stored');
  const gibibytes = (bytes: number) => `${(bytes / 2 ** 30).toFixed(2)} GiB`;
  const most = `application ${fullest.application} has stored ${gibibytes(fullest.bytes)} of tokens`;
  if (quota === 0) return ok('storage', `${most}, the most; there is no quota`);
  const says = `${most}, the most, of a quota of ${gibibytes(quota)}`;
  if (fullest.bytes < nearlyFull * quota) return ok('storage', says);
  return warn('storage', says, 'delete tokens, or raise SALLYPORT_TOKEN_BYTES_PER_APPLICATION');
}

function checkSealed({ kind }: Engine, { unchained, unchainedFor }: Health, todo: string): Check {
  if (isSealedAtOnce({ dialect: kind })) {
    return unchained === 0
      ? ok('audit log', 'every row is sealed')
      : fail('audit log', `${rowsAre(unchained)} not sealed: put in, or set back, by something else`, todo);
  }
  const waited = `${rowsAre(unchained)} not sealed, the oldest for ${Math.round(unchainedFor / 1000)} s`;
  return unchainedFor > longestUnsealed
    ? warn('audit log', waited, start)
    : ok('audit log', `${rowsAre(unchained)} waiting to be sealed`);
}

function rowsAre(count: number): string {
  return count === 1 ? '1 row is' : `${count} rows are`;
}

function checkHead(head: Checkpoint, { headSigned, headKept }: Health, todo: string): Check {
  if (headSigned === undefined) return fail('audit log', 'the last checkpoint cannot be checked', todo);
  if (!headSigned) return fail('audit log', 'the last checkpoint is forged', todo);
  if (!headKept)
    return fail('audit log', `row ${head.seq} was signed, and is not there as it was signed`, todo);
  return ok('audit log', `signed up to ${anchorOf(head)}`);
}
