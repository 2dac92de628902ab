import { Database } from 'bun:sqlite';
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  byPragma,
  type Unchanged,
  walIndexAddress,
  watchCommits,
} from '../../../src/store/engine/commit-watch.ts';
import type { Queries } from '../../../src/store/engine/db.ts';

describe('whether anybody has committed', () => {
  let folder: string;
  let path: string;
  let own: Database;
  let reader: Database;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'sallyport-wal-'));
    path = join(folder, 'some file.db');
    own = connect();
    own.run('create table t (n integer)');
    reader = connect();
  });
  afterEach(() => {
    reader.close();
    own.close();
    rmSync(folder, { recursive: true, force: true });
  });

  function connect(): Database {
    const db = new Database(path);
    db.run('pragma journal_mode = wal');
    return db;
  }
  const reads = { get: (sql: string) => reader.prepare(sql).get() } as Queries;

  async function inAnotherProcess(sql: string): Promise<void> {
    const program = `new (require('bun:sqlite').Database)(${JSON.stringify(path)}).run(${JSON.stringify(sql)})`;
    expect(await Bun.spawn([process.execPath, '-e', program]).exited).toBe(0);
  }

  const ways: [name: string, way: () => Unchanged][] = [
    ['by looking at the index', () => watchCommits(path, reads).unchanged],
    ['by asking SQLite', () => byPragma(reads)],
  ];

  test.each(ways)('is known %s, after every commit of this process and of others', async (_, way) => {
    const unchanged = way();
    expect([unchanged(), unchanged()]).toEqual([false, true]);
    for (let n = 0; n < 50; n++) {
      own.run('insert into t values (1)');
      expect([unchanged(), unchanged()]).toEqual([false, true]);
    }
    await inAnotherProcess('delete from t');
    expect([unchanged(), unchanged()]).toEqual([false, true]);
  });

  test.each(ways)('is known %s, also when the log begins anew', (_, way) => {
    const unchanged = way();
    for (let n = 0; n < 5; n++) {
      own.run('insert into t values (1)');
      own.run('pragma wal_checkpoint(truncate)');
      unchanged();
      own.run('insert into t values (2)');
      expect([unchanged(), unchanged()]).toEqual([false, true]);
    }
  });

  test.each(ways)('is not said of what was begun and not committed %s', (_, way) => {
    const unchanged = way();
    unchanged();
    own.run('begin immediate');
    own.run('insert into t values (1)');
    expect(unchanged()).toBe(true);
    own.run('rollback');
    expect(unchanged()).toBe(true);
  });

  test('the index is found where Linux tells, and nowhere for a file that is not open', () => {
    expect(typeof walIndexAddress(path)).toBe(process.platform === 'linux' ? 'number' : 'undefined');
    expect(walIndexAddress(join(folder, 'another.db'))).toBeUndefined();
  });

  test('once it was told to stop, nothing looks at memory that may be gone', () => {
    const { unchanged, stop } = watchCommits(path, reads);
    unchanged();
    stop();
    reader.close();
    expect(unchanged).toThrow();
  });
});
