import { expect, test } from 'bun:test';
import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { openCli } from '../../support/cli.ts';
import { startPostgres } from '../../support/postgres.ts';
import { openTestServer, sqlite, testMasterKey } from '../../support/test-server.ts';
import { runSql } from '../../support/test-store.ts';

const password = 'p/w@secret-of-database';
const oidc = 'secret-of-the-client';
const signing = `whsec_${Buffer.alloc(32, 5).toString('base64')}`;
const sinkSecret = 'Bearer secret-of-the-sink';

/** Runs `support` and returns the text of each file in the archive. */
async function unpack(cli: ReturnType<typeof openCli>, ...words: string[]) {
  const path = cli.path('support.tar.gz');
  const { code, body } = await cli.json('support', path, ...words);
  expect(code).toBe(0);
  expect(statSync(path).mode & 0o777).toBe(0o600);
  const all = gunzipSync(readFileSync(path));
  const files = await new Bun.Archive(all).files();
  const texts = await Promise.all([...files].map(async ([name, file]) => [name, await file.text()] as const));
  return { body, all: all.toString('latin1'), files: Object.fromEntries(texts) as Record<string, string> };
}

test('on SQLite, the archive has what it prints, and no secret of the installation', async () => {
  const folder = openCli();
  const logFile = folder.path('service.log');
  const server = await openTestServer(sqlite, {
    SALLYPORT_METRICS_PORT: '0',
    SALLYPORT_DATA_DIR: folder.path('data'),
    DATABASE_URL: `sqlite:${folder.path('data/sallyport.db')}`,
  });
  const { key } = await server.tenant();
  const { key: other } = await server.application(key);
  const body = { container: '/a/', data: { number: '4111111111111111' } };
  await server.call('POST', '/tokens', { key, body });
  const management = readFileSync(folder.path('data/management.key'), 'utf8').trim();
  const master = readFileSync(folder.path('data/master.key'), 'utf8').trim();
  const secrets = [key, other, management, master, oidc, sinkSecret, signing, '4111111111111111'];
  writeFileSync(logFile, `${'x'.repeat(1 << 20)}\n{"message":"quotes ${master} and ${signing}"}\n`);
  const sink = {
    name: 'siem',
    type: 'webhook',
    url: 'https://siem.example/in',
    secret: { env: 'SIEM' },
    headers: { authorization: sinkSecret },
  };
  const cli = openCli(() => ({
    SALLYPORT_DATA_DIR: folder.path('data'),
    SALLYPORT_METRICS_PORT: new URL(server.app.metricsUrl as string).port,
    SALLYPORT_OIDC_CLIENT_SECRET: oidc,
    SIEM: signing,
    SALLYPORT_SINK: JSON.stringify(sink),
  }));
  const { body: printed, all, files } = await unpack(cli, '--log', logFile);
  await server.close();
  expect(secrets.filter((secret) => all.includes(secret))).toEqual([]);
  expect(printed.missing).toEqual({ 'plans.txt': 'only on PostgreSQL' });
  expect(Object.keys(files).toSorted()).toEqual([...printed.files, 'contents.txt'].toSorted());
  expect(files['log.txt']).toBe('{"message":"quotes [secret] and [secret]"}\n');
  expect(files['metrics.txt']).toContain('sallyport_build_info{');
  expect(files['schema.txt']).toContain('CREATE TABLE tokens');
  expect(JSON.parse(files['settings.json'] as string)).toMatchObject({
    SALLYPORT_SESSION_TTL: 180_000,
    SALLYPORT_SINK: 'set',
    SALLYPORT_MASTER_KEY: 'unset',
  });
  expect(files['doctor.json']).toContain('"name": "schema"');
});

test('on PostgreSQL, the archive has the schema and the plans of the slowest statements, without the password', async () => {
  const server = await startPostgres({ shared_preload_libraries: 'pg_stat_statements' });
  await runSql(server.url, `create role service login superuser password '${password}'`);
  const url = server.url.replace('postgres@', `service:${encodeURIComponent(password)}@`);
  const cli = openCli(() => ({
    DATABASE_URL: url,
    SALLYPORT_MASTER_KEY: testMasterKey,
    SALLYPORT_DATABASE_TIMEOUT: '60000',
  }));
  await cli.run('migrate');
  const without = await unpack(cli);
  expect(without.body.missing).toMatchObject({
    'plans.txt': expect.stringContaining('pg_stat_statements cannot be read'),
    'metrics.txt': 'SALLYPORT_METRICS_PORT is not set',
  });
  await runSql(server.url, 'create extension pg_stat_statements');
  await cli.run('tenants', 'create', 'x');
  rmSync(cli.path('support.tar.gz'));
  const { body, all, files } = await unpack(cli);
  await server.stop();
  const secrets = [password, encodeURIComponent(password), testMasterKey];
  expect(secrets.filter((secret) => all.includes(secret) || without.all.includes(secret))).toEqual([]);
  expect(body.files).toContain('plans.txt');
  expect(files['plans.txt']).toMatch(/^\d+ calls, mean [\d.]+ ms\nselect /);
  expect(files['plans.txt']).toContain('\nInsert on applications ');
  expect(files['schema.txt']).toContain('applications.name text NO\n');
});
