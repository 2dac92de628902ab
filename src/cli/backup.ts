import { closeSync, renameSync, rmSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { backUp, flaws, removeDatabase } from '../store/sqlite-files.ts';
import { type Command, type Invocation, Refused, UsageError } from './command.ts';
import { create, syncFolderOf } from './files.ts';
import { mustBeThere } from './open.ts';
import { sqlitePath } from './place.ts';

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
  mustBeThere(config);
  const path = resolve(args[0] as string);
  const partial = `${path}.part`;
  closeSync(create(path));
  try {
    removeDatabase(partial);
    closeSync(create(partial));
    backUp(from, partial);
    const [flaw] = flaws(partial);
    if (flaw) throw new Refused(`the database is damaged: ${flaw}`, 'sallyport doctor tells more');
    renameSync(partial, path);
    syncFolderOf(path);
  } catch (error) {
    removeDatabase(partial);
    rmSync(path, { force: true });
    throw error;
  }
  const bytes = statSync(path).size;
  print(json ? JSON.stringify({ file: path, bytes }) : `wrote ${path}, ${bytes} bytes`);
  return 0;
}
