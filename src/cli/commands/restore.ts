import { SQLiteError } from 'bun:sqlite';
import { existsSync, realpathSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import type { Head } from '../../audit/records.ts';
import { commandTimeout } from '../../db/db.ts';
import type { MasterKeys } from '../../db/keys/keyring.ts';
import { syncFolderOf } from '../../db/line-writer.ts';
import { parsePostgresUrl } from '../../db/postgres/postgres-url.ts';
import { copyOwnership, createFolder } from '../../db/sqlite/file-ownership.ts';
import { lockExclusively } from '../../db/sqlite/sqlite-lock.ts';
import { anyPosition } from '../../domain/database-position.ts';
import { masterKeys } from '../../operations/master-key.ts';
import { openStore } from '../../store/open.ts';
import {
  anythingOf,
  flaws,
  foreignSchema,
  moveAway,
  removeDatabase,
  settle,
  unpack,
  type Verification,
} from '../../store/sqlite-backup.ts';
import { type Command, type Invocation, option } from '../command.ts';
import { CommandError, describeSystemError, UsageError } from '../errors.ts';
import { databaseLabel, sqlitePath, whileWaiting } from '../terminal/database.ts';
import { requireFile } from '../terminal/files.ts';
import {
  checkRecoverOptions,
  type Report,
  recoverAndAccept,
  recoverOptions,
  recoverStore,
  reportLines,
} from './recover.ts';

export const commands: Command = {
  usage: 'restore <FILE>',
  options: [
    option('force', 'SQLite: replace an existing database. It is moved aside, not deleted.'),
    option('owner ROLE', 'PostgreSQL: owner of the new database. By default the role of DATABASE_URL.'),
    option(
      'unverified',
      'SQLite: restore a file without a valid MAC or with a different schema. Anyone who could write to the file may have added keys, grants or triggers that work as soon as the service starts.',
    ),
    ...recoverOptions,
  ],
  summary: 'Restore the database from a backup.',
  examples: [
    'sallyport restore /backups/sallyport.db',
    'sallyport restore /backups/sallyport.db --force --audit audit.jsonl --revoke',
  ],
  details:
    'Stop the service first. On PostgreSQL, restores a dump of `pg_dump --format=custom` into a new database on the same server, checks it, runs `recover` there and prints what to switch; the database in DATABASE_URL does not change. On SQLite, verifies the MAC, the integrity and the schema of the backup before it changes anything. Sessions, nonces and idempotency records are not restored. Access that was revoked after the backup is valid again, unless you pass --audit and --revoke.',
  run: restore,
};

async function restore(invocation: Invocation): Promise<number> {
  const { config, args, options, printResult } = invocation;
  const target = sqlitePath(config.databaseUrl);
  checkRecoverOptions(options);
  const file = resolve(args[0] as string);
  requireFile(file);
  if (target === undefined) return restorePostgres(invocation, file);
  createFolder(dirname(target));
  const unlock = lockExclusively(target);
  try {
    checkTarget(file, target, options.on('force'));
    const staged = `${target}.restoring`;
    // Opening an empty file would delete the write-ahead log beside it.
    const isEmpty = !statSync(target, { throwIfNoEntry: false })?.size;
    const before = isEmpty ? undefined : settle(target);
    const { verification, report } = await stage(file, staged, target, before, invocation).catch((error) => {
      removeDatabase(staged);
      throw error;
    });
    const replaced = putInPlace(staged, target);
    return printResult(
      { database: target, ...(replaced && { replaced }), backup: verification, ...report },
      formatResult(target, file, replaced, verification, report),
    );
  } finally {
    unlock();
  }
}

function checkTarget(file: string, target: string, force: boolean): void {
  if (!existsSync(target)) return;
  if (realpathSync(file) === realpathSync(target))
    throw new UsageError(`${file} is the database itself, not a backup`);
  if (!force)
    throw new CommandError(
      `${target} already exists`,
      'pass --force to replace it; the existing database is moved aside, not deleted',
    );
}

/** Unpacks and recovers the backup in a temporary file. The database does not change unless everything succeeds. */
async function stage(
  file: string,
  staged: string,
  target: string,
  before: readonly Head[] | undefined,
  { config, options }: Invocation,
): Promise<{ verification: Verification; report: Report }> {
  removeDatabase(staged);
  const masters = masterKeys(config);
  const requireUnverified = (reason: string, hint: string) => {
    if (options.on('unverified')) return;
    throw new CommandError(`cannot verify ${file}: ${reason}`, `${hint}; ${orUnverified}`);
  };
  const unpacked = tryUnpack(file, staged, masters, requireUnverified);
  const [flaw] = flaws(staged);
  if (flaw) throw cannotRestore(file, flaw);
  const verification = withSchema(unpacked, foreignSchema(staged), requireUnverified);
  copyOwnership(target, staged);
  const { maintenance, close } = await openStore(`sqlite:${staged}`, { masters });
  try {
    const takenAt = verification.verified ? verification.taken_at : undefined;
    const restored = { difference: { backup: { to: verification } }, replaced: before, takenAt };
    return { verification, report: await recoverStore(maintenance, options, restored) };
  } finally {
    await close();
  }
}

function withSchema(
  verification: Verification,
  foreign: readonly string[],
  requireUnverified: (reason: string, hint: string) => void,
): Verification {
  if (foreign.length === 0) return verification;
  const reason = `its schema differs from that of this version: ${foreign.join('; ')}`;
  requireUnverified(reason, 'use another backup');
  return { verified: false, why: verification.verified ? reason : `${verification.why}; ${reason}` };
}

const orUnverified =
  'or pass --unverified if you trust the file and its storage: see docs/operations/backups.md';

function cannotRestore(file: string, reason: string): CommandError {
  return new CommandError(`cannot restore ${file}: ${reason}`, 'try an earlier backup');
}

function tryUnpack(
  file: string,
  staged: string,
  masters: MasterKeys,
  requireUnverified: (reason: string, hint: string) => void,
): Verification {
  try {
    return unpack(file, staged, masters, requireUnverified);
  } catch (error) {
    if (!(error instanceof SQLiteError)) throw error;
    if (error.code === 'SQLITE_FULL') throw describeSystemError(`cannot write ${staged}`, error);
    throw cannotRestore(file, error.message);
  }
}

/**
 * Renames the existing database, then the restored one. A crash between the two renames leaves no database, which the
 * next start reports. It never leaves a partial one.
 */
function putInPlace(staged: string, target: string): string | undefined {
  settle(staged);
  const stamp = new Date().toISOString().replace(/[-:.]/g, '');
  const replaced = anythingOf(target) ? `${target}.replaced-${stamp}` : undefined;
  if (replaced) moveAway(target, replaced);
  moveAway(staged, target);
  removeDatabase(staged);
  syncFolderOf(target);
  return replaced;
}

function formatResult(
  target: string,
  file: string,
  replaced: string | undefined,
  verification: Verification,
  report: Report,
): string {
  const verified = verification.verified
    ? `backup verified: taken at ${verification.taken_at}, MAC under master key ${verification.master_key}`
    : `backup NOT verified: ${verification.why}. Review applications and keys before you start the service.`;
  const previous = replaced ? [`moved the previous database to ${replaced}`] : [];
  return [`restored ${target} from ${file}`, verified, ...previous, ...reportLines(report)].join('\n');
}

/** Restores a dump of PostgreSQL into a new database. The database of the service does not change. */
async function restorePostgres(invocation: Invocation, file: string): Promise<number> {
  const { config, options, printResult } = invocation;
  for (const name of ['force', 'unverified'])
    if (options.on(name))
      throw new UsageError(`--${name} is for SQLite only`, 'remove it: nothing is replaced');
  const client = clientOf(config.databaseUrl);
  const database = newName(client.database);
  const owner = options.value('owner');
  client.run('createdb', ...(owner === undefined ? [] : ['--owner', owner]), database);
  const url = inDatabase(config.databaseUrl, database);
  try {
    client.run('pg_restore', '--exit-on-error', '--single-transaction', '--dbname', database, file);
    const report = await whileWaiting(invocation, async (onStep) => {
      const opening = {
        masters: masterKeys(config),
        existing: true,
        positions: anyPosition,
        timeout: commandTimeout,
      };
      const { maintenance, close } = await openStore(url, { ...opening, onStep });
      onStep('the checks of the restored database');
      return recoverAndAccept(maintenance, config, options).finally(close);
    });
    const label = databaseLabel(url);
    const lines = [
      `restored ${label} from ${file}`,
      'The audit log, the schema and the master key fit. A dump has no MAC, so review applications and keys.',
      ...reportLines(report),
      `next: stop all nodes, set DATABASE_URL (or the database in PgBouncer) to ${label}, and start them`,
    ];
    return printResult({ database, ...report }, lines.join('\n'));
  } catch (error) {
    client.run('dropdb', '--if-exists', database);
    throw error;
  }
}

/** The programs of PostgreSQL, with the connection of the URL in their environment. */
function clientOf(databaseUrl: string) {
  const { hosts, user, password, passfile, database, schema, ...tls } = parsePostgresUrl(databaseUrl);
  if (schema !== undefined)
    throw new UsageError(
      'the schema in DATABASE_URL is not supported here',
      'restore with pg_restore, then run `sallyport recover`',
    );
  const env = {
    ...process.env,
    PGHOST: hosts.map(({ host }) => host).join(),
    PGPORT: hosts.map(({ port }) => port).join(),
    PGUSER: user,
    PGPASSFILE: passfile,
    PGTARGETSESSIONATTRS: 'read-write',
    PGSSLMODE: tls.sslmode,
    ...(password !== undefined && { PGPASSWORD: password }),
    ...(tls.sslrootcert !== undefined && { PGSSLROOTCERT: tls.sslrootcert }),
    ...(tls.sslcert !== undefined && { PGSSLCERT: tls.sslcert }),
    ...(tls.sslkey !== undefined && { PGSSLKEY: tls.sslkey }),
  };
  /** Throws with the first lines of its errors if the program fails. */
  function run(program: string, ...args: string[]): void {
    if (!Bun.which(program))
      throw new CommandError(
        `${program} is not installed`,
        'install the client programs of PostgreSQL, in the version of the server or newer',
      );
    const { exitCode, stderr } = Bun.spawnSync([program, ...args], { env, stdin: 'ignore' });
    if (exitCode === 0) return;
    const reason = String(stderr);
    const isDenied = reason.includes('permission denied to create database');
    // PgBouncer says this, PostgreSQL does not.
    const isPooler = reason.includes('no such database: ');
    throw new CommandError(
      reason.trim().split('\n').slice(0, 5).join('; '),
      isDenied
        ? 'connect as a superuser, with --owner and the role of the tables'
        : isPooler
          ? 'connect to the server itself, not to a pooler'
          : 'no database was changed',
    );
  }
  return { database, run };
}

/** At most 63 bytes, as PostgreSQL requires. */
function newName(database: string): string {
  const suffix = `_restored_${new Date().toISOString().replace(/\D/g, '').slice(0, 14)}`;
  return (
    Buffer.from(database)
      .subarray(0, 63 - suffix.length)
      .toString() + suffix
  );
}

/** The URL of another database on the same server. */
function inDatabase(url: string, database: string): string {
  return url.replace(
    /^([a-z]+:\/\/[^/?]*)(\/[^?]*)?/,
    (_, authority) => `${authority}/${encodeURIComponent(database)}`,
  );
}
