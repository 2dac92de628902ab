/** A SQLite database as a file: copies of it, and whether it is whole. */
import type { Database } from 'bun:sqlite';
import { closeSync, existsSync, fstatSync, fsyncSync, openSync, renameSync, rmSync } from 'node:fs';
import { anchorOf } from '../store/audit/hash-chain.ts';
import { type BackupMac, copyBytes, copyChecked, readMac } from '../store/crypto/backup-mac.ts';
import { lacking, type MasterKeys } from '../store/crypto/keyring.ts';
import { generationFile } from '../store/engine/commit-watch.ts';
import { createExclusively, inRealFolder } from '../store/engine/file-ownership.ts';
import { lockFile, shareLock } from '../store/engine/sqlite-lock.ts';
import { openFile } from '../store/engine/sqlite-open.ts';
import { schemaDifferences } from '../store/engine/sqlite-schema.ts';

/** What must not come back to life: Sessions with their nonces, and answers kept for repeated requests. */
const shortLived = ['sessions', 'idempotency'];

/**
 * Copies a database that may be in use all the while, as it is at one moment, into an empty file. What is
 * short-lived is left out, so that the copy is safe to be served from, however it gets there. Returns the id of the
 * master key that it is sealed with, if there is one.
 */
export function backUp(from: string, to: string): string | undefined {
  const letGo = shareLock(from);
  try {
    within(from, (db) => db.run('vacuum into ?', [inRealFolder(to)]));
    return within(to, (db) => {
      db.run('pragma secure_delete = on');
      for (const table of shortLived) if (hasTable(db, table)) db.run(`delete from ${table}`);
      if (!hasTable(db, 'master_key')) return undefined;
      return (db.query('select id from master_key where one = 1').values() as [string][])[0]?.[0];
    });
  } finally {
    letGo();
  }
}

/** Whether a file proved to be a backup that was made under one of the master keys. */
export type Verification =
  | { readonly verified: true; readonly taken_at: string; readonly master_key: string }
  | { readonly verified: false; readonly why: string };

/**
 * Copies a backup into a new file, in one piece for its owner alone. Calls `accept` where it is not verified, which
 * throws to stop there. Only then a log beside the file is read too: no MAC covers it.
 */
export function unpack(
  from: string,
  to: string,
  masters: Pick<MasterKeys, 'find' | 'lacking'>,
  accept: (why: string, todo: string) => void,
): Verification {
  const verification = withFile(openSync(from, 'r'), from, (source): Verification => {
    const found = readMac(source);
    const master = found && masters.find(found.master_key);
    const unproved = ({ why, todo }: Reason) => {
      accept(why, todo);
      return { verified: false as const, why };
    };
    if (!found || !master) {
      const result = unproved(found ? withoutKey(found, masters) : noMac);
      writeNew(to, (file) => copyBytes(source, file, found?.length ?? fstatSync(source).size));
      return result;
    }
    const matches = writeNew(to, (file) => copyChecked(source, file, found, master));
    const { taken_at, master_key } = found;
    return matches ? { verified: true, taken_at, master_key } : unproved(mismatch);
  });
  if (!verification.verified && existsSync(`${from}-wal`)) copyFile(`${from}-wal`, `${to}-wal`);
  within(to, fold);
  sync(to);
  return verification;
}

interface Reason {
  readonly why: string;
  readonly todo: string;
}

const noMac: Reason = {
  why: 'it has no MAC: an older version or another program made it, or its end is missing',
  todo: 'use a backup that this version made',
};
const mismatch: Reason = {
  why: 'its MAC does not match: it was changed or damaged after it was made',
  todo: 'use another backup',
};

function withoutKey({ master_key }: BackupMac, masters: Pick<MasterKeys, 'lacking'>): Reason {
  return {
    why: `its MAC was made with the master key ${master_key}, ${lacking(masters)}`,
    todo: 'give that master key',
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

/** Closes the file in the end. Of a descriptor the system does not know the path, so that errors are told it. */
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

/** How its schema differs from ours. Throws if it cannot be read. */
export function foreignSchema(path: string): string[] {
  return within(path, schemaDifferences);
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
  for (const file of [lockFile(path), generationFile(path)]) rmSync(file, { force: true });
}

/** The same, but for its lock, which somebody holds. */
export function removeParts(path: string): void {
  for (const part of parts) rmSync(path + part, { force: true });
}

function within<T>(path: string, work: (db: Database) => T): T {
  const db = openFile(path, 'existing');
  try {
    db.run('pragma busy_timeout = 5000');
    // Somebody else may have written the schema.
    db.run('pragma trusted_schema = off');
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
