import type { SQLiteError } from 'bun:sqlite';
import { closeSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { appendMac, type BackupMac } from '../../db/keys/backup-mac.ts';
import type { MasterKey } from '../../db/keys/cipher.ts';
import { type MasterKeys, missingReason, WrongMasterKey } from '../../db/keys/keyring.ts';
import { syncFolderOf } from '../../db/line-writer.ts';
import { InUse, lockExclusively } from '../../db/sqlite/sqlite-lock.ts';
import { masterKeys } from '../../operations/master-key.ts';
import { backUp, flaws, foreignSchema, removeDatabase, removeParts } from '../../store/sqlite-backup.ts';
import type { Command, Invocation } from '../command.ts';
import { CommandError, describeSystemError, UsageError } from '../errors.ts';
import { requireDatabase, sqlitePath } from '../terminal/database.ts';
import { createFile, linkExclusively, requireUnused, writeError } from '../terminal/files.ts';
import { interruptible } from '../terminal/signals.ts';

export const commands: Command = {
  usage: 'backup <FILE>',
  summary: 'Back up a SQLite database to a new file.',
  examples: ['sallyport backup /backups/sallyport.db'],
  details:
    'Works while the service runs. Leaves out sessions and idempotency records. Adds a MAC under the master key, which `restore` verifies. The file does not contain the master key: store that elsewhere. For PostgreSQL, prints the pg_dump command to run instead.',
  run: backup,
};

const pgDump =
  '(umask 077; pg_dump --format=custom --exclude-table-data=sessions --exclude-table-data=idempotency --file=FILE "$OWNER_URL")';

async function backup({ config, args, printResult, terminal }: Invocation): Promise<number> {
  const from = sqlitePath(config.databaseUrl);
  if (from === undefined)
    throw new UsageError('sallyport backup is for SQLite only', `back up PostgreSQL with: ${pgDump}`);
  if (args[0] === '-')
    throw new UsageError('cannot write a backup to standard output', 'pass the name of a new file');
  requireDatabase(config);
  const path = resolve(args[0] as string);
  requireUnused(path);
  const { taken_at, master_key, foreign } = await interruptible((checkInterrupted) =>
    copy(from, path, masterKeys(config), checkInterrupted),
  );
  const bytes = statSync(path).size;
  printResult(
    { file: path, bytes, taken_at, master_key },
    `wrote ${path} (${bytes} bytes, MAC under master key ${master_key})`,
  );
  if (foreign.length > 0)
    terminal.writeError(
      `sallyport: warning: the schema of the database differs from that of this version: ${foreign.join('; ')}\n` +
        'sallyport: hint: find out what changed the schema; restoring this backup needs --unverified\n',
    );
  return 0;
}

/**
 * Writes to a temporary file under a lock and renames it when it is complete. Overwrites the temporary file of a
 * backup that was killed. The result lists in `foreign` how the schema differs from that of this version.
 */
async function copy(
  from: string,
  path: string,
  masters: MasterKeys,
  checkInterrupted: () => Promise<void>,
): Promise<BackupMac & { foreign: readonly string[] }> {
  const partial = `${path}.part`;
  const unlock = lockPartial(path, partial);
  try {
    removeParts(partial);
    const file = createFile(partial);
    try {
      const at = Date.now();
      const master = masterOf(tryBackUp(from, partial, path), masters);
      await checkInterrupted();
      const [flaw] = flaws(partial);
      if (flaw) throw new CommandError(`the database is damaged: ${flaw}`, 'run `sallyport doctor`');
      const foreign = foreignSchema(partial);
      // Uses the descriptor, because another process may have replaced the file at this path.
      const mac = tryAppend(file, master, at, path);
      await checkInterrupted();
      linkExclusively(path, partial);
      syncFolderOf(path);
      return { ...mac, foreign };
    } finally {
      closeSync(file);
    }
  } finally {
    removeDatabase(partial);
    unlock();
  }
}

/** The master key that wraps the data keys of the database, or the current one if the database has none yet. */
function masterOf(id: string | undefined, masters: MasterKeys): MasterKey {
  const master = id === undefined ? masters.current() : masters.find(id);
  if (master) return master;
  throw new WrongMasterKey(`the MAC of a backup needs master key ${id}, ${missingReason(masters)}`);
}

function tryAppend(file: number, master: MasterKey, at: number, path: string): BackupMac {
  try {
    return appendMac(file, master, at);
  } catch (error) {
    throw describeSystemError(`cannot write ${path}`, error);
  }
}

/** Adds a path to errors of SQLite, which name no file. If the disk is full, the error is about the new file. */
function tryBackUp(from: string, partial: string, path: string): string | undefined {
  try {
    return backUp(from, partial);
  } catch (error) {
    const isFull = (error as SQLiteError).code === 'SQLITE_FULL';
    throw describeSystemError(isFull ? `cannot write ${path}` : `cannot copy ${from}`, error);
  }
}

function lockPartial(path: string, partial: string): () => void {
  try {
    return lockExclusively(partial);
  } catch (error) {
    if (error instanceof InUse)
      throw new CommandError(`another backup to ${path} is running`, 'wait until it has finished');
    throw writeError(path, error);
  }
}
