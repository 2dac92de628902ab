import { beforeAll, describe, expect, test } from 'bun:test';
import { formatEntry } from '../../../src/cli/terminal/tail.ts';
import { type Cli, openCli } from '../../support/cli.ts';
import {
  databases,
  openTestServer,
  postgres,
  startTime,
  type TestServer,
  testMasterKey,
} from '../../support/test-server.ts';
import { runSql } from '../../support/test-store.ts';

describe.each(databases)('audit tail on %s', (_, database) => {
  let server: TestServer;
  let cli: Cli;
  let mine: { id: string; key: string };
  let otherTenant: { id: string; key: string };
  const created: string[] = [];
  beforeAll(async () => {
    server = await openTestServer(database, { SALLYPORT_MASTER_KEY: testMasterKey });
    mine = await server.tenant();
    otherTenant = await server.tenant();
    for (const { key } of [mine, otherTenant, mine]) {
      created.push((await server.application(key)).id);
      server.clock.advance(1000);
    }
    await server.call('DELETE', `/applications/${created[0]}`, { key: mine.key });
    await server.call('GET', '/applications', { headers: { 'SVC-REQUEST-ID': 'nobody' } });
    await server.flush();
    cli = openCli(() => ({
      DATABASE_URL: server.config.databaseUrl,
      SALLYPORT_MASTER_KEY: testMasterKey,
    }));
  });

  const tail = async (...options: string[]) => {
    const entries = await cli.entries('audit', 'tail', ...options);
    const ofRequests = entries.filter(({ operation }) => !operation.startsWith('audit.'));
    return ofRequests.map(
      ({ operation, entity }) => `${operation} ${entity ? created.indexOf(entity.id) : '-'}`,
    );
  };

  test('prints one line per entry of all tenants, newest last', async () => {
    const { out } = await cli.run('audit', 'tail');
    const lines = out.split('\n').filter((line) => line !== '' && !line.includes('  audit.'));
    expect(lines).toHaveLength(6);
    expect(lines[0]).toMatch(/ {2}success {2}tenant.create {2}tenant [0-9a-f-]{36} {2}by operator/);
    expect(lines[1]).toMatch(
      /^2026-11-15T12:00:00.000Z {2}success {2}application.create {2}application [0-9a-f-]{36} {2}by application [0-9a-f-]{36} {2}from 127.0.0.1 {2}request \S+$/,
    );
    expect(lines[5]).toMatch(
      / {2}failed {3}application.read {2}by anonymous {2}.* {2}unauthenticated {2}request nobody$/,
    );
    const all = [
      'tenant.create -1',
      ...['create 0', 'create 1', 'create 2', 'delete 0', 'read -'].map((what) => `application.${what}`),
    ];
    expect(await tail()).toEqual(all);
    expect(await tail('--lines', '2')).toEqual(all.slice(-2));
  });

  test('ends even if sequence numbers have a huge gap', async () => {
    const gap = await openTestServer(database, { SALLYPORT_MASTER_KEY: testMasterKey });
    const { id, key } = await gap.tenant();
    await gap.application(key);
    await gap.flush();
    const gapCli = openCli(() => ({
      DATABASE_URL: gap.config.databaseUrl,
      SALLYPORT_MASTER_KEY: testMasterKey,
    }));
    const lines = async () => (await gapCli.entries('audit', 'tail', '--tenant', id)).length;
    const before = await lines();
    for (const table of ['audit_segments', 'audit_chains'])
      await runSql(
        gap.config.databaseUrl,
        `update ${table} set number = 1000000 where tenant_id = '${id}' and number = 1`,
      );
    await gap.application(key);
    await gap.flush();
    expect(await lines()).toBe(before + 1);
  });

  test('filters by tenant, entity, operation, result, actor and time', async () => {
    expect(await tail('--tenant', otherTenant.id)).toEqual(['application.create 1']);
    expect(await tail('--entity', created[0] as string)).toEqual([
      'application.create 0',
      'application.delete 0',
    ]);
    expect(await tail('--operation', 'application.delete')).toEqual(['application.delete 0']);
    expect(await tail('--result', 'failed')).toEqual(['application.read -']);
    expect(await tail('--actor', created[0] as string)).toEqual([]);
    const [from, to] = [startTime + 1000, startTime + 2000].map((moment) => new Date(moment).toISOString());
    expect(await tail('--from', from as string, '--to', to as string)).toEqual(['application.create 1']);
  });

  test('--follow prints new entries until interrupted', async () => {
    const { next, stop } = cli.follow('audit', 'tail', '--lines', '1', '--tenant', mine.id);
    expect(await next()).toMatchObject([{ operation: 'application.delete' }]);
    await server.application(otherTenant.key);
    const { id } = await server.application(mine.key);
    expect(await next()).toMatchObject([{ operation: 'application.create', entity: { id } }]);
    expect(await stop()).toBe(0);
  });

  test.each([
    ['--lines', '0', /--lines must be a whole number/],
    ['--tenant', 'x', /--tenant must be a UUID/],
    ['--result', 'good', /'good' is invalid. Allowed choices are success, denied, failed\.$/m],
    ['--from', 'yesterday', /--from must be an ISO 8601 date-time/],
  ])('rejects %s %s', async (option, value, message) => {
    const { code, err } = await cli.run('audit', 'tail', option, value);
    expect(code).toBe(2);
    expect(err).toMatch(message);
  });
});

test('audit tail --follow survives an outage of PostgreSQL with one warning, and prints every entry once', async () => {
  const server = await openTestServer(postgres);
  const { key } = await server.tenant();
  const { databaseUrl } = server.config;
  const name = databaseUrl.slice(databaseUrl.lastIndexOf('/') + 1);
  const cluster = process.env.SALLYPORT_TEST_POSTGRES as string;
  const cli = openCli(() => ({ DATABASE_URL: databaseUrl, SALLYPORT_MASTER_KEY: testMasterKey }));
  await server.application(key);
  const { next, nextMessage, stop } = cli.follow('audit', 'tail', '--lines', '1');
  expect(await next()).toHaveLength(1);
  await runSql(cluster, `alter database ${name} with allow_connections false`);
  await runSql(cluster, `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}'`);
  expect(await nextMessage()).toMatch(/^sallyport: warning: DATABASE_URL postgres:.*; retrying\n$/);
  await runSql(cluster, `alter database ${name} with allow_connections true`);
  for (let count = 0; count < 2; count++) {
    const { id } = await server.application(key);
    expect(await next()).toMatchObject([{ operation: 'application.create', entity: { id } }]);
  }
  expect(await stop()).toBe(0);
  expect(await nextMessage()).toBe('');
});

test('control characters in log entries are escaped', () => {
  const line = formatEntry({
    id: '',
    at: '',
    actor: { kind: 'anonymous' },
    operation: 'application.read',
    result: 'failed',
    from: {},
    request_id: 'a\u001b[2Jb\u202ec',
  });
  expect(line).toEndWith('request a\\u{1b}[2Jb\\u{202e}c');
});

test('a key rotation is logged with the fingerprints of the keys', async () => {
  const cli = openCli();
  await cli.run('migrate');
  const { body } = await cli.json('master-key', 'rotate');
  const { out } = await cli.run('audit', 'tail', '--json', '--operation', 'master-key.rotate');
  expect(JSON.parse(out)).toMatchObject({
    actor: { kind: 'operator' },
    difference: { master_key: { from: body.from, to: body.to } },
  });
});
