/** Copies SQLite database files and checks their integrity. */

import type { Database } from 'bun:sqlite';
import { closeSync, existsSync, fstatSync, fsyncSync, openSync, renameSync, rmSync } from 'node:fs';
import { headsIn } from '../audit/log.ts';
import type { Head } from '../audit/records.ts';
import { type BackupMac, copyBytes, copyChecked, readMac } from '../db/keys/backup-mac.ts';
import { type MasterKeys, missingReason } from '../db/keys/keyring.ts';
import { schemaDifferences } from '../db/migrate.ts';
import { generationFile } from '../db/sqlite/commit-watch.ts';
import { createExclusively, inRealFolder, openDatabase } from '../db/sqlite/file-ownership.ts';
import { mendLog } from '../db/sqlite/log-sync.ts';
import { lockFile, lockShared } from '../db/sqlite/sqlite-lock.ts';
import { deleteRecordCounts } from './application-storage.ts';

/** Tables that are empty in a backup: sessions with their nonces, and idempotency records. */
const shortLived = ['sessions', 'idempotency'];

/**
 * Copies a consistent snapshot of a database, which may be in use, into an empty file. Omits sessions, nonces and
 * idempotency records, so that the copy can be served without `recover`. Returns the id of its master key, if it has
 * one. The copy is not synced, and damaged if this throws.
 */
export function backUp(from: string, to: string): string | undefined {
  mendLog(from);
  const letGo = lockShared(from);
  try {
    within(from, (db) => {
      db.run('pragma synchronous = off');
      db.run('vacuum into ?', [inRealFolder(to)]);
      // If the service is stopped, closing the database copies its log.
      db.run('pragma synchronous = full');
    });
    return within(to, (db) => {
      // Each sync of a large file would delay the changes of a running service.
      db.run('pragma synchronous = off');
      db.run('pragma journal_mode = off');
      db.run('pragma secure_delete = on');
      if (!hasTable(db, 'schema_versions')) return undefined;
      for (const table of shortLived) db.run(`delete from ${table}`);
      db.run(deleteRecordCounts);
      return (db.query('select id from master_key where one = 1').values() as [string][])[0]?.[0];
    });
  } finally {
    letGo();
  }
}

/** Whether the MAC of a backup is valid under one of the master keys. */
export type Verification =
  | { readonly verified: true; readonly taken_at: string; readonly master_key: string }
  | { readonly verified: false; readonly why: string };

/**
 * Copies a backup into a new file that only its owner can read. If the backup cannot be verified, calls `accept`, which
 * may throw to stop. Ignores the write-ahead log of a verified backup, because no MAC covers that log.
 */
export function unpack(
  from: string,
  to: string,
  masters: Pick<MasterKeys, 'find' | 'missingReason'>,
  accept: (why: string, todo: string) => void,
): Verification {
  const verification = withFile(openSync(from, 'r'), from, (source): Verification => {
    const found = readMac(source);
    const master = found && masters.find(found.master_key);
    const unverified = ({ why, todo }: Reason) => {
      accept(why, todo);
      return { verified: false as const, why };
    };
    if (!found || !master) {
      const result = unverified(found ? withoutKey(found, masters) : noMac);
      writeNew(to, (file) => copyBytes(source, file, found?.length ?? fstatSync(source).size));
      return result;
    }
    const matches = writeNew(to, (file) => copyChecked(source, file, found, master));
    const { taken_at, master_key } = found;
    return matches ? { verified: true, taken_at, master_key } : unverified(mismatch);
  });
  if (!verification.verified && existsSync(`${from}-wal`)) copyFile(`${from}-wal`, `${to}-wal`);
  within(to, applyLog);
  sync(to);
  return verification;
}

interface Reason {
  readonly why: string;
  readonly todo: string;
}

const noMac: Reason = {
  why: 'it has no MAC: another program created it, or its end is missing',
  todo: 'use another backup',
};
const mismatch: Reason = {
  why: 'its MAC does not match: the file was changed or damaged after it was created',
  todo: 'use another backup',
};

function withoutKey({ master_key }: BackupMac, masters: Pick<MasterKeys, 'missingReason'>): Reason {
  return {
    why: `its MAC was created with the master key ${master_key}, ${missingReason(masters)}`,
    todo: 'provide that master key',
  };
}

function copyFile(from: string, to: string): void {
  withFile(openSync(from, 'r'), from, (source) =>
    writeNew(to, (file) => copyBytes(source, file, fstatSync(source).size)),
  );
}

function writeNew<T>(path: string, write: (file: number) => T): T {
  return withFile(createExclusively(path), path, write);
}

/** Closes the file after `work`. Adds the path to system errors, which do not have it for file descriptors. */
function withFile<T>(file: number, path: string, work: (file: number) => T): T {
  try {
    return work(file);
  } catch (error) {
    const failed = error as NodeJS.ErrnoException;
    throw failed.syscall && !failed.path ? Object.assign(failed, { path }) : failed;
  } finally {
    closeSync(file);
  }
}

/** Returns the differences between the schema of a file and that of this version. Throws if the file cannot be read. */
export function foreignSchema(path: string): string[] {
  return within(path, schemaDifferences);
}

/** Returns the errors that the integrity checks find, or the reason why the file cannot be checked. */
export function flaws(path: string): string[] {
  try {
    return within(path, (db) =>
      hasTable(db, 'schema_versions') ? integrityErrors(db) : ['it is not a Sallyport database'],
    );
  } catch (error) {
    return [(error as Error).message];
  }
}

/** Checks the whole database. Throws if a page that SQLite needs for the check itself is damaged. */
export function integrityErrors(db: Database): string[] {
  const found = db.query('pragma integrity_check(10)').values() as [string][];
  const orphans = db.query('pragma foreign_key_check').values();
  // A message may have several lines.
  const errors = found.map(([text]) => text.replaceAll('\n', ' ')).filter((text) => text !== 'ok');
  return orphans.length > 0 ? [...errors, `${orphans.length} rows refer to deleted rows`] : errors;
}

/** Moves the write-ahead log into the database file. Returns the ends of the audit chains, or undefined on an error. */
export function settle(path: string): Head[] | undefined {
  try {
    return within(path, (db) => {
      applyLog(db);
      return headsIn(db);
    });
  } catch {
    return undefined;
  }
}

/** Suffixes of the files of a database. A remaining log would be applied to the next database with the same name. */
const parts = ['', '-wal', '-shm', '-journal'];

export function anythingOf(path: string): boolean {
  return parts.some((part) => existsSync(path + part));
}

/** Renames a database with its `-wal`, `-shm` and `-journal` files. */
export function moveAway(from: string, to: string): void {
  for (const part of parts) if (existsSync(from + part)) renameSync(from + part, to + part);
}

export function removeDatabase(path: string): void {
  removeParts(path);
  for (const file of [lockFile(path), generationFile(path)]) rmSync(file, { force: true });
}

/** Removes the database and its logs, but not the lock file, which may be locked. */
export function removeParts(path: string): void {
  for (const part of parts) rmSync(path + part, { force: true });
}

function within<T>(path: string, work: (db: Database) => T): T {
  return using(openDatabase(path, 'existing'), work);
}

/** The statements that create the tables and indexes. */
export function schemaText(db: Database): string {
  const rows = db.query<{ sql: string }, []>(
    'select sql from sqlite_master where sql is not null order by name',
  );
  return rows
    .all()
    .map(({ sql }) => `${sql};\n`)
    .join('');
}

/** Runs `work` with a read-only connection to the file. */
export function readFrom<T>(path: string, work: (db: Database) => T): T {
  return using(openDatabase(path, 'read-only'), work);
}

function using<T>(db: Database, work: (db: Database) => T): T {
  try {
    db.run('pragma busy_timeout = 5000');
    // The file may come from an untrusted source.
    db.run('pragma trusted_schema = off');
    return work(db);
  } finally {
    db.close();
  }
}

function applyLog(db: Database): void {
  db.run('pragma journal_mode = delete');
}

export function hasMigrations(db: Database): boolean {
  return hasTable(db, 'schema_versions') && db.query('select 1 from schema_versions').get() !== null;
}

function hasTable(db: Database, name: string): boolean {
  return db.query("select 1 from sqlite_master where type = 'table' and name = ?").get(name) !== null;
}

function sync(path: string): void {
  const file = openSync(path, 'r+');
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}
