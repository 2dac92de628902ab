import { describe, expect, test } from 'bun:test';
import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { readConfig } from '../../src/config/settings.ts';
import { misplacedOf, readPlacements } from '../../src/db/citus.ts';
import { CitusWorkers } from '../../src/db/citus-workers.ts';
import { type Migration, migrate, migrations, tablesOf } from '../../src/db/migrate.ts';
import { openPostgres } from '../../src/db/postgres/postgres.ts';
import { postgresPools } from '../../src/db/postgres/postgres-pool.ts';
import { parsePostgresUrl } from '../../src/db/postgres/postgres-url.ts';
import { anyPosition, type Position } from '../../src/domain/database-position.ts';
import type { Minted } from '../../src/domain/key.ts';
import { diagnose } from '../../src/operations/diagnosis.ts';
import { nodes } from '../../src/store/nodes.ts';
import { citusBinaries } from '../../torture/crash/citus.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { noCitus } from '../support/skip.ts';
import {
  citus,
  fewConnections,
  generousTimeout,
  openTestServer,
  runPostgres,
  testMasterKey,
} from '../support/test-server.ts';
import { grants, masterKeys, openTestStore } from '../support/test-store.ts';
import { until } from '../support/until.ts';

const poolOptions = {
  maxConnections: 1,
  connectTimeout: generousTimeout,
  settings: {},
  positions: anyPosition,
};
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

  test('migrate sets n_distinct of shards that lack it: new ones, or those that were moved', async () => {
    const url = await citus.createEmpty('');
    const onShards = (command: string) =>
      runPostgres<{ result: string }>(
        url,
        `select result from run_command_on_shards('tokens', $$${command}$$)
         union all select result from run_command_on_shards('audit_index', $$${command}$$)`,
      );
    const settings = async () => {
      const found = await onShards(
        "select attoptions from pg_attribute where attrelid = '%s'::regclass and attname = 'tenant_id'",
      );
      return new Set(found.map(({ result }) => /n_distinct=\d+/.exec(result)?.[0]));
    };
    for (let start = 1; start <= 2; start++) {
      await migrateTo(url);
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
  });

  test('a dump of the coordinator has the rows of all tenants, and migrate distributes them after a restore', async () => {
    const [from, to] = [await citus.createMigrated(''), await citus.createEmpty('')];
    const server = await openTestServer(from);
    const tenants = await Promise.all([1, 2, 3, 4].map(() => server.tenant()));
    for (const { key } of tenants)
      await server.call('POST', '/tokens', { key, body: { id: 'one', data: 'x' } });
    await server.close();
    const folder = temporaryFolder();
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
    // As `sallyport recover` does.
    const db = open(to);
    await nodes(db).acceptAfter((await nodes(db).position()) as Position);
    await db.close();
    const restored = await openTestServer(to);
    for (const { key } of tenants)
      expect((await restored.call('GET', '/tokens/one', { key })).status).toBe(200);
  });

  test('doctor shows the shards, and refuses a schema that is distributed in part or in another way', async () => {
    const url = await citus.createMigrated('');
    await (await openTestServer(url)).close();
    const cluster = async () => (await checksOf(url)).find(({ name }) => name === 'cluster');
    expect(await cluster()).toEqual({
      name: 'cluster',
      state: 'ok',
      message: expect.stringMatching(
        /^Citus: 8 shards on \d+ servers, the fullest has \d\.\d times the mean$/,
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

  test('doctor counts the shards of a coordinator, which may be the only server', async () => {
    const coordinator = await citus.createEmpty('');
    const name = `single_${crypto.randomUUID().slice(0, 8)}`;
    const url = Object.assign(new URL(coordinator), { pathname: `/${name}` }).href;
    await runPostgres(coordinator, `create database ${name}`);
    try {
      await runPostgres(url, 'create extension citus');
      await runPostgres(url, `alter database ${name} set citus.shard_count = 2`);
      await migrateTo(url);
      const messages = (await checksOf(url)).filter((check) => check.name === 'cluster');
      expect(messages).toEqual([{ name: 'cluster', state: 'ok', message: 'Citus: 2 shards on one server' }]);
    } finally {
      await runPostgres(coordinator, `drop database ${name} with (force)`);
    }
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
    const problems = server.logged.filter((line) => /"level":"(warn|error)"/.test(line));
    expect(problems.filter((line) => !line.includes('no witness is set'))).toEqual([]);
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

  test('keys and sessions are found by the same conditions', async () => {
    const { application, session, mint, store, runSql, close, ...opened } = await openTestStore(citus);
    const tenant = await opened.tenant();
    const find = (key: Minted) => store.credentials.find(key);
    const [owner, authorizer] = [await application(tenant, { type: 'public' }), await application(tenant)];
    const pending = await session(tenant, owner.id);
    const active = await session(tenant, owner.id);
    const leaked = mint('pvt', tenant);
    await store.sessions.authorize(tenant, active.nonce.digest, {
      ...grants,
      by: authorizer.id,
      ceiling: authorizer.key.digest,
      unlimitedBy: leaked.digest,
      trust: leaked.digest,
      subject: 'customer',
      expiresAt: undefined,
      maxLifetime: 180_000,
    });
    const all = async () => {
      const found = [owner, authorizer, pending, active].map(
        async ({ key }) => (await find(key))?.applicationId,
      );
      return (await Promise.all(found)).map((id) => (id === undefined ? '-' : '+')).join('');
    };
    expect(await all()).toBe('++++');
    expect(await find(active.key)).toMatchObject({
      kind: 'session',
      tenantId: tenant,
      applicationId: owner.id,
      authorizedBy: authorizer.id,
      subject: 'customer',
      authority: { applicationId: authorizer.id },
    });
    const digest = `'\\x${leaked.digest.toHex()}'`;
    const ownerEnds = (end: string) => `update applications set expires_at = ${end} where id = '${owner.id}'`;
    const keyEnds = (end: string) =>
      `update application_keys set expires_at = ${end} where application_id = '${authorizer.id}'`;
    const trustEnds = (end: string) =>
      `update leaked_keys set expires_at = ${end} where tenant_id = '${tenant}'`;
    const subjectEnds = (end: string) =>
      `update ended_subjects set ended_at = ${end} where tenant_id = '${tenant}'`;
    const mark = (table: string, id: string, column: string, value: string) =>
      `update ${table} set ${column} = ${value} where id = '${id}'`;
    const unlimited = (column: string) => mark('sessions', active.id, column, 'null');
    const states: [change: string, valid: string, undo: string][] = [
      [mark('tenants', tenant, 'disabled_at', '1'), '----', mark('tenants', tenant, 'disabled_at', 'null')],
      [ownerEnds('1'), '-+--', ownerEnds('null')],
      [keyEnds('1'), '+-+-', keyEnds('null')],
      [
        mark('applications', authorizer.id, 'expires_at', '1'),
        '+-+-',
        mark('applications', authorizer.id, 'expires_at', 'null'),
      ],
      [
        mark('sessions', pending.id, 'expires_at', '1'),
        '++-+',
        mark('sessions', pending.id, 'expires_at', '9e15'),
      ],
      [
        mark('sessions', active.id, 'authorized_by', `'${owner.id}'`),
        '+++-',
        mark('sessions', active.id, 'authorized_by', `'${authorizer.id}'`),
      ],
      [
        mark('applications', owner.id, 'quarantined_at', '1'),
        '++++',
        mark('applications', owner.id, 'quarantined_at', 'null'),
      ],
      [`insert into ended_subjects values ('${tenant}', 'customer', 1, 9e15)`, '+++-', subjectEnds('0')],
      ['select 1', '++++', subjectEnds('2')],
      ['select 1', '+++-', subjectEnds('0')],
      [`insert into leaked_keys values ('${tenant}', ${digest}, 1)`, '+++-', unlimited('unlimited_by')],
      ['select 1', '++++', trustEnds('9e15')],
      ['select 1', '+++-', unlimited('unlimited_trust')],
      [`delete from application_keys where application_id = '${authorizer.id}'`, '+-+-', 'select 1'],
    ];
    for (const [change, valid, undo] of states) {
      await runSql(change);
      expect({ change, valid: await all() }).toEqual({ change, valid });
      await runSql(undo);
    }
    await close();
  });

  test('the coordinator is used while the worker may not know that rows were moved, and after their shard was split', async () => {
    const { application, store, runSql, db, url, close, ...opened } = await openTestStore(citus);
    const tenant = await opened.tenant();
    const ofTenant = `get_shard_id_for_distribution_column('tenants', '${tenant}'::uuid)`;
    const [at] = await runPostgres<{ host: string }>(
      url,
      `select nodename || ':' || nodeport as host from pg_dist_placement join pg_dist_node using (groupid)
       where shardid = ${ofTenant}`,
    );
    const onWorker = <R>(sql: string) =>
      runPostgres<R>(Object.assign(new URL(url), { host: at?.host }).href, sql);
    const [{ key }, other] = [await application(tenant), await application(tenant)];
    const find = (key: Minted) => store.credentials.find(key);
    const change = () =>
      db.transaction(
        (tx) => tx.run(['update applications set name = name where tenant_id = $1', [tenant]]),
        tenant,
      );
    await until('a lookup in the shard', async () => {
      await find(key);
      const found = await onWorker(
        `select 1 from pg_stat_activity where datname = current_database() and application_name = 'sallyport'
         and query like '%from application\\_keys\\_%'`,
      );
      return found.length > 0;
    });
    const id = `prepared_${tenant}`;
    const move = `update pg_dist_placement set groupid = groupid where shardid = ${ofTenant}`;
    await onWorker(`begin; ${move}; prepare transaction '${id}'`);
    try {
      expect(await find(key)).toMatchObject({ tenantId: tenant });
      expect(await find({ ...key, digest: other.key.digest })).toMatchObject({ applicationId: other.id });
      expect(await change()).toBe(3);
      await runSql(`delete from application_keys where application_id = '${other.id}'`);
      expect(await find(other.key)).toBeUndefined();
    } finally {
      await onWorker(`rollback prepared '${id}'`);
    }
    await runSql(`select isolate_tenant_to_new_shard('tenants', '${tenant}', 'CASCADE', 'block_writes')`);
    expect(await find(key)).toMatchObject({ tenantId: tenant });
    expect(await change()).toBe(3);
    const cluster = (await checksOf(url)).find(({ name }) => name === 'cluster');
    expect(cluster).toMatchObject({ state: 'ok' });
    await close();
  });

  test('doctor names the workers to which this process cannot connect', async () => {
    const url = await citus.createMigrated('');
    const [db, absent] = [open(url), `late_${crypto.randomUUID().slice(0, 8)}`];
    expect(await db.workerProblems?.()).toEqual([]);
    await db.close();
    const target = { ...parsePostgresUrl(url), user: absent };
    const pools = postgresPools(parsePostgresUrl(url), poolOptions);
    const workers = new CitusWorkers(target, poolOptions);
    const problem = expect.stringMatching(/^127\.0\.0\.1:\d+: .*role "late_.*" does not exist/);
    expect(await workers.problems(await pools.find())).toEqual([problem, problem]);
    await workers.close();
    await pools.close();
  });
});
