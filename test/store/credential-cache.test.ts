import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openSqlite } from '../../src/store/engine/sqlite.ts';

describe('what a SQLite database tells without a query', () => {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-test-'));
  const path = join(folder, 'test.db');
  const [here, there] = [openSqlite(path, Date.now), openSqlite(path, Date.now)];
  const unchanged = () => (here.local as NonNullable<typeof here.local>).unchanged();

  beforeAll(async () => {
    await here.run('create table things (id integer primary key)');
  });
  afterAll(async () => {
    await here.close();
    await there.close();
    rmSync(folder, { recursive: true });
  });

  test('that nothing was committed is said only of the time since it was last asked', () => {
    unchanged();
    expect(unchanged()).toBe(true);
  });

  test.each([
    ['this connection', here],
    ['another one', there],
  ])('a commit by %s shows at the next question, and once', async (_, db) => {
    for (let i = 0; i < 20; i++) {
      unchanged();
      await db.run('insert into things default values');
      expect(unchanged()).toBe(false);
      expect(unchanged()).toBe(true);
    }
  });

  test('a commit shows that comes while the log is being folded into the database', async () => {
    unchanged();
    await there.run('insert into things default values');
    await there.get('pragma wal_checkpoint(restart)');
    await there.run('insert into things default values');
    expect(unchanged()).toBe(false);
  });
});
