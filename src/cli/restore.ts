import { SQLiteError } from 'bun:sqlite';
import { existsSync, realpathSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { masterKeys } from '../master-key.ts';
import { openStore } from '../store/open.ts';
import { makeFolder, makeLike } from '../store/owner.ts';
import { anythingOf, flaws, moveAway, removeDatabase, settle, unpack } from '../store/sqlite-files.ts';
import { lockAlone } from '../store/sqlite-lock.ts';
import { type Command, type Invocation, Refused, UsageError } from './command.ts';
import { mustBeFile, syncFolderOf } from './files.ts';
import { sqlitePath } from './place.ts';
import { mustGoTogether, type Report, recoverOptions, recoverStore, reportLines } from './recover.ts';
import { cannot } from './trouble.ts';

export const restoreCommand: Command = {
  words: ['restore'],
  takes: ['FILE'],
  options: [
    { name: 'force', sentence: 'Replace the database that is there; it is kept beside the new one.' },
    ...recoverOptions,
  ],
  summary: 'Put a backup in the place of the database, while the service is stopped (SQLite).',
  details:
    'The backup is checked first, and opened with the master key. Sessions, nonces and remembered answers of the past do not come back.',
  run: restore,
};

async function restore(invocation: Invocation): Promise<number> {
  const { config, args, options, json, print } = invocation;
  const target = sqlitePath(config.databaseUrl);
  if (target === undefined)
    throw new UsageError('PostgreSQL restores its own backups', 'pg_restore, then sallyport recover');
  mustGoTogether(options);
  const file = resolve(args[0] as string);
  mustBeFile(file);
  makeFolder(dirname(target));
  const letGo = lockAlone(target);
  try {
    mayReplace(file, target, options.on('force'));
    const staged = `${target}.restoring`;
    const before = existsSync(target) ? settle(target) : undefined;
    const report = await stage(file, staged, target, before, invocation).catch((error) => {
      removeDatabase(staged);
      throw error;
    });
    const replaced = putInPlace(staged, target);
    print(
      json
        ? JSON.stringify({ database: target, ...(replaced && { replaced }), ...report })
        : inWords(target, file, replaced, report),
    );
    return 0;
  } finally {
    letGo();
  }
}

function mayReplace(file: string, target: string, force: boolean): void {
  if (!existsSync(target)) return;
  if (realpathSync(file) === realpathSync(target)) throw new UsageError(`${file} is the database itself`);
  if (!force)
    throw new Refused(`${target} is there already`, '--force replaces it, and keeps it beside the new one');
}

/** Makes the backup ready under another name, so that nothing is touched until all of it is known to be good. */
async function stage(
  file: string,
  staged: string,
  target: string,
  before: string | undefined,
  { config, options }: Invocation,
): Promise<Report> {
  removeDatabase(staged);
  const [flaw] = tryUnpack(file, staged) ?? flaws(staged);
  if (flaw) throw new Refused(`${file} cannot be restored: ${flaw}`, 'try an earlier backup');
  makeLike(target, staged);
  const { store } = await openStore(`sqlite:${staged}`, { masters: masterKeys(config) });
  try {
    return await recoverStore(store, options, before === undefined ? {} : { audit_head: { from: before } });
  } finally {
    await store.close();
  }
}

function tryUnpack(file: string, staged: string): string[] | undefined {
  try {
    unpack(file, staged);
    return undefined;
  } catch (error) {
    if (!(error instanceof SQLiteError)) throw error;
    if (error.code === 'SQLITE_FULL') throw cannot(`${staged} cannot be written`, error);
    return [error.message];
  }
}

/** Between the two steps there is no database at all, which a start takes notice of: never half of one. */
function putInPlace(staged: string, target: string): string | undefined {
  settle(staged);
  const replaced = anythingOf(target) ? `${target}.replaced-${stamp()}` : undefined;
  if (replaced) moveAway(target, replaced);
  moveAway(staged, target);
  removeDatabase(staged);
  syncFolderOf(target);
  return replaced;
}

function stamp(): string {
  return new Date().toISOString().replace(/[-:.]/g, '');
}

function inWords(target: string, file: string, replaced: string | undefined, report: Report): string {
  const kept = replaced ? [`the database before is kept as ${replaced}`] : [];
  return [`restored ${target} from ${file}`, ...kept, ...reportLines(report)].join('\n');
}
