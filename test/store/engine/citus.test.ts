import { describe, expect, test } from 'bun:test';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readConfig } from '../../../src/config/settings.ts';
import { diagnose } from '../../../src/operations/diagnosis.ts';
import { misplacedOf, readPlacements } from '../../../src/store/engine/citus.ts';
import { type Migration, migrate, migrations, tablesOf } from '../../../src/store/engine/migrate.ts';
import { openPostgres } from '../../../src/store/engine/postgres.ts';
import { citusBinaries } from '../../../torture/crash/citus.ts';
import { noCitus } from '../../support/skip.ts';
import {
  citus,
  fewConnections,
  generousTimeout,
  openTestServer,
  runPostgres,
  testMasterKey,
} from '../../support/test-server.ts';
import { masterKeys } from '../../support/test-store.ts';

const open = (url: string) => openPostgres(url, undefined, generousTimeout, fewConnections);

async function migrateTo(url: string, known = migrations): Promise<void> {
  const db = open(url);
  try {
    await migrate(db, known);
  } finally {
    await db.close();
  }
}

async function placementsOf(url: string, known = migrations): Promise<Record<string, string>> {
  const db = open(url);
  const rows = await readPlacements(db, tablesOf('postgres', known));
  expect(misplacedOf(rows)).toEqual([]);
  await db.close();
  return Object.fromEntries(rows.map(({ name, is }) => [name, is]));
}

async function checksOf(url: string) {
  const config = readConfig({
    env: { DATABASE_URL: url, SALLYPORT_DATABASE_TIMEOUT: String(generousTimeout) },
  });
  return diagnose(config, masterKeys(testMasterKey), Date.now);
}

const later: Migration[] = [
  ...migrations,
  {
    name: '0002_notes',
    sql: 'create table notes (tenant_id uuid not null, id uuid, primary key (tenant_id, id))',
  },
];

describe.skipIf(noCitus('migrations and dumps'))('on a Citus cluster', () => {
  test('migrate distributes the tables by tenant, also those of later migrations', async () => {
    const url = await citus.createEmpty('');
    await migrateTo(url);
    const placements = await placementsOf(url);
    expect(placements).toMatchObject({
      tenants: 'id',
      tenant_tags: 'reference',
      applications: 'tenant_id',
      audit_segments: 'tenant_id',
      heartbeat: 'local',
      master_key: 'local',
    });
    expect(new Set(Object.values(placements))).toEqual(new Set(['id', 'reference', 'tenant_id', 'local']));
    await migrateTo(url, later);
    await migrateTo(url, later);
    expect(await placementsOf(url, later)).toEqual({ ...placements, notes: 'tenant_id' });
  });

  test('migrate sets n_distinct of shards that lack it: those of an older build, or those that were moved', async () => {
    const url = await citus.createEmpty('');
    const older = migrations.filter(({ name }) => name < '0015');
    const onShards = (command: string) =>
      runPostgres<{ result: string }>(
        url,
        `select result from run_command_on_shards('tokens', $$${command}$$)`,
      );
    const settings = async () => {
      const found = await onShards(
        "select attoptions from pg_attribute where attrelid = '%s'::regclass and attname = 'tenant_id'",
      );
      return new Set(found.map(({ result }) => /n_distinct=\d+/.exec(result)?.[0]));
    };
    for (const known of [older, migrations, migrations]) {
      await migrateTo(url, known);
      expect(await settings()).toEqual(new Set(['n_distinct=1']));
      await onShards('alter table %s alter column tenant_id reset (n_distinct)');
      expect(await settings()).toEqual(new Set([undefined]));
    }
  });

  test('rows from before the cluster remain, without a copy on the coordinator', async () => {
    const url = await citus.createMigrated('');
    const server = await openTestServer(url);
    const { key } = await server.tenant();
    await server.call('POST', '/tokens', { key, body: { id: 'one', data: 'x' } });
    await server.close();
    for (const table of ['token_contents', 'token_metadata'])
      await runPostgres(url, `select undistribute_table('${table}')`);
    await migrateTo(url);
    await placementsOf(url);
    const [size] = await runPostgres(url, `select pg_relation_size('token_contents')::int as bytes`);
    expect(size).toEqual({ bytes: 0 });
    const stored = 'select count(*)::int as count from token_contents';
    expect(await runPostgres<object>(url, stored)).toEqual([{ count: 1 }] as never);
    const again = await openTestServer(url);
    expect((await again.call('GET', '/tokens/one', { key })).status).toBe(200);
    await again.close();
  });

  test('a dump of the coordinator has the rows of all tenants, and migrate distributes them after a restore', async () => {
    const [from, to] = [await citus.createMigrated(''), await citus.createEmpty('')];
    const server = await openTestServer(from);
    const tenants = await Promise.all([1, 2, 3, 4].map(() => server.tenant()));
    for (const { key } of tenants)
      await server.call('POST', '/tokens', { key, body: { id: 'one', data: 'x' } });
    await server.close();
    const folder = mkdtempSync(join(tmpdir(), 'sallyport-dump-'));
    const dump = join(folder, 'sallyport.dump');
    const run = (program: string, ...args: string[]) =>
      expect(spawnSync(join(citusBinaries() ?? '', program), args, { encoding: 'utf8' })).toMatchObject({
        status: 0,
        stderr: '',
      });
    run('pg_dump', '--format=custom', `--file=${dump}`, from);
    run('pg_restore', `--dbname=${to}`, dump);
    rmSync(folder, { recursive: true });
    await migrateTo(to);
    await placementsOf(to);
    const restored = await openTestServer(to);
    for (const { key } of tenants)
      expect((await restored.call('GET', '/tokens/one', { key })).status).toBe(200);
    await restored.close();
  });

  test('doctor shows the shards, and refuses a schema that is distributed in part or in another way', async () => {
    const url = await citus.createMigrated('');
    await (await openTestServer(url)).close();
    const cluster = async () => (await checksOf(url)).find(({ name }) => name === 'cluster');
    expect(await cluster()).toEqual({
      name: 'cluster',
      state: 'ok',
      message: expect.stringMatching(
        /^Citus: 8 shards on \d+ workers, the fullest has \d\.\d times the mean$/,
      ),
    });
    await runPostgres(url, "select undistribute_table('audit_pending')");
    expect(await cluster()).toMatchObject({
      state: 'fail',
      message: 'the table audit_pending is only on the coordinator instead of distributed by tenant_id',
    });
    await runPostgres(url, "select create_reference_table('audit_pending')");
    await expect(migrateTo(url)).rejects.toMatchObject({
      message: 'the table audit_pending is copied to every server instead of distributed by tenant_id',
      todo: expect.stringContaining('undistribute_table'),
    });
  });

  test('the service runs with the rights to read and write rows, after another role has migrated', async () => {
    const url = await citus.createEmpty('');
    const id = crypto.randomUUID().slice(0, 8);
    const [owner, service] = [`owner_${id}`, `service_${id}`];
    const as = (role: string) => Object.assign(new URL(url), { username: role }).href;
    await runPostgres(
      url,
      `create role ${owner} login; create role ${service} login;
       grant create, usage on schema public to ${owner}; grant usage on schema public to ${service};
       alter default privileges for role ${owner} grant select, insert, update, delete on tables to ${service}`,
    );
    await migrateTo(as(owner));
    await placementsOf(as(service));
    const server = await openTestServer(as(service));
    const { key } = await server.tenant();
    const { id: application } = await server.application(key);
    expect((await server.call('POST', '/tokens', { key, body: { data: 'x' } })).status).toBe(201);
    expect((await server.call('DELETE', `/applications/${application}`, { key })).status).toBe(204);
    await server.flush();
    expect(server.logged.filter((line) => /"level":"(warn|error)"/.test(line))).toEqual([]);
    await server.close();
    await runPostgres(as(owner), "select undistribute_table('audit_pending')");
    await expect(migrateTo(as(service))).rejects.toMatchObject({
      message: expect.stringContaining('may not distribute them'),
    });
    const failed = (await checksOf(as(service))).filter(({ state }) => state === 'fail');
    expect(failed.map(({ name }) => name)).toContain('cluster');
    await runPostgres(
      url,
      `drop owned by ${owner}; drop owned by ${service}; drop role ${owner}; drop role ${service}`,
    );
  });
});
