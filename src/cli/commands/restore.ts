import { SQLiteError } from 'bun:sqlite';
import { existsSync, realpathSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import type { Head } from '../../audit/records.ts';
import { masterKeys } from '../../operations/master-key.ts';
import type { MasterKeys } from '../../store/crypto/keyring.ts';
import { copyOwnership, createFolder } from '../../store/engine/file-ownership.ts';
import { syncFolderOf } from '../../store/engine/line-writer.ts';
import { lockExclusively } from '../../store/engine/sqlite-lock.ts';
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
import { sqlitePath } from '../terminal/database.ts';
import { requireFile } from '../terminal/files.ts';
import { checkRecoverOptions, type Report, recoverOptions, recoverStore, reportLines } from './recover.ts';

export const commands: Command = {
  usage: 'restore <FILE>',
  options: [
    option('force', 'Replace an existing database. It is moved aside, not deleted.'),
    option(
      'unverified',
      'Restore a file without a valid MAC or with a different schema. Anyone who could write to the file may have added keys, grants or triggers that work as soon as the service starts.',
    ),
    ...recoverOptions,
  ],
  summary: 'Restore a SQLite database from a backup.',
  examples: [
    'sallyport restore /backups/sallyport.db',
    'sallyport restore /backups/sallyport.db --force --audit audit.jsonl --revoke',
  ],
  details:
    'Stop the service first. Verifies the MAC, the integrity and the schema of the backup before it changes anything. Sessions, nonces and idempotency records are not restored. Access that was revoked after the backup is valid again, unless you pass --audit and --revoke.',
  run: restore,
};

async function restore(invocation: Invocation): Promise<number> {
  const { config, args, options, printResult } = invocation;
  const target = sqlitePath(config.databaseUrl);
  if (target === undefined)
    throw new UsageError(
      'sallyport restore is for SQLite only',
      'restore PostgreSQL with pg_restore, then run `sallyport recover`',
    );
  checkRecoverOptions(options);
  const file = resolve(args[0] as string);
  requireFile(file);
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
