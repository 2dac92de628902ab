/**
 * Whoever uses a SQLite database shares a lock on a small file beside it; whoever puts another database in its
 * place holds that lock alone. It does not depend on what is in the database, and the system lets go of it when
 * a process ends, however it ends.
 */
import type { Database, SQLiteError } from 'bun:sqlite';
import { existsSync, lstatSync } from 'node:fs';
import { dirname } from 'node:path';
import { DbUnavailable } from './db.ts';
import { createOwned } from './file-ownership.ts';
import { openFile } from './sqlite-open.ts';

export function lockFile(path: string): string {
  return `${path}-lock`;
}

/** Answers with the way to let go. Throws while somebody holds it alone. */
export function shareLock(path: string): () => void {
  const db = openLock(path, 5000);
  return hold(db, () => {
    db.run('begin');
    db.run('select count(*) from sqlite_master');
  });
}

/** Somebody else uses the database. */
export class InUse extends Error {}

/** The same for one alone. Throws `InUse` while anybody else has any part of it. */
export function lockAlone(path: string): () => void {
  const db = openLock(path, 0);
  try {
    return hold(db, () => db.run('begin exclusive'));
  } catch (error) {
    if ((error as SQLiteError).code?.startsWith('SQLITE_BUSY')) throw new InUse(`${path} is in use`);
    throw new DbUnavailable(`cannot be locked: ${(error as Error).message}`, { cause: error });
  }
}

function openLock(path: string, patience: number): Database {
  const file = lockFile(path);
  createOwned(file, existsSync(path) ? path : dirname(path));
  if (lstatSync(file).isSymbolicLink())
    throw new DbUnavailable(`${file} is a link, which the service never makes: remove it`);
  const db = openFile(file, 'create');
  db.run(`pragma busy_timeout = ${patience}`);
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
