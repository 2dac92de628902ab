import { beforeEach, describe, expect, test } from 'bun:test';
import { existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { type Cli, openCli } from '../../support/cli.ts';
import { problemsIn, runDoctor } from '../../support/doctor.ts';
import { databases, postgres, testMasterKey } from '../../support/test-server.ts';
import { runSql } from '../../support/test-store.ts';

/** Commands that need an existing database. */
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

let cli: Cli;
beforeEach(() => {
  cli = openCli();
});

const hint =
  'hint: set SALLYPORT_DATA_DIR or DATABASE_URL to an existing database, or run `sallyport serve` to create one\n';

describe('without a database file', () => {
  test.each([...commands, ['backup x.db', ['backup', 'x.db']]] as typeof commands)(
    '%s names the missing file and creates none',
    async (_, words) => {
      const { code, out, err } = await cli.run(...words);
      expect({ code, out }).toEqual({ code: 1, out: '' });
      expect(err).toBe(
        `sallyport: error: ${cli.path('data/sallyport.db')} does not exist\nsallyport: ${hint}`,
      );
      expect(readdirSync(cli.folder)).toEqual([]);
      expect(existsSync('x.jsonl')).toBe(false);
    },
  );

  test('an empty file is reported and left unchanged', async () => {
    mkdirSync(cli.path('data'));
    writeFileSync(cli.path('data/sallyport.db'), '');
    expect(await cli.run('tenants', 'list')).toMatchObject({
      code: 1,
      err: expect.stringContaining('data/sallyport.db is empty'),
    });
    expect(readdirSync(cli.path('data'))).toEqual(['sallyport.db']);
    expect(statSync(cli.path('data/sallyport.db')).size).toBe(0);
  });
});

describe('on an empty PostgreSQL database', () => {
  test.each(commands)('%s reports it and creates no table', async (_, words) => {
    const url = await postgres.createEmpty('');
    const fleet = openCli(() => ({ DATABASE_URL: url, SALLYPORT_MASTER_KEY: `${testMasterKey},${other}` }));
    const { code, out, err } = await fleet.run(...words);
    expect({ code, out }).toEqual({ code: 1, out: '' });
    expect(err).toMatch(/^sallyport: error: postgres:\/\/\S+\/test_\w+ is empty\n/);
    expect(err).toEndWith(hint);
    expect(await runSql(url, "select 1 from pg_tables where schemaname = 'public'")).toEqual([]);
  });
  const other = Buffer.alloc(32, 8).toString('base64');
});

describe.each(databases)('with SALLYPORT_REQUIRE_EXISTING, on %s', (_, database) => {
  let fleet: Cli;
  beforeEach(async () => {
    const url = await database.createEmpty(cli.path('unmounted'));
    const key = database.name === 'PostgreSQL' ? { SALLYPORT_MASTER_KEY: testMasterKey } : {};
    fleet = openCli(() => ({ DATABASE_URL: url, SALLYPORT_REQUIRE_EXISTING: 'true', ...key }));
  });
  const what = () =>
    database.name === 'SQLite' ? `${cli.path('unmounted/test.db')} does not exist` : 'the database is empty';
  const newInstallation = 'for a new installation, run `sallyport migrate --require-existing false` once';

  test.each(['serve', 'migrate'])(
    '%s fails on an empty database, and creates neither it nor keys',
    async (command) => {
      const { code, out, err } = await fleet.run(command);
      expect({ code, out }).toEqual({ code: 2, out: '' });
      expect(err).toContain(`error: SALLYPORT_REQUIRE_EXISTING is true, but ${what()}\n`);
      expect(err).toContain(newInstallation);
      expect([...readdirSync(cli.folder), ...readdirSync(fleet.folder)]).toEqual([]);
    },
  );

  test('doctor fails, and says how to create the database, after which migrate succeeds', async () => {
    const { checks } = await runDoctor(fleet);
    const [found, ...others] = problemsIn(checks).filter(({ hint }) => hint?.includes(newInstallation));
    expect(others).toEqual([]);
    expect(found).toMatchObject({
      state: 'fail',
      message: expect.stringMatching(/ and SALLYPORT_REQUIRE_EXISTING is true$/),
    });
    expect((await fleet.run('migrate', '--require-existing', 'false')).code).toBe(0);
    expect((await fleet.run('migrate')).out).toContain('schema is up to date');
  });
});
