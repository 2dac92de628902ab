import type { SQLiteError } from 'bun:sqlite';
import { closeSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { masterKeys } from '../../operations/master-key.ts';
import { backUp, flaws, foreignSchema, removeDatabase, removeParts } from '../../operations/sqlite-backup.ts';
import { appendMac, type BackupMac } from '../../store/crypto/backup-mac.ts';
import type { MasterKey } from '../../store/crypto/cipher.ts';
import { lacking, type MasterKeys, WrongMasterKey } from '../../store/crypto/keyring.ts';
import { InUse, lockAlone } from '../../store/engine/sqlite-lock.ts';
import type { Command, Invocation } from '../command.ts';
import { Refused, UsageError } from '../errors.ts';
import { create, mustBeFree, nameIt, notMade, syncFolderOf } from '../terminal/files.ts';
import { mustBeThere } from '../terminal/open-store.ts';
import { sqlitePath } from '../terminal/paths.ts';
import { heeding } from '../terminal/signals.ts';
import { describeSystemError } from '../terminal/system-error.ts';

export const backupCommand: Command = {
  words: ['backup'],
  takes: ['FILE'],
  summary: 'Back up a SQLite database to a new file.',
  examples: ['sallyport backup /backups/sallyport.db'],
  details:
    'Works while the service runs. Leaves out sessions and idempotency records. The file carries a MAC under the master key, which restore checks. It does not contain the master key: store that elsewhere. For PostgreSQL, prints what to run instead.',
  run: backup,
};

const pgDump =
  'pg_dump --format=custom --exclude-table-data=sessions --exclude-table-data=idempotency --file=FILE "$DATABASE_URL"';

async function backup({ config, args, json, print, terminal }: Invocation): Promise<number> {
  const from = sqlitePath(config.databaseUrl);
  if (from === undefined) throw new UsageError('PostgreSQL makes its own backups', pgDump);
  if (args[0] === '-')
    throw new UsageError('a backup is a file: it cannot go to standard output', 'name a new file');
  mustBeThere(config);
  const path = resolve(args[0] as string);
  mustBeFree(path);
  const { taken_at, master_key, foreign } = await heeding((heed) =>
    copy(from, path, masterKeys(config), heed),
  );
  const bytes = statSync(path).size;
  print(
    json
      ? JSON.stringify({ file: path, bytes, taken_at, master_key })
      : `wrote ${path}, ${bytes} bytes, with a MAC under the master key ${master_key}`,
  );
  if (foreign.length > 0)
    terminal.note(
      `sallyport: warning: the database has another schema than this version makes: ${foreign.join('; ')}\n` +
        'sallyport: hint: find out who changed it; a restore of this backup needs --unverified\n',
    );
  return 0;
}

interface Copied extends BackupMac {
  /** How the schema of the database differs from ours. */
  readonly foreign: readonly string[];
}

/** Under another name, which is locked, until it is whole: what a backup left that was killed is written over. */
async function copy(
  from: string,
  path: string,
  masters: MasterKeys,
  heed: () => Promise<void>,
): Promise<Copied> {
  const partial = `${path}.part`;
  const letGo = lockPartial(path, partial);
  try {
    removeParts(partial);
    const file = create(partial);
    try {
      const at = Date.now();
      const master = masterOf(tryBackUp(from, partial, path), masters);
      await heed();
      const [flaw] = flaws(partial);
      if (flaw) throw new Refused(`the database is damaged: ${flaw}`, 'sallyport doctor tells more');
      const foreign = foreignSchema(partial);
      // Of the file that was created here, whatever has its name by now.
      const mac = tryAppend(file, master, at, path);
      await heed();
      nameIt(path, partial);
      syncFolderOf(path);
      return { ...mac, foreign };
    } finally {
      closeSync(file);
    }
  } finally {
    removeDatabase(partial);
    letGo();
  }
}

/** The key that seals the database, or would seal it if the service started now. */
function masterOf(id: string | undefined, masters: MasterKeys): MasterKey {
  const master = id === undefined ? masters.current() : masters.find(id);
  if (master) return master;
  throw new WrongMasterKey(`a backup needs the master key ${id} for its MAC, ${lacking(masters)}`);
}

function tryAppend(file: number, master: MasterKey, at: number, path: string): BackupMac {
  try {
    return appendMac(file, master, at);
  } catch (error) {
    throw describeSystemError(`${path} cannot be written`, error);
  }
}

/** SQLite does not say which of the two it is about; that there is no room can only be the new one. */
function tryBackUp(from: string, partial: string, path: string): string | undefined {
  try {
    return backUp(from, partial);
  } catch (error) {
    const isFull = (error as SQLiteError).code === 'SQLITE_FULL';
    throw describeSystemError(isFull ? `${path} cannot be written` : `${from} cannot be copied`, error);
  }
}

function lockPartial(path: string, partial: string): () => void {
  try {
    return lockAlone(partial);
  } catch (error) {
    if (error instanceof InUse) throw new Refused(`another backup to ${path} is under way`, 'wait for it');
    throw notMade(path, error);
  }
}
