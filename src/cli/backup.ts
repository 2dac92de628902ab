import type { SQLiteError } from 'bun:sqlite';
import { closeSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { backUp, flaws, removeDatabase, removeParts } from '../store/sqlite-files.ts';
import { InUse, lockAlone } from '../store/sqlite-lock.ts';
import { type Command, type Invocation, Refused, UsageError } from './command.ts';
import { create, mustBeFree, nameIt, notMade, syncFolderOf } from './files.ts';
import { mustBeThere } from './open.ts';
import { sqlitePath } from './place.ts';
import { heeding } from './stop.ts';
import { cannot } from './trouble.ts';

export const backupCommand: Command = {
  words: ['backup'],
  takes: ['FILE'],
  summary: 'Copy the database to a new file while the service runs (SQLite).',
  details:
    'Sessions and remembered answers are left out. The master key is not in it: keep that in another place. For PostgreSQL it says what to run instead.',
  run: backup,
};

const pgDump =
  'pg_dump --format=custom --exclude-table-data=sessions --exclude-table-data=idempotency --file=FILE "$DATABASE_URL"';

async function backup({ config, args, json, print }: Invocation): Promise<number> {
  const from = sqlitePath(config.databaseUrl);
  if (from === undefined) throw new UsageError('PostgreSQL makes its own backups', pgDump);
  if (args[0] === '-')
    throw new UsageError('a backup is a file: it cannot go to standard output', 'name a new file');
  mustBeThere(config);
  const path = resolve(args[0] as string);
  mustBeFree(path);
  await heeding((heed) => copy(from, path, heed));
  const bytes = statSync(path).size;
  print(json ? JSON.stringify({ file: path, bytes }) : `wrote ${path}, ${bytes} bytes`);
  return 0;
}

/** Under another name, which is locked, until it is whole: what a backup left that was killed is written over. */
async function copy(from: string, path: string, heed: () => Promise<void>): Promise<void> {
  const partial = `${path}.part`;
  const letGo = lockPartial(path, partial);
  try {
    removeParts(partial);
    closeSync(create(partial));
    tryBackUp(from, partial, path);
    await heed();
    const [flaw] = flaws(partial);
    if (flaw) throw new Refused(`the database is damaged: ${flaw}`, 'sallyport doctor tells more');
    await heed();
    nameIt(path, partial);
    syncFolderOf(path);
  } finally {
    removeDatabase(partial);
    letGo();
  }
}

/** SQLite does not say which of the two it is about; that there is no room can only be the new one. */
function tryBackUp(from: string, partial: string, path: string): void {
  try {
    backUp(from, partial);
  } catch (error) {
    const isFull = (error as SQLiteError).code === 'SQLITE_FULL';
    throw cannot(isFull ? `${path} cannot be written` : `${from} cannot be copied`, error);
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
