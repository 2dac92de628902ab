import { expect, test } from 'bun:test';
import { openCli } from '../../support/cli.ts';
import { openTestServer, postgres, sqlite } from '../../support/test-server.ts';

test('recover --revoke requires --audit', async () => {
  const cli = openCli();
  expect(await cli.run('recover', '--revoke')).toMatchObject({
    code: 2,
    err: expect.stringContaining('--revoke needs --audit EXPORT'),
  });
});

test('recover fails while a service uses the SQLite database', async () => {
  const server = await openTestServer(sqlite);
  const cli = openCli(() => ({
    DATABASE_URL: server.config.databaseUrl,
    SALLYPORT_DATA_DIR: server.config.dataDir,
  }));
  expect(await cli.run('recover', '--yes')).toEqual({
    code: 1,
    out: '',
    err: expect.stringMatching(
      /^sallyport: error: \S+test.db is in use\nsallyport: hint: stop the service first\n$/,
    ),
  });
});

test('backup prints the command to use on PostgreSQL', async () => {
  const cli = openCli();
  const url = ['--database-url', await postgres.createEmpty('')];
  expect(await cli.run('backup', cli.path('x'), ...url)).toMatchObject({
    code: 2,
    err: expect.stringContaining('hint: back up PostgreSQL with: (umask 077; pg_dump '),
  });
});
