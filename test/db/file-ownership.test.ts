/** Files are created and opened by name in a folder where another user can create a link at any time. */

import { Database } from 'bun:sqlite';
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import {
  existsSync,
  lchownSync,
  linkSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { DbUnavailable } from '../../src/db/db.ts';
import { copyOwnership, createOwned } from '../../src/db/sqlite/file-ownership.ts';
import { openSqlite } from '../../src/db/sqlite/sqlite.ts';
import { backUp, flaws, unpack } from '../../src/store/sqlite-backup.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { isMissing } from '../support/skip.ts';

let folder: string;
let target: string;
let link: string;
let database: string;
beforeEach(async () => {
  folder = temporaryFolder();
  target = join(folder, 'target');
  link = join(folder, 'link');
  database = join(folder, 'sallyport.db');
  const db = openSqlite(database, Date.now);
  await db.run('create table schema_versions (version integer)');
  await db.close();
});

/** Targets of a link that the service's user could create: a file of root, a database of root, or no file. */
const targets: [string, () => void][] = [
  ['a file', () => writeFileSync(target, 'precious')],
  ['an empty file', () => writeFileSync(target, '')],
  ['a database', () => new Database(target).run('create table precious (one)')],
  ['nothing', () => {}],
];

describe.each(targets)('a link to %s', (_, make) => {
  let before: string | undefined;
  const content = () => (existsSync(target) ? readFileSync(target, 'latin1') : undefined);
  beforeEach(() => {
    make();
    before = content();
    symlinkSync(target, link);
  });
  afterEach(() => expect(content()).toEqual(before));

  test('is not followed when a file is created', () => expect(createOwned(link)).toBe(false));

  test('is not followed to restore a backup', () =>
    expect(() => unpack(database, link, { find: () => undefined }, () => {})).toThrow());

  test('is not followed to take a backup', () => expect(() => backUp(database, link)).toThrow());

  test('is rejected in place of the lock file', () => {
    rmSync(`${database}-lock`);
    symlinkSync(target, `${database}-lock`);
    expect(() => openSqlite(database, Date.now)).toThrow(/-lock is a link/);
  });

  test.each(['-wal', '-journal', '-shm'])('is not followed in place of %s', async (part) => {
    symlinkSync(target, database + part);
    try {
      const db = openSqlite(database, Date.now);
      await db.run('insert into schema_versions values (1)');
      await db.close();
    } catch (error) {
      expect(error).toBeInstanceOf(DbUnavailable);
    }
  });

  const notRoot = isMissing(process.geteuid?.() === 0, 'tests of file owners: only root can give files away');
  test.skipIf(notRoot)('of another user is not followed by root to a database', () => {
    lchownSync(link, 54_321, 54_321);
    expect(() => openSqlite(link, Date.now)).toThrow(/belongs to user 54321/);
    expect(flaws(link)).toEqual([expect.stringContaining('belongs to user 54321')]);
  });
});

test('a link of the same user to the database is followed', async () => {
  symlinkSync(database, link);
  const db = openSqlite(link, Date.now);
  expect(await db.all('select version from schema_versions')).toEqual([]);
  await db.close();
});

test('a folder may be reached through a link', async () => {
  mkdirSync(join(folder, 'real'));
  symlinkSync(join(folder, 'real'), link);
  await openSqlite(join(link, 'new.db'), Date.now).close();
  expect(existsSync(join(folder, 'real/new.db'))).toBe(true);
});

test('owner and mode are not copied to the target of a symbolic or hard link', () => {
  writeFileSync(target, '', { mode: 0o600 });
  const old = join(folder, 'old');
  writeFileSync(old, '', { mode: 0o644 });
  symlinkSync(target, link);
  expect(() => copyOwnership(old, link)).toThrow();
  rmSync(link);
  linkSync(target, link);
  expect(() => copyOwnership(old, link)).toThrow(/more than one name/);
  expect(statSync(target).mode & 0o777).toBe(0o600);
});
