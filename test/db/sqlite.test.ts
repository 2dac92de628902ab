import { afterEach, beforeEach, expect, test } from 'bun:test';
import {
  closeSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { type Db, DbUnavailable } from '../../src/db/db.ts';
import { openSqlite } from '../../src/db/sqlite/sqlite.ts';
import { InUse, lockExclusively } from '../../src/db/sqlite/sqlite-lock.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { runSql } from '../support/test-store.ts';

let folder: string;
let path: string;
let db: Db;

beforeEach(async () => {
  folder = temporaryFolder();
  path = join(folder, 'test.db');
  // The clock does not advance, so that changes share a commit on slow machines, too.
  db = openSqlite(path, () => 1);
  await db.run('create table things (name text primary key) strict');
});
afterEach(async () => {
  await db.close();
});

const names = async () =>
  (await runSql<{ name: string }>(`sqlite:${path}`, 'select name from things order by name')).map(
    ({ name }) => name,
  );
const add = (name: string) => db.run(['insert into things values ($1)', [name]]);

test('the writing connection leaves syncs to the log and enforces foreign keys', async () => {
  const inForce = async (pragma: string) =>
    Object.values((await db.transaction(async (tx) => tx.get(`pragma ${pragma}`))) as object)[0];
  expect(await inForce('journal_mode')).toBe('wal');
  expect(await inForce('synchronous')).toBe(1);
  expect(await inForce('foreign_keys')).toBe(1);
});

test('more statements than the cache of prepared statements holds work, also inside a change', async () => {
  await add('one');
  const sum = (on: Pick<Db, 'get'>, n: number) =>
    on.get<{ sum: number }>([`select $1 + ${n} as sum from things`, [n]]);
  const ask = async (on: Pick<Db, 'get'>) => {
    for (let n = 0; n < 1100; n++) expect(await sum(on, n)).toEqual({ sum: 2 * n });
    expect(await sum(on, 0)).toEqual({ sum: 0 });
  };
  await ask(db);
  await db.transaction(ask);
  await add('two');
  expect(await names()).toEqual(['one', 'two']);
});

test('a change is committed when it resolves', async () => {
  await add('one');
  expect(await names()).toEqual(['one']);
});

test('changes that are requested together resolve after their commit, none before', async () => {
  const isStored = async (name: string) => (await names()).includes(name);
  const change = async (name: string) => {
    const during = await db.transaction(async (tx) => {
      await tx.run(['insert into things values ($1)', [name]]);
      return isStored(name);
    });
    return [during, await isStored(name)];
  };
  const stored = await Promise.all([change('one'), change('two'), change('three')]);
  expect(stored).toEqual([
    [false, true],
    [false, true],
    [false, true],
  ]);
});

test('if a commit fails, all of its changes fail, and none is stored', async () => {
  await db.run(
    `create table parts (thing text references things (name) deferrable initially deferred) strict`,
  );
  const outcomes = await Promise.allSettled([
    add('one'),
    db.run("insert into parts values ('nobody')"),
    add('two'),
  ]);
  expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
  await add('three');
  expect(await names()).toEqual(['three']);
});

test('a change that fails after writing is rolled back, and the others in its commit succeed', async () => {
  const outcomes = await Promise.allSettled([
    add('before'),
    db.transaction(async (tx) => {
      await tx.run(['insert into things values ($1)', ['half']]);
      throw new Error('on second thought');
    }),
    db.transaction(async (tx) => {
      await tx.run(['insert into things values ($1)', ['half']]);
      await tx.run(['insert into things values ($1)', ['before']]);
    }),
    add('after'),
  ]);
  expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected', 'fulfilled']);
  expect(await names()).toEqual(['after', 'before']);
});

test('a change that fails before writing does not cause the others to run again', async () => {
  let runs = 0;
  const outcomes = await Promise.allSettled([
    db.transaction(async (tx) => {
      runs++;
      return tx.run(['insert into things values ($1)', ['one']]);
    }),
    db.transaction(async (tx) => {
      await tx.run(['delete from things where name = $1', ['nobody']]);
      throw new Error('refused');
    }),
  ]);
  expect(outcomes).toMatchObject([{ value: 1 }, { reason: new Error('refused') }]);
  expect(runs).toBe(1);
  expect(await names()).toEqual(['one']);
});

test('a failed schema change is rolled back', async () => {
  const failing = db.exclusively(async (tx) => {
    await tx.run('create table more (name text)');
    throw new Error('refused');
  });
  await Promise.allSettled([add('one'), failing]);
  expect(await db.get("select 1 from sqlite_master where name = 'more'")).toBeUndefined();
  expect(await names()).toEqual(['one']);
});

test('more concurrent changes than fit into one commit all succeed', async () => {
  await Promise.all(Array.from({ length: 1100 }, (_, index) => add(`n${index}`)));
  expect(await names()).toHaveLength(1100);
});

test('a full disk leaves no partial change, and writing resumes when there is space', async () => {
  await add('kept');
  const { pages } = (await db.get<{ pages: number }>('select page_count as pages from pragma_page_count'))!;
  const roomFor = (count: number) => db.transaction(async (tx) => tx.get(`pragma max_page_count = ${count}`));
  await roomFor(pages);
  const outcomes = await Promise.allSettled([add('x'.repeat(1_000_000)), add('y'.repeat(1_000_000))]);
  for (const outcome of outcomes) {
    expect(outcome).toMatchObject({ status: 'rejected', reason: expect.any(DbUnavailable) });
  }
  expect(await names()).toEqual(['kept']);
  await roomFor(1_000_000);
  await add('more');
  expect(await names()).toEqual(['kept', 'more']);
});

test('on a full disk, essential changes use the reserve, and others are made when it is complete again', async () => {
  const mebibyte = 1 << 20;
  let time = 0;
  const reserve = () => statSync(`${path}-reserve`).size;
  await db.close();
  db = openSqlite(path, () => time, false, mebibyte);
  const addOthers = (name: string, isEssential: boolean) =>
    db.change((tx) => tx.run(['insert into things values ($1)', [name]]), undefined, undefined, isEssential);
  await add('kept');
  expect(reserve()).toBe(mebibyte);
  const { pages } = (await db.get<{ pages: number }>('select page_count as pages from pragma_page_count'))!;
  const roomFor = (count: number) => db.exclusively(async (tx) => tx.get(`pragma max_page_count = ${count}`));
  await roomFor(pages);
  await expect(add('x'.repeat(1_000_000))).rejects.toThrow(DbUnavailable);
  expect([reserve(), db.local?.isDiskFull()]).toEqual([0.75 * mebibyte, true]);
  await expect(add('refused')).rejects.toMatchObject({ code: 'disk_full' });
  await addOthers('essential', true);
  expect(reserve()).toBe(0.75 * mebibyte);
  await expect(addOthers('y'.repeat(1_000_000), true)).rejects.toThrow(DbUnavailable);
  expect(reserve()).toBe(0);
  await roomFor(1_000_000);
  await expect(add('too early')).rejects.toMatchObject({ code: 'disk_full' });
  time += 1000;
  await add('more');
  expect([reserve(), db.local?.isDiskFull()]).toEqual([mebibyte, false]);
  expect(await names()).toEqual(['essential', 'kept', 'more']);
});

test('closing waits for changes in progress and removes the write-ahead log', async () => {
  const adding = add('last');
  db.get('select 1');
  await db.close();
  await adding;
  expect(readdirSync(folder).sort()).toEqual(['test.db', 'test.db-generation', 'test.db-lock']);
  db = openSqlite(path, Date.now);
  expect(await names()).toEqual(['last']);
});

test('the file can be read by its owner alone', async () => {
  for (const file of readdirSync(folder)) {
    expect([file, statSync(join(folder, file)).mode & 0o777]).toEqual([file, 0o600]);
  }
});

test('a database that is open cannot be locked exclusively through a link to it', () => {
  const link = join(folder, 'link.db');
  symlinkSync(path, link);
  expect(() => lockExclusively(link)).toThrow(InUse);
});

test('a file that is not a database is reported as unavailable and not overwritten', async () => {
  const other = join(folder, 'letter.txt');
  writeFileSync(other, 'Dear all, this is a letter and no database.\n'.repeat(50));
  expect(() => openSqlite(other, Date.now)).toThrow(DbUnavailable);
  expect(statSync(other).size).toBe(44 * 50);
});

test.each(['missing', 'empty'])(
  'beside a file that is %s, a write-ahead log with data is not deleted',
  (state) => {
    const lost = join(folder, 'lost.db');
    if (state === 'empty') writeFileSync(lost, '');
    writeFileSync(`${lost}-wal`, 'the only copy');
    expect(() => openSqlite(lost, Date.now)).toThrow(
      /lost.db is missing or empty, but .*-wal has data of it/,
    );
    expect(readFileSync(`${lost}-wal`, 'utf8')).toBe('the only copy');
    expect(existsSync(lost)).toBe(state === 'empty');
  },
);

test('a new file that another process is writing is opened when it has finished', async () => {
  const other = join(folder, 'other.db');
  const program = `
    const db = new (require('bun:sqlite').Database)(${JSON.stringify(other)});
    db.run('begin immediate');
    console.log('writing');
    setTimeout(() => db.run('commit'), 100);`;
  const child = Bun.spawn([process.execPath, '-e', program], { stdio: ['ignore', 'pipe', 'inherit'] });
  await child.stdout.getReader().read();
  await openSqlite(other, Date.now).close();
  expect(await child.exited).toBe(0);
});

test('after the first sign of damage writes are refused, and the reason says what to do', async () => {
  for (let at = 0; at < 50; at++)
    await db.run(['insert into things values ($1)', [`${at}`.padEnd(4000, 'x')]]);
  await db.close();
  await runSql(`sqlite:${path}`, 'pragma wal_checkpoint(truncate)');
  const file = openSync(path, 'r+');
  for (let page = 3; page < 40; page++) writeSync(file, Buffer.alloc(4096, 0xff), 0, 4096, page * 4096);
  closeSync(file);
  db = openSqlite(path, Date.now);
  expect(db.local?.fileProblem()).toBeUndefined();
  const read = Promise.try(() => db.all('select sum(length(name)) from things'));
  await expect(read).rejects.toThrow(DbUnavailable);
  await expect(add('new')).rejects.toThrow(
    /test\.db is damaged \(.+\): stop the service, run `sallyport doctor`/,
  );
  expect(db.local?.fileProblem()).toContain('is damaged');
});
