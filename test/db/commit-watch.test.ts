import { Database } from 'bun:sqlite';
import { afterEach, beforeEach, expect, test } from 'bun:test';
import { linkSync, rmSync, statSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Db, DbUnavailable } from '../../src/db/db.ts';
import { generationFile, mapCounters, watchCommits } from '../../src/db/sqlite/commit-watch.ts';
import { openSqlite } from '../../src/db/sqlite/sqlite.ts';
import { temporaryFolder } from '../support/cleanup.ts';

let folder: string;
let path: string;
let db: Db;
beforeEach(async () => {
  folder = temporaryFolder();
  path = join(folder, 'some file.db');
  db = openSqlite(path, Date.now);
  await db.run('create table t (n integer)');
});
afterEach(async () => {
  await db.close();
});

const generation = () => db.local!.generation();
const insert = 'insert into t values (1)';
/** Watches `db` with a clock that only the test moves. */
function watchWithClock(checkFile?: () => void) {
  const watch = watchCommits(mapCounters(path), db, checkFile, () => moved.time);
  const moved = { time: 0, generation: watch.generation };
  return moved;
}

const nextTurn = () => new Promise(setImmediate);

/** Runs a statement in another process, which opens the database like the service. Blocks the event loop. */
function inAnotherProcess(sql: string): void {
  const engine = join(import.meta.dir, '../../src/db/sqlite/sqlite.ts');
  const program = `
    const { openSqlite } = await import(${JSON.stringify(engine)});
    const db = openSqlite(${JSON.stringify(path)}, Date.now);
    await db.run(${JSON.stringify(sql)});
    await db.close();`;
  expect(Bun.spawnSync([process.execPath, '-e', program]).exitCode).toBe(0);
}

test('the generation stays the same until the next commit', async () => {
  const before = generation();
  expect(before).toBeNumber();
  await nextTurn();
  expect(generation()).toBe(before);
  await expect(
    db.transaction((tx) => {
      tx.run(insert);
      throw new Error('rolled back');
    }),
  ).rejects.toThrow('rolled back');
  expect(generation()).toBe(before);
});

test('every commit of this process changes the generation, on every connection', async () => {
  const other = openSqlite(path, Date.now);
  const seen = new Set([generation()]);
  for (let n = 0; n < 20; n++) {
    await (n % 2 ? db : other).run(insert);
    seen.add(generation());
  }
  expect(seen.size).toBe(21);
  expect(seen.has(undefined)).toBe(false);
  await other.close();
});

test('a commit of another process changes the generation within the same turn of the event loop', () => {
  const before = generation();
  inAnotherProcess(insert);
  expect(generation()).toBeNumber();
  expect(generation()).not.toBe(before);
});

test('a commit after the write-ahead log was reset changes the generation', async () => {
  for (let n = 0; n < 5; n++) {
    await db.run(insert);
    db.get('pragma wal_checkpoint(truncate)');
    const before = generation();
    await db.run(insert);
    expect(generation()).not.toBe(before);
  }
});

test('a commit of a program without counters changes the generation after a millisecond', () => {
  const watch = watchWithClock();
  const foreign = new Database(path);
  const before = watch.generation();
  foreign.run(insert);
  watch.time += 0.99;
  expect(watch.generation()).toBe(before);
  watch.time += 0.01;
  expect(watch.generation()).not.toBe(before);
  foreign.close();
});

test('a commit of a process with another counter file changes the generation after a millisecond', () => {
  const watch = watchWithClock();
  const before = watch.generation();
  rmSync(generationFile(path));
  inAnotherProcess(insert);
  watch.time += 1;
  expect(watch.generation()).not.toBe(before);
});

test('the file is checked again after a millisecond, and for every request while a check fails', () => {
  let problem = '';
  const watch = watchWithClock(() => {
    if (problem !== '') throw new Error(problem);
  });
  const before = watch.generation();
  problem = 'the file was moved';
  expect(watch.generation()).toBe(before);
  watch.time += 1;
  expect(watch.generation).toThrow(problem);
  expect(watch.generation).toThrow(problem);
  problem = '';
  expect(watch.generation()).toBe(before);
});

test('the generation is undefined while a commit is in progress', () => {
  const writer = watchCommits(mapCounters(path), db);
  const before = generation();
  const end = writer.beginCommit();
  expect(generation()).toBeUndefined();
  end();
  expect(generation()).toBeNumber();
  expect(generation()).not.toBe(before);
});

test('the generation is undefined after a process ended during its commit, until the next commit', async () => {
  watchCommits(mapCounters(path), db).beginCommit();
  expect(generation()).toBeUndefined();
  await nextTurn();
  expect(generation()).toBeUndefined();
  await db.run(insert);
  expect(generation()).toBeNumber();
});

test('the generation is undefined after two commits ended in the wrong order, until the next commit', async () => {
  const writer = watchCommits(mapCounters(path), db);
  const [first, second] = [writer.beginCommit(), writer.beginCommit()];
  first();
  expect(generation()).toBeUndefined();
  second();
  const before = generation();
  expect(before).toBeNumber();
  const [third, fourth] = [writer.beginCommit(), writer.beginCommit()];
  fourth();
  third();
  expect(generation()).toBeUndefined();
  await db.run(insert);
  expect(generation()).toBeNumber();
  expect(generation()).not.toBe(before);
});

test('a counter file that is too short is extended', async () => {
  await db.close();
  truncateSync(generationFile(path), 0);
  db = openSqlite(path, Date.now);
  expect(statSync(generationFile(path)).size).toBe(4096);
  expect(generation()).toBeNumber();
});

test.each([
  ['symbolic', symlinkSync],
  ['hard', linkSync],
])('a %s link in place of the counter file is rejected and its target is not changed', async (_, link) => {
  await db.close();
  const target = join(folder, 'target');
  writeFileSync(target, 'x'.repeat(5000));
  rmSync(generationFile(path));
  link(target, generationFile(path));
  expect(() => openSqlite(path, Date.now)).toThrow(DbUnavailable);
  expect(await Bun.file(target).text()).toBe('x'.repeat(5000));
  rmSync(generationFile(path));
  db = openSqlite(path, Date.now);
});
