/**
 * Every process that uses a SQLite database holds a shared lock on a small file next to it. Replacing the database needs
 * an exclusive lock. This also works if the database is damaged. The operating system releases the lock when a process
 * ends.
 */
import type { Database, SQLiteError } from 'bun:sqlite';
import { existsSync, lstatSync } from 'node:fs';
import { dirname } from 'node:path';
import { DbUnavailable } from '../db.ts';
import { createOwned, openDatabase, pathWithoutLinks } from './file-ownership.ts';

export function lockFile(path: string): string {
  return `${path}-lock`;
}

/** Takes a shared lock and returns a function that releases it. Throws if another process holds an exclusive lock. */
export function lockShared(path: string): () => void {
  const db = openLock(path, 5000);
  return hold(db, () => {
    db.run('begin');
    db.run('select count(*) from sqlite_master');
  });
}

/** Another process uses the database. */
export class InUse extends Error {}

/** Takes an exclusive lock and returns a function that releases it. Throws `InUse` if another process holds a lock. */
export function lockExclusively(path: string): () => void {
  const db = openLock(path, 0);
  try {
    return hold(db, () => db.run('begin exclusive'));
  } catch (error) {
    if ((error as SQLiteError).code?.startsWith('SQLITE_BUSY')) throw new InUse(`${path} is in use`);
    throw new DbUnavailable(`cannot be locked: ${(error as Error).message}`, { cause: error });
  }
}

/** Whether another process uses the database. Call this before this process takes a lock. */
export function isInUse(path: string): boolean {
  try {
    lockExclusively(path)();
    return false;
  } catch (error) {
    return error instanceof InUse;
  }
}

function openLock(path: string, timeout: number): Database {
  // If `path` is a link, the lock file is beside the database that it points to.
  const file = lockFile(pathWithoutLinks(path));
  createOwned(file, existsSync(path) ? path : dirname(path));
  if (lstatSync(file).isSymbolicLink())
    throw new DbUnavailable(`${file} is a link, which the service never creates: remove it`);
  const db = openDatabase(file, 'create');
  db.run(`pragma busy_timeout = ${timeout}`);
  return db;
}

function hold(db: Database, take: () => void): () => void {
  try {
    take();
  } catch (error) {
    db.close();
    throw error;
  }
  return () => db.close();
}
