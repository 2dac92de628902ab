import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { newestSchema } from '../../../src/store/engine/migrate.ts';
import { type Desk, openDesk } from '../../support/cli.ts';
import { bad, examine, shown } from '../../support/doctor.ts';
import { freePort, type Postgres, startPostgres } from '../../support/postgres.ts';
import { testMasterKey } from '../../support/test-server.ts';
import { runSql } from '../../support/test-store.ts';

const quiet = { SALLYPORT_TEST_POSTGRES: '' };

describe('doctor on PostgreSQL', () => {
  let server: Postgres;
  let desk: Desk;
  const at = (database: string) => ['--database-url', server.url.replace(/postgres$/, database)];
  beforeAll(async () => {
    server = await startPostgres({ fsync: 'on' });
    desk = openDesk(() => ({ ...quiet, SALLYPORT_MASTER_KEY: testMasterKey }));
    await desk.run('migrate', ...at('postgres'));
    expect((await desk.run('tenants', 'create', 'x', ...at('postgres'))).code).toBe(0);
    expect((await desk.run('audit', 'head', ...at('postgres'))).code).toBe(0);
  });
  afterAll(async () => {
    await server.stop();
    desk.clear();
  });

  test('finds nothing wrong where nothing is', async () => {
    const { code, checks } = await examine(desk, ...at('postgres'));
    expect({ code, found: bad(checks) }).toEqual({ code: 0, found: [] });
    expect(checks.find(({ name }) => name === 'database')?.says).toMatch(
      /^PostgreSQL 18\.\d+, \d+ connections left$/,
    );
    expect(checks.find(({ name }) => name === 'clock')?.says).toContain('by the database, which decides');
    expect(checks.at(-1)?.says).toStartWith('signed up to ');
  });

  test('finds settings with which a crash would undo what was answered', async () => {
    await runSql(server.url, 'alter database postgres set synchronous_commit = off');
    const { code, checks } = await examine(desk, ...at('postgres'));
    await runSql(server.url, 'alter database postgres reset synchronous_commit');
    expect({ code, shown: shown(checks) }).toEqual({
      code: 1,
      shown: [expect.stringContaining('synchronous_commit is off')],
    });
    const unsafe = await examine(desk, '--database-url', process.env.SALLYPORT_TEST_POSTGRES as string);
    expect(shown(unsafe.checks).join('\n')).toContain('fsync is off');
  });

  test('finds a database in which nothing can be written', async () => {
    await runSql(server.url, 'alter database postgres set default_transaction_read_only = on');
    const { code, checks } = await examine(desk, ...at('postgres'));
    await runSql(
      server.url,
      'begin read write; alter database postgres reset default_transaction_read_only; commit',
    );
    expect({ code, shown: shown(checks) }).toEqual({
      code: 1,
      shown: ['fail database: default_transaction_read_only is on: every change is answered with 503'],
    });
  });

  test('finds an empty database, one of another encoding, and one that is out of reach', async () => {
    await runSql(server.url, "create database latin template template0 encoding 'LATIN1'");
    const { checks } = await examine(desk, ...at('latin'));
    expect(shown(checks)).toEqual([
      'fail database: its encoding is LATIN1',
      `warn schema: version 0 of ${newestSchema}`,
    ]);
    const nowhere = `postgres://postgres@127.0.0.1:${await freePort()}/postgres`;
    const { code, checks: none } = await examine(desk, '--database-url', nowhere);
    expect({ code, shown: shown(none) }).toEqual({
      code: 1,
      shown: [expect.stringMatching(/^fail database: postgres:/)],
    });
  });
});
