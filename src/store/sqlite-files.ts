/** A SQLite database as a file: copies of it, and whether it is whole. */
import type { Database } from 'bun:sqlite';
import {
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { anchorOf } from './chain.ts';
import { createExclusively, inRealFolder } from './owner.ts';
import { lockFile, shareLock } from './sqlite-lock.ts';
import { openFile } from './sqlite-open.ts';

/** What must not come back to life: Sessions with their nonces, and answers kept for repeated requests. */
const shortLived = ['sessions', 'idempotency'];

/**
 * Copies a database that may be in use all the while, as it is at one moment, into an empty file. What is
 * short-lived is left out, so that the copy is safe to be served from, however it gets there.
 */
export function backUp(from: string, to: string): void {
  const letGo = shareLock(from);
  try {
    within(from, (db) => db.run('vacuum into ?', [inRealFolder(to)]));
    within(to, (db) => {
      db.run('pragma secure_delete = on');
      for (const table of shortLived) if (hasTable(db, table)) db.run(`delete from ${table}`);
    });
  } finally {
    letGo();
  }
  sync(to);
}

/** Copies a file that nobody has open, with what its log holds, into one piece for its owner alone. */
export function unpack(from: string, to: string): void {
  copy(from, to);
  if (existsSync(`${from}-wal`)) copy(`${from}-wal`, `${to}-wal`);
  within(to, fold);
  sync(to);
}

/** Bytes that are copied at once. */
const chunk = 1024 * 1024;

/** Into a new file. Throws if there is anything by that name. */
function copy(from: string, to: string): void {
  const source = openSync(from, 'r');
  try {
    const file = createExclusively(to);
    try {
      const buffer = Buffer.allocUnsafe(chunk);
      for (let read = readSync(source, buffer); read > 0; read = readSync(source, buffer))
        writeFileSync(file, buffer.subarray(0, read));
    } catch (error) {
      // Of a descriptor the system does not know the path.
      throw Object.assign(error as Error, { path: to });
    } finally {
      closeSync(file);
    }
  } finally {
    closeSync(source);
  }
}

/** What is wrong with it; nothing if it is whole. */
export function flaws(path: string): string[] {
  try {
    return within(path, (db) => {
      if (!hasTable(db, 'schema_versions')) return ['it is not a database of Sallyport'];
      const found = db.query('pragma integrity_check(10)').values() as [string][];
      const orphans = db.query('pragma foreign_key_check').values();
      const torn = found.map(([text]) => text).filter((text) => text !== 'ok');
      return orphans.length > 0 ? [...torn, `${orphans.length} rows refer to rows that are gone`] : torn;
    });
  } catch (error) {
    return [(error as Error).message];
  }
}

/** Where its audit log ends, if that can be read. Its log is folded in, so that the one file is all of it. */
export function settle(path: string): string | undefined {
  try {
    return within(path, (db) => {
      fold(db);
      const last = 'select seq, hash from audit_checkpoints order by seq desc limit 1';
      const head = db.query(last).get() as { seq: number; hash: Uint8Array } | null;
      return head ? anchorOf(head) : undefined;
    });
  } catch {
    return undefined;
  }
}

/** A log that is left from another database would be taken for this one's. */
const parts = ['', '-wal', '-shm', '-journal'];

export function anythingOf(path: string): boolean {
  return parts.some((part) => existsSync(path + part));
}

/** Gives a database another name, with all that belongs to it. */
export function moveAway(from: string, to: string): void {
  for (const part of parts) if (existsSync(from + part)) renameSync(from + part, to + part);
}

export function removeDatabase(path: string): void {
  removeParts(path);
  rmSync(lockFile(path), { force: true });
}

/** The same, but for its lock, which somebody holds. */
export function removeParts(path: string): void {
  for (const part of parts) rmSync(path + part, { force: true });
}

function within<T>(path: string, work: (db: Database) => T): T {
  const db = openFile(path, 'existing');
  try {
    db.run('pragma busy_timeout = 5000');
    return work(db);
  } finally {
    db.close();
  }
}

function fold(db: Database): void {
  db.run('pragma journal_mode = delete');
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
