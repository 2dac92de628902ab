/** Checks a SQLite file for `doctor`. */
import type { Database } from 'bun:sqlite';
import type { Db } from '../db/db.ts';
import { schemaDifferences } from '../db/migrate.ts';
import { lockShared } from '../db/sqlite/sqlite-lock.ts';
import { readSqliteSettings } from '../store/operator-queries.ts';
import { hasMigrations, integrityErrors, readFrom } from '../store/sqlite-backup.ts';
import { type Check, fail, ok, warn } from './check.ts';

export function restoreHint(path: string): string {
  return `stop the service and restore a backup of ${path}: see docs/operations/backups.md`;
}

/**
 * Checks the whole file with a read-only connection. A connection that can write may move the write-ahead log into a
 * damaged file. Returns only problems. Throws if the file cannot be opened.
 */
export function checkSqliteFile(path: string): Check[] {
  const unlock = lockShared(path);
  try {
    return readFrom(path, (db) => {
      const [error] = integrityErrors(db);
      if (error !== undefined) return [fail('database', `${path} is damaged: ${error}`, restoreHint(path))];
      return checkSchemaObjects(db, path);
    });
  } finally {
    unlock();
  }
}

/** Returns no problems for a database without migrations: `checkSchema` reports it. */
function checkSchemaObjects(db: Database, path: string): Check[] {
  if (!hasMigrations(db)) return [];
  const [first, ...others] = schemaDifferences(db);
  if (first === undefined) return [];
  const more = others.length > 0 ? `, and ${others.length} more differences` : '';
  const message = `another program has changed the schema of ${path}: ${first}${more}`;
  return [warn('schema', message, `undo that change, or ${restoreHint(path)}`)];
}

/** Older versions can corrupt a database in WAL mode when two connections write at the same time. */
const minSqlite = '3.51.3';

/** Checks the SQLite version and the settings of a connection that was opened like those of the service. */
export async function checkSqliteSettings(db: Db, path: string): Promise<Check[]> {
  const { version, journal_mode, synchronous } = await readSqliteSettings(db);
  const problems: Check[] = [];
  const failed = (message: string, hint: string) => problems.push(fail('database', message, hint));
  if (version.localeCompare(minSqlite, 'en', { numeric: true }) < 0)
    failed(`SQLite ${version} can lose data`, `run with SQLite ${minSqlite} or later: npm ci`);
  // log-sync.ts syncs the commits.
  if (journal_mode !== 'wal' || synchronous !== 1)
    failed(
      `journal_mode is ${journal_mode} and synchronous is ${synchronous}, not WAL and NORMAL`,
      `move ${path} to a local disk, which supports WAL mode`,
    );
  return problems.length > 0 ? problems : [ok('database', `SQLite ${version}, integrity check passed`)];
}
