import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { type Desk, openDesk } from '../../support/cli.ts';
import { postgres, testMasterKey } from '../../support/test-server.ts';
import { runSql } from '../../support/test-store.ts';

/** All that look after data which is there. */
const commands = [
  ['tenants', 'create', 'shop'],
  ['tenants', 'list'],
  ['tenants', 'rename', 'shop', 'store'],
  ['tenants', 'disable', 'shop'],
  ['tenants', 'enable', 'shop'],
  ['tenants', 'delete', 'shop', '--yes'],
  ['master-key', 'rotate'],
  ['audit', 'tail'],
  ['audit', 'export', 'x.jsonl'],
  ['audit', 'head'],
  ['recover', '--yes'],
].map((words): [string, string[]] => [words.join(' '), words]);

let desk: Desk;
beforeEach(() => {
  desk = openDesk();
});
afterEach(() => desk.clear());

const hint = 'hint: SALLYPORT_DATA_DIR or DATABASE_URL says where it is; sallyport serve makes a new one\n';

describe('where there is no database', () => {
  test.each([...commands, ['backup x.db', ['backup', 'x.db']]] as typeof commands)(
    '%s says which one, and makes none',
    async (_, words) => {
      const { code, out, error } = await desk.run(...words);
      expect({ code, out }).toEqual({ code: 1, out: '' });
      expect(error).toBe(
        `sallyport: error: ${desk.path('data/sallyport.db')} is not there\nsallyport: ${hint}`,
      );
      expect(readdirSync(desk.folder)).toEqual([]);
      expect(existsSync('x.jsonl')).toBe(false);
    },
  );

  test('an empty file is not taken for one', async () => {
    mkdirSync(desk.path('data'));
    writeFileSync(desk.path('data/sallyport.db'), '');
    expect(await desk.run('tenants', 'list')).toMatchObject({
      code: 1,
      error: expect.stringContaining('data/sallyport.db is empty'),
    });
    expect(readdirSync(desk.path('data'))).toEqual(['sallyport.db']);
    expect(statSync(desk.path('data/sallyport.db')).size).toBe(0);
  });
});

describe('on a PostgreSQL with nothing in it', () => {
  test.each(commands)('%s says so, and makes nothing', async (_, words) => {
    const url = await postgres.createEmpty('');
    const fleet = openDesk(() => ({ DATABASE_URL: url, SALLYPORT_MASTER_KEY: `${testMasterKey},${other}` }));
    const { code, out, error } = await fleet.run(...words);
    fleet.clear();
    expect({ code, out }).toEqual({ code: 1, out: '' });
    expect(error).toMatch(/^sallyport: error: postgres:\/\/\S+\/test_\w+ is empty\n/);
    expect(error).toEndWith(hint);
    expect(await runSql(url, "select 1 from pg_tables where schemaname = 'public'")).toEqual([]);
  });
  const other = Buffer.alloc(32, 8).toString('base64');
});
