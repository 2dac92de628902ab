import { afterEach, beforeEach, expect, test } from 'bun:test';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Db, DbUnavailable } from '../../src/db/db.ts';
import { groupCommit } from '../../src/db/group-commit.ts';
import { counter, mapCounters } from '../../src/db/sqlite/commit-watch.ts';
import { mendLog, syncLog } from '../../src/db/sqlite/log-sync.ts';
import { openSqlite } from '../../src/db/sqlite/sqlite.ts';
import { runSql } from '../support/test-store.ts';
import { until } from '../support/until.ts';

let folder: string;
let path: string;
let db: Db;
let counters: Int32Array;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sallyport-syncs-'));
  path = join(folder, 'test.db');
  db = openSqlite(path, Date.now);
  await db.run('create table things (name text primary key, data blob) strict');
  counters = mapCounters(path);
});
afterEach(async () => {
  Atomics.store(counters, counter.failed, 0);
  await db.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Syncs that end when the test says so. */
function openLog(limits?: { slow: number; hung: number }) {
  const syncs: PromiseWithResolvers<void>[] = [];
  const ends: unknown[] = [];
  const sync = () => {
    const running = Promise.withResolvers<void>();
    syncs.push(running);
    return running.promise;
  };
  const log = syncLog(
    path,
    counters,
    () => {},
    sync,
    (_, error) => ends.push(error),
    limits,
  );
  return { log, syncs, ends };
}

const settle = async () => {
  for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate);
};

function watched(promise: Promise<unknown>) {
  const state = { isDone: false };
  promise.then(
    () => {
      state.isDone = true;
    },
    () => {},
  );
  return state;
}

/** As another process would. */
function commit(): void {
  Atomics.add(counters, counter.begun, 1);
  Atomics.add(counters, counter.ended, 1);
}

test('a commit is durable after a sync that began after it, and needs no second one', async () => {
  const { log, syncs } = openLog();
  const first = watched(log.durable());
  await settle();
  commit();
  const second = watched(log.durable());
  await settle();
  expect([syncs.length, first.isDone, second.isDone]).toEqual([1, false, false]);
  syncs[0]?.resolve();
  await settle();
  expect([syncs.length, first.isDone, second.isDone]).toEqual([2, true, false]);
  syncs[1]?.resolve();
  await settle();
  await log.durable();
  expect([syncs.length, second.isDone, log.isSynced()]).toEqual([2, true, true]);
  log.close();
});

test('a commit that has begun and not ended when a sync begins needs another one', async () => {
  const { log, syncs } = openLog();
  Atomics.add(counters, counter.begun, 1);
  const before = log.durable();
  await settle();
  syncs[0]?.resolve();
  await before;
  Atomics.add(counters, counter.ended, 1);
  const after = watched(log.durable());
  await settle();
  expect([syncs.length, after.isDone]).toEqual([2, false]);
  syncs[1]?.resolve();
  await settle();
  expect(after.isDone).toBe(true);
  log.close();
});

test('a commit that has written nothing needs no sync, unless an earlier one does', async () => {
  const { log, syncs } = openLog();
  const before = log.durable();
  await settle();
  syncs[0]?.resolve();
  await before;
  const writeNothing = () => {
    Atomics.add(counters, counter.begun, 1);
    log.beforeCommit()();
    Atomics.add(counters, counter.ended, 1);
  };
  writeNothing();
  expect(log.isSynced()).toBe(true);
  commit();
  writeNothing();
  expect(log.isSynced()).toBe(false);
  log.close();
});

test('a failed sync ends this process, and the others when they look', async () => {
  const { log, syncs, ends } = openLog();
  const waiting = log.durable();
  await settle();
  const failure = new Error('EIO');
  syncs[0]?.reject(failure);
  await expect(waiting).rejects.toThrow(DbUnavailable);
  expect(ends).toEqual([failure]);
  const other = openLog();
  expect(other.log.check).toThrow(DbUnavailable);
  expect(other.ends).toHaveLength(1);
  await expect(other.log.durable()).rejects.toThrow(DbUnavailable);
  expect(other.syncs).toEqual([]);
  for (const each of [log, other.log]) each.close();
});

test('a change that is refused waits for a sync, and the next transaction does not', async () => {
  const synced = Promise.withResolvers<void>();
  let transactions = 0;
  const enqueue = groupCommit({
    transaction: async (work) => {
      transactions++;
      return work(db);
    },
    durable: () => synced.promise,
    maxBatch: 10,
    maxInFlight: Infinity,
    pipelined: false,
  });
  const refused = new Error('refused');
  const first = enqueue(() => {
    throw refused;
  });
  const isAnswered = watched(first.catch(() => {}));
  await settle();
  const second = watched(enqueue(() => 1));
  while (transactions < 2) await settle();
  expect([isAnswered.isDone, second.isDone]).toEqual([false, false]);
  synced.resolve();
  await expect(first).rejects.toBe(refused);
  await settle();
  expect(second.isDone).toBe(true);
});

const logNumber = () => statSync(`${path}-wal`).ino;
const names = () => runSql<{ name: string }>(`sqlite:${path}`, 'select name from things');

/** Runs code in another process, which ends without closing the database. */
function inKilledProcess(code: string): void {
  const engine = join(import.meta.dir, '../../src/db/sqlite');
  const program = `
    const { openSqlite } = await import('${engine}/sqlite.ts');
    const { mapCounters, counter } = await import('${engine}/commit-watch.ts');
    const path = ${JSON.stringify(path)};
    const db = openSqlite(path, Date.now);
    ${code}
    process.kill(process.pid, 'SIGKILL');`;
  expect(Bun.spawnSync([process.execPath, '-e', program]).signalCode).toBe('SIGKILL');
}

test.each([
  ['a sync that failed', 'counter.failed', true],
  ['a sync that did not end', 'counter.syncing', true],
  ['no such sync', 'counter.heldUntil', false],
])('after %s, the next start writes a new log with the same content: %s', async (_, name, isNew) => {
  await db.close();
  inKilledProcess(`await db.run("insert into things values ('kept', null)");
    Atomics.store(mapCounters(path), ${name}, 1);`);
  const before = logNumber();
  db = openSqlite(path, Date.now);
  expect(logNumber() !== before).toBe(isNew);
  expect(await names()).toEqual([{ name: 'kept' }]);
  expect([counters[counter.syncing], counters[counter.failed]]).toEqual([0, 0]);
});

test('while other processes use the database, the log stays, and after a failed sync nobody joins them', async () => {
  const before = logNumber();
  Atomics.store(counters, counter.syncing, 1);
  mendLog(path);
  await openSqlite(path, Date.now).close();
  Atomics.store(counters, counter.failed, 1);
  expect(() => openSqlite(path, Date.now)).toThrow('stop all processes');
  expect(logNumber()).toBe(before);
  Atomics.store(counters, counter.syncing, 0);
});

test('the log begins anew while changes are made', async () => {
  const megabyte = new Uint8Array(2 ** 20);
  for (let number = 0; number < 150; number++)
    await db.run(['insert into things values ($1, $2)', [`n${number}`, megabyte]]);
  expect(statSync(`${path}-wal`).size).toBeLessThan(80 * 2 ** 20);
  expect(await names()).toHaveLength(150);
});

test('commits wait for the checkpoint of another process, which may have ended without saying so', async () => {
  const holdFor = (milliseconds: number) =>
    Atomics.store(counters, counter.heldUntil, (Date.now() + milliseconds) | 0);
  holdFor(1000);
  const change = watched(Promise.resolve(db.run("insert into things values ('late', null)")));
  await settle();
  expect(change.isDone).toBe(false);
  Atomics.store(counters, counter.heldUntil, 0);
  await db.run("insert into things values ('later', null)");
  expect(change.isDone).toBe(true);
  holdFor(1);
  await db.run("insert into things values ('last', null)");
});

test('a sync that does not end is a problem, and then ends the process', async () => {
  const { log, syncs, ends } = openLog({ slow: 0, hung: 1 });
  expect(log.problem()).toBeUndefined();
  const change = log.durable();
  await until('the process ends', () => ends.length > 0);
  expect(log.problem()).toContain('takes more than 0 seconds for a sync');
  expect(String(ends[0])).toContain('a sync does not end');
  syncs[0]?.resolve();
  await change;
  expect(log.problem()).toBeUndefined();
});
