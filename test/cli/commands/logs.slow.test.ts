import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import type { NewEntry } from '../../../src/store/store.ts';
import { type Cli, openCli } from '../../support/cli.ts';
import { freePort } from '../../support/postgres.ts';
import { ProgramFolder } from '../../support/program.ts';
import { openTestServer, sqlite, startTime, type TestServer } from '../../support/test-server.ts';

describe('logs tail', () => {
  let server: TestServer;
  let cli: Cli;
  const created: string[] = [];
  beforeAll(async () => {
    server = await openTestServer(sqlite);
    const [{ key }, otherTenant] = [await server.tenant(), await server.tenant()];
    for (let count = 0; count < 3; count++) {
      created.push((await server.application(key)).id);
      server.clock.advance(1000);
    }
    await server.application(otherTenant.key);
    const weak = await server.application(key);
    await server.call('GET', '/applications', { key: weak.key });
    await server.flush();
    cli = openCli(() => ({ SALLYPORT_URL: server.url, SALLYPORT_KEY: key }));
  });
  afterAll(async () => {
    await server.close();
  });

  const tail = async (...options: string[]) => {
    const entries = await cli.entries('logs', 'tail', ...options);
    return entries.map(
      ({ operation, result, entity }) => `${operation} ${entity ? created.indexOf(entity.id) : result}`,
    );
  };
  const all = ['create 0', 'create 1', 'create 2', 'create -1', 'read denied'].map(
    (what) => `application.${what}`,
  );

  test('prints changes and denials of the tenant only, newest last', async () => {
    expect(await tail()).toEqual(all);
    expect(await tail('--lines', '2')).toEqual(all.slice(-2));
    const { out } = await cli.run('logs', 'tail', '--lines', '1');
    expect(out).toMatch(
      /^2026-11-15T12:00:03.000Z {2}denied {3}application.read {2}by application .*permission_missing \(this application does not have application:read/,
    );
  });

  test('filters by entity, operation, result and time', async () => {
    expect(await tail('--entity', created[1] as string)).toEqual(['application.create 1']);
    expect(await tail('--result', 'denied')).toEqual(['application.read denied']);
    const to = new Date(startTime + 1000).toISOString();
    expect(await tail('--operation', 'application.create', '--to', to)).toEqual(['application.create 0']);
  });

  test('--after prints everything after an entry, oldest first', async () => {
    const [first] = await cli.entries('logs', 'tail', '--operation', 'application.create', '--lines', '4');
    expect(await tail('--after', first?.id as string)).toEqual(all.slice(1));
    expect(await tail('--after', first?.id as string, '--result', 'denied')).toEqual(all.slice(-1));
    expect(await cli.run('logs', 'tail', '--after', first?.id as string, '--lines', '3')).toMatchObject({
      code: 2,
      err: expect.stringContaining('--after prints all entries and cannot be combined with --lines'),
    });
    expect(await cli.run('logs', 'tail', '--after', created[0] as string)).toMatchObject({
      code: 4,
      err: expect.stringContaining('must be the id of an entry of this log'),
    });
  });

  test('rejects invalid options', async () => {
    expect(await cli.run('logs', 'tail', '--lines', '0')).toMatchObject({
      code: 2,
      err: expect.stringContaining('--lines must be a whole number'),
    });
    expect(await cli.run('logs', 'tail', '--from', 'yesterday')).toMatchObject({
      code: 4,
      err: expect.stringContaining('ISO 8601'),
    });
    expect((await cli.run('logs', 'tail', '--tenant', 'x')).code).toBe(2);
  });

  test('--follow prints every new entry once, including one that is written late', async () => {
    const { key, id: tenantId } = await server.tenant();
    await server.application(key);
    await server.application(key);
    const env = { SALLYPORT_URL: server.url, SALLYPORT_KEY: key };
    const follower = openCli(() => env);
    const { next, stop } = follower.follow('logs', 'tail', '--lines', '1');
    expect(await next()).toMatchObject([{ operation: 'application.create' }]);

    const before = server.clock.now();
    server.clock.advance(2000);
    const { id } = await server.application(key);
    expect(await next()).toMatchObject([{ operation: 'application.create', entity: { id } }]);
    const late = {
      tenantId,
      at: before,
      actor: { kind: 'anonymous' },
      operation: 'late',
      result: 'denied',
      from: {},
    };
    await server.app.store.audit.write([late as NewEntry]);
    expect(await next()).toMatchObject([{ operation: 'late', result: 'denied' }]);

    expect(await stop()).toBe(0);
  });
});

test('logs tail --follow prints every entry once after a fast clock was corrected', async () => {
  const day = 86_400_000;
  const unlimited = {
    SALLYPORT_RATE_PER_ADDRESS: '0',
    SALLYPORT_RATE_PER_KEY: '0',
    SALLYPORT_PROCESSING_PER_APPLICATION: '0',
  };
  const server = await openTestServer(sqlite, unlimited);
  const { clock, application } = server;
  clock.advance(Date.now() - clock.now());
  const { key } = await server.tenant();
  const create = async (name: string) => (await application(key, { name })).id;
  const follower = openCli(() => ({ SALLYPORT_URL: server.url, SALLYPORT_KEY: key }));
  const ids = (entries: readonly { entity?: { id: string } }[]) => entries.map(({ entity }) => entity?.id);

  const before = await create('before');
  const early = follower.follow('logs', 'tail');
  expect(ids(await early.next())).toEqual([before]);
  clock.advance(day);
  const ahead = await create('ahead');
  expect(ids(await early.next())).toEqual([ahead]);
  clock.advance(60_000);
  const further = await create('further ahead');
  expect(ids(await early.next())).toEqual([further]);
  clock.advance(-day - 60_000);
  const late = follower.follow('logs', 'tail', '--lines', '1');
  expect(ids(await late.next())).toEqual([further]);
  for (const name of ['back', 'and on']) {
    // The command uses the real time. On a slow machine the clock of the service could be behind it.
    clock.advance(Date.now() - clock.now());
    const id = await create(name);
    expect(ids(await early.next())).toEqual([id]);
    expect(ids(await late.next())).toEqual([id]);
  }
  expect([await early.stop(), await late.stop()]).toEqual([0, 0]);
  await server.close();
});

/** Listens on the port until it has closed `count` connections. */
async function refuseConnections(port: number, count: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  let remaining = count;
  const server = createServer((socket) => {
    socket.destroy();
    if (--remaining === 0) resolve();
  }).listen(port, '127.0.0.1');
  await promise;
  await new Promise((closed) => server.close(closed));
}

test('logs tail --follow survives a restart of the service with one warning, and prints every entry once', async () => {
  const program = new ProgramFolder();
  const env = { PORT: String(freePort()) };
  const first = await program.serve(env);
  const key = readFileSync(program.path('data/management.key'), 'utf8').trim();
  const cli = openCli(() => ({ SALLYPORT_URL: first.url, SALLYPORT_KEY: key }));
  const create = async (name: string) =>
    cli.run('apps', 'create', '--name', name, '--type', 'private', '--permission', 'token:read');
  await create('one');
  const { next, nextMessage, stop } = cli.follow('logs', 'tail', '--lines', '1');
  expect(await next()).toHaveLength(1);
  first.kill('SIGTERM');
  await first.ended;
  const lost = `sallyport: warning: ${first.url}: the service could not be reached`;
  expect(await nextMessage()).toMatch(new RegExp(`^${lost} \\(ECONNREFUSED: .*\\); retrying\n$`));
  await refuseConnections(Number(env.PORT), 2);
  const second = await program.serve(env);
  for (const name of ['two', 'three']) {
    const { out } = await create(name);
    expect(await next()).toMatchObject([{ entity: { id: out.match(/[0-9a-f-]{36}/)?.[0] } }]);
  }
  expect(await stop()).toBe(0);
  expect(await nextMessage()).toBe('');
  second.kill('SIGTERM');
  expect(await second.ended).toBe(0);
});

test('logs tail --follow exits when its key is revoked', async () => {
  const server = await openTestServer(sqlite);
  const { key } = await server.tenant();
  const reader = await server.application(key, { permissions: ['log:read'] });
  const cli = openCli(() => ({ SALLYPORT_URL: server.url, SALLYPORT_KEY: reader.key }));
  const { next, nextMessage, ended } = cli.follow('logs', 'tail');
  expect(await next()).toHaveLength(1);
  await server.call('DELETE', `/applications/${reader.id}`, { key });
  expect(await nextMessage()).toContain('unauthenticated');
  expect(await ended).toBe(4);
  await server.close();
});
