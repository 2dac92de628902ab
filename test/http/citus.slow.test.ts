/**
 * On a Citus cluster, every statement of a request goes to the server with the rows of the tenant, and a commit involves
 * one server. A server reports in a notice each command that it runs on a shard, or sends to another server. The test
 * reads the notices from the connections to all servers. If a worker is lost, only its tenants are affected.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import type { Socket } from 'node:net';
import { readConfig } from '../../src/config/settings.ts';
import { nilTenant } from '../../src/domain/key.ts';
import { diagnose } from '../../src/operations/diagnosis.ts';
import { type Cli, openCli } from '../support/cli.ts';
import { authenticatedRoutes, callers, routeCaller, type Tenant } from '../support/route-access.ts';
import { noCitus } from '../support/skip.ts';
import { openTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import {
  citus,
  openTestServer,
  runPostgres,
  type TestServer,
  testMasterKey,
} from '../support/test-server.ts';
import { masterKeys } from '../support/test-store.ts';
import { until } from '../support/until.ts';

/** Two-phase commits, rows that are copied between servers, and statements that wait while any shard moves. */
const expensive = /^(PREPARE TRANSACTION|COPY|INSERT (?!.* VALUES ))/;

describe.skipIf(noCitus('requests'))('on a Citus cluster', () => {
  const notices = new Map<Socket, string>();
  let commands: string[] = [];
  /** How many connections the service has opened to the coordinator. */
  let connections = 0;
  let proxy: TcpProxy;
  let workers: TcpProxy[];
  let server: TestServer;
  let coordinator: string;
  /** The start of the hash range of every shard. Co-located shards have the same. */
  let ranges: Map<string, string>;
  let tenant: Tenant;
  let others: Tenant[];
  let cli: Cli;

  beforeAll(async () => {
    coordinator = await citus.createMigrated('');
    cli = openCli(() => ({ DATABASE_URL: coordinator, SALLYPORT_MASTER_KEY: testMasterKey }));
    const { pathname, port } = new URL(coordinator);
    const nodes = await runPostgres<{ id: number; host: string; port: number }>(
      coordinator,
      'select nodeid as id, nodename as host, nodeport as port from pg_dist_node where groupid > 0',
    );
    const logged = ['remote', 'local']
      .map((which) => `alter database "${pathname.slice(1)}" set citus.log_${which}_commands = on`)
      .join('; ');
    await runPostgres(coordinator, logged);
    const watch = (chunk: Buffer, socket: Socket) => {
      const text = (notices.get(socket) ?? '') + chunk.toString('latin1');
      const end = text.lastIndexOf('\0');
      const found = text.slice(0, end).matchAll(/\0M(issuing|executing the command locally:) ([^\0]*)/g);
      for (const [, how, command = ''] of found)
        if (how === 'issuing' || expensive.test(command)) commands.push(command);
      notices.set(socket, text.slice(end));
    };
    proxy = await openTcpProxy(Number(port), (chunk, socket) => {
      if (!notices.has(socket)) connections++;
      watch(chunk, socket);
    });
    workers = [];
    for (const node of nodes) {
      await runPostgres(
        Object.assign(new URL(coordinator), { host: `${node.host}:${node.port}` }).href,
        logged,
      );
      const worker = await openTcpProxy(node.port, watch);
      workers.push(worker);
      await runPostgres(coordinator, `select citus_update_node(${node.id}, '127.0.0.1', ${worker.port})`);
    }
    server = await openTestServer(Object.assign(new URL(coordinator), { port: String(proxy.port) }).href);
    const shards = await runPostgres<{ id: string; start: string }>(
      coordinator,
      'select shardid as id, shardminvalue as start from pg_dist_shard where shardminvalue is not null',
    );
    ranges = new Map(shards.map(({ id, start }) => [String(id), start]));
    const made = new Map([[await rangeOf(nilTenant), undefined as Tenant | undefined]]);
    while (made.size < 4) {
      const one = await server.tenant();
      const range = await rangeOf(one.id);
      if (!made.has(range)) made.set(range, one);
    }
    [tenant, ...others] = [...made.values()].filter((one) => one !== undefined) as [Tenant, ...Tenant[]];
  });
  afterAll(async () => {
    for (const each of [proxy, ...workers]) await each.close();
  });

  async function rangeOf(id: string): Promise<string> {
    const sql = `select get_shard_id_for_distribution_column('tenants', '${id}'::uuid) as shard`;
    const [row] = await runPostgres<{ shard: string }>(coordinator, sql);
    return ranges.get(String(row?.shard)) as string;
  }

  /** Waits until the workers know the addresses of all. */
  const untilSynced = () =>
    until('the workers are synced', async () => {
      const sql = 'select 1 from pg_dist_node where groupid > 0 and not metadatasynced';
      return (await runPostgres(coordinator, sql)).length === 0;
    });

  /** The commands since the last call that involve other tenants' servers or a two-phase commit. */
  async function take(): Promise<{ count: number; wrong: string[] }> {
    const taken = commands;
    commands = [];
    const allowed = [await rangeOf(tenant.id), await rangeOf(nilTenant)];
    const isWrong = (command: string) =>
      expensive.test(command) ||
      Array.from(command.matchAll(/_(\d{6,})\b/g), ([, shard]) => ranges.get(shard!)).some(
        (range) => range !== undefined && !allowed.includes(range),
      );
    return { count: taken.length, wrong: taken.filter(isWrong) };
  }

  const { callRoute, keyOf, createEntity } = routeCaller((...asked) => server.call(...asked));

  test.each(authenticatedRoutes.map((route) => [route.name, route] as const))(
    '%s asks one server, for every kind of caller',
    async (_, route) => {
      for (const caller of callers) {
        const [key, id] = [await keyOf(caller, tenant), await createEntity(route, tenant)];
        await take();
        const { status } = await callRoute(route, key, id, tenant);
        expect(status).toBeLessThan(500);
        expect({ caller, ...(await take()) }).toEqual({ caller, count: expect.any(Number), wrong: [] });
      }
    },
  );

  test('a worker serves its tenants without the coordinator', async () => {
    const call = async () => {
      await take();
      const body = { container: '/w/', data: 'x' };
      await server.call('GET', '/applications/key', { key: tenant.key });
      const { id } = (await server.call('POST', '/tokens', { key: tenant.key, body })).body as { id: string };
      await server.call('GET', `/tokens/${id}`, { key: tenant.key });
      await server.call('GET', '/tokens?container=/w/', { key: tenant.key });
      return (await take()).count;
    };
    await until('requests without a command to another server', async () => (await call()) === 0);
  });

  test('the notices include a statement about all tenants', async () => {
    await take();
    await server.app.maintenance.tenants.list();
    expect((await take()).wrong).not.toEqual([]);
  });

  const lists = [
    '/applications?page=1&name=a',
    '/applications?label[team]=a&label[env]=b',
    '/sessions?state=active&page=1',
    '/sessions?state=pending&authorized_by=01900001-0000-7000-8000-000000000001',
    '/tokens?page=1&container=/a/&type=generic',
    '/tokens?metadata[a]=b&metadata[c]=d',
    '/logs?operation=token.create&result=success',
    '/logs?size=1&container=/a/',
    '/logs/counts?operation=token.create',
    '/requests/counts',
    '/access/who?container=/a/&permission=token:read',
    '/access/advice?size=100',
  ];
  test.each(lists)('GET %s asks one server', async (path) => {
    for (const metadata of [{ a: 'b', c: 'd' }, { a: 'b' }])
      await server.call('POST', '/tokens', {
        key: tenant.key,
        body: { container: '/a/b/', data: 'x', metadata },
      });
    await take();
    const { status } = await server.call('GET', path, { key: tenant.key });
    expect({ status, ...(await take()) }).toEqual({ status: 200, count: expect.any(Number), wrong: [] });
  });

  test('revoking a leaked key, and a key that is unknown, ask one server', async () => {
    const { key } = await server.application(tenant.key);
    await take();
    for (const leaked of [key, key.replace(/.{8}$/, 'AAAAAAAA')])
      expect((await server.call('POST', '/keys/revoke', { body: { key: leaked } })).status).toBeLessThan(500);
    expect((await server.call('GET', '/tokens', { key })).status).toBe(401);
    expect((await take()).wrong).toEqual([]);
  });

  test('withdrawing the trust in an issuer asks one server', async () => {
    const trusted = { issuer: 'https://issuer.example', audience: 'a', claims: { sub: 'b' } };
    const body = { name: 'x', type: 'private', permissions: ['token:read'], trusted_issuers: [trusted] };
    const created = await server.call('POST', '/applications', { key: tenant.key, body });
    const { id } = created.body as { id: string };
    await take();
    const change = { key: tenant.key, body: { ...body, trusted_issuers: [] } };
    expect((await server.call('PUT', `/applications/${id}`, change)).status).toBe(200);
    expect((await take()).wrong).toEqual([]);
  });

  test('a repeated request with an idempotency key, and concurrent changes of a tenant, ask one server', async () => {
    const create = (headers: Record<string, string>) =>
      server.call('POST', '/tokens', { key: tenant.key, body: { container: '/i/', data: 'x' }, headers });
    await take();
    await create({ 'Idempotency-Key': 'one' });
    await create({ 'Idempotency-Key': 'one' });
    await Promise.all(Array.from({ length: 20 }, () => create({})));
    expect((await take()).wrong).toEqual([]);
  });

  test('the background jobs change one tenant per commit', async () => {
    for (const { key } of [tenant, ...others]) {
      const expires_at = new Date(server.clock.now() + 60_000).toISOString();
      await server.application(key, { expires_at });
      await server.call('POST', '/tokens', { key, body: { container: '/a/', data: 'x', expires_at } });
      await server.call('GET', '/tokens', { key: (await server.application(key)).key });
      await server.call('POST', '/tokens', { key: (await server.application(key)).key, body: { data: 'x' } });
    }
    server.clock.advance(3_600_000);
    commands = [];
    await server.flush();
    const shards = new Set(ranges.values()).size;
    expect(
      commands.filter((command) => /distinct tenant_id .* public.audit_pending_/i.test(command)),
    ).toHaveLength(shards);
    await server.flush();
    expect(commands.filter((command) => expensive.test(command))).toEqual([]);
    const left = 'select count(*)::int as count from tokens where expires_at is not null';
    expect(await runPostgres<{ count: number }>(coordinator, left)).toEqual([{ count: 0 }] as never);
    expect(server.logged.filter((line) => line.includes('could not'))).toEqual([]);
  });

  test('a tenant moves to another worker and back while it is changed, and no answered change is lost', async () => {
    const moved = await server.tenant();
    const move = (worker: string) => cli.run('tenants', 'move', moved.id, '--worker', worker);
    const answered: string[] = [];
    let isMoved = false;
    const writing = (async () => {
      for (let count = 0; !isMoved; count++) {
        const body = { id: `moved-${count}`, container: '/m/', data: 'x' };
        const { status } = await server.call('POST', '/tokens', { key: moved.key, body });
        if (status === 201) answered.push(body.id);
      }
    })();
    const place = async () => {
      const [row] = await runPostgres<{ worker: string; shard: string; alone: boolean }>(
        coordinator,
        `select nodename || ':' || nodeport as worker, shardid as shard, shardminvalue = shardmaxvalue as alone
         from pg_dist_shard join pg_dist_placement using (shardid) join pg_dist_node using (groupid)
         where shardid = get_shard_id_for_distribution_column('tenants', '${moved.id}'::uuid)`,
      );
      return row!;
    };
    const workers = await runPostgres<{ name: string }>(
      coordinator,
      "select nodename || ':' || nodeport as name from pg_dist_node where groupid > 0 order by 1",
    );
    const { worker: first } = await place();
    const names = workers.map(({ name }) => name);
    const other = names.find((name) => name !== first) as string;
    try {
      await untilSynced();
      // The second run may find the tenant there, or move it between the two steps of the first one.
      for (const { code, out } of await Promise.all([move(other), move(other)])) {
        const text = expect.stringMatching(/^moved .* from .* to |is on .* already\n$/);
        expect([code, out]).toEqual([0, text]);
      }
      const there = await place();
      expect(there).toMatchObject({ worker: other, alone: true });
      expect(await move(first)).toMatchObject({ code: 0 });
      expect(await place()).toEqual({ ...there, worker: first });
    } finally {
      isMoved = true;
      await writing;
    }
    expect((await move(first)).out).toBe(`${moved.id} is on ${first} already\n`);
    expect((await move('nowhere:1')).err).toContain(
      `no server nowhere:1 for rows, only ${names.join(' and ')}`,
    );
    expect((await cli.run('tenants', 'move', moved.id, '--worker', other, '--cancel')).code).toBe(2);
    const statuses = new Set<number>();
    for (const each of answered)
      statuses.add((await server.call('GET', `/tokens/${each}`, { key: moved.key })).status);
    expect([...statuses]).toEqual([200]);
    const logged = await server.call('GET', '/logs?operation=tenant.move_to_worker', { key: moved.key });
    const [last, ...earlier] = logged.body.data.map(
      ({ difference }: { difference: { worker: unknown } }) => difference.worker,
    );
    expect(last).toEqual({ from: other, to: first });
    expect(earlier).toContainEqual({ from: first, to: other });
    const checks = await diagnose(
      readConfig({ env: { DATABASE_URL: coordinator } }),
      masterKeys(testMasterKey),
      Date.now,
    );
    expect(checks.find(({ name }) => name === 'cluster')).toMatchObject({ state: 'ok' });
  });

  test('requests of tenants on a lost worker get 503, and those of other tenants go on', async () => {
    const [worker] = await runPostgres<{ id: number; port: number; host: string }>(
      coordinator,
      `select nodeid as id, nodeport as port, nodename as host from pg_dist_node where groupid > 0
       order by nodeid limit 1`,
    );
    const { id, port, host } = worker!;
    const between = await openTcpProxy(port);
    const move = (to: number) =>
      runPostgres(coordinator, `select citus_update_node(${id}, '${host}', ${to})`);
    await move(between.port);
    const portOf = async ({ id }: Tenant) => {
      const sql = `select nodeport as port from pg_dist_placement join pg_dist_node using (groupid)
        where shardid = get_shard_id_for_distribution_column('tenants', '${id}'::uuid)`;
      return (await runPostgres<{ port: number }>(coordinator, sql))[0]!.port;
    };
    const onWorker = new Map<boolean, Tenant>();
    while (onWorker.size < 2) {
      const one = await server.tenant();
      onWorker.set((await portOf(one)) === between.port, one);
    }
    const second = await openTestServer(coordinator);
    let created = await second.tenant();
    while ((await portOf(created)) === between.port) created = await second.tenant();
    await second.close();
    const statuses = async (isLost: boolean) => {
      const { key } = onWorker.get(isLost)!;
      const read = await server.call('GET', '/applications/key', { key });
      const list = await server.call('GET', '/tokens', { key });
      const change = await server.call('POST', '/tokens', { key, body: { container: '/l/', data: 'x' } });
      return [read, list, change].map(({ status }) => status);
    };
    expect(await statuses(true)).toEqual([200, 200, 201]);
    await untilSynced();
    between.setMode('refuse');
    between.disconnect();
    // Also lets the service notice that its connections were closed.
    expect(await statuses(false)).toEqual([200, 200, 201]);
    expect(await statuses(true)).toEqual([503, 503, 503]);
    expect((await server.call('GET', '/readyz')).status).toBe(200);
    const config = readConfig({ env: { DATABASE_URL: coordinator } });
    const checks = await diagnose(config, masterKeys(testMasterKey), Date.now);
    const lost = `the coordinator cannot connect to ${host}:${between.port}: requests of its tenants get 503`;
    expect(checks.find(({ name }) => name === 'cluster')).toMatchObject({ state: 'fail', message: lost });
    const started = await openTestServer(coordinator);
    const { id: otherId, key: otherKey } = onWorker.get(false)!;
    for (const change of ['disable', 'enable'])
      expect(await cli.run('tenants', change, otherId)).toMatchObject({ code: 0 });
    expect((await started.call('GET', '/tokens', { key: otherKey })).status).toBe(200);
    await started.close();
    const before = connections;
    await Promise.all([true, false, true, false].map(statuses));
    expect(connections).toBe(before);
    // Now the coordinator gets no answer from the worker, and waits.
    between.setMode('swallow');
    const waiting = Promise.allSettled(Array.from({ length: 20 }, () => statuses(true)));
    const answers = await Promise.all(Array.from({ length: 20 }, () => statuses(false)));
    expect(new Set(answers.flat())).toEqual(new Set([200, 201]));
    // Only the coordinator knows where this tenant is.
    expect((await server.call('GET', '/applications/key', { key: created.key })).status).toBe(200);
    between.setMode('pass');
    between.disconnect();
    await waiting;
    await until('answers for the worker', async () => (await statuses(true)).join() === '200,200,201');
    await move(port);
  });
});
