import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import type { NewEntry } from '../../../src/store/store.ts';
import { type Desk, openDesk } from '../../support/cli.ts';
import { ProgramFolder } from '../../support/program.ts';
import { openTestServer, sqlite, startTime, type TestServer } from '../../support/test-server.ts';

describe('logs tail', () => {
  let world: TestServer;
  let desk: Desk;
  const made: string[] = [];
  beforeAll(async () => {
    world = await openTestServer(sqlite);
    const [{ key }, theirs] = [await world.tenant(), await world.tenant()];
    for (let count = 0; count < 3; count++) {
      made.push((await world.application(key)).id);
      world.clock.advance(1000);
    }
    await world.application(theirs.key);
    const weak = await world.application(key);
    await world.call('GET', '/applications', { key: weak.key });
    await world.flush();
    desk = openDesk(() => ({ SALLYPORT_URL: world.url, SALLYPORT_KEY: key }));
  });
  afterAll(async () => {
    await world.close();
    desk.clear();
  });

  const tail = async (...options: string[]) => {
    const entries = await desk.entries('logs', 'tail', ...options);
    return entries.map(
      ({ operation, result, entity }) => `${operation} ${entity ? made.indexOf(entity.id) : result}`,
    );
  };
  const all = ['create 0', 'create 1', 'create 2', 'create -1', 'read denied'].map(
    (what) => `application.${what}`,
  );

  test('prints what a tenant did and was refused, newest last, and nothing of another tenant', async () => {
    expect(await tail()).toEqual(all);
    expect(await tail('--lines', '2')).toEqual(all.slice(-2));
    const { out } = await desk.run('logs', 'tail', '--lines', '1');
    expect(out).toMatch(
      /^2026-11-15T12:00:03.000Z {2}denied {3}application.read {2}by application .*permission_missing/,
    );
  });

  test('narrows by entity, operation, result and time', async () => {
    expect(await tail('--entity', made[1] as string)).toEqual(['application.create 1']);
    expect(await tail('--result', 'denied')).toEqual(['application.read denied']);
    const to = new Date(startTime + 1000).toISOString();
    expect(await tail('--operation', 'application.create', '--to', to)).toEqual(['application.create 0']);
  });

  test('says what is wrong with what it was asked', async () => {
    expect(await desk.run('logs', 'tail', '--lines', '0')).toMatchObject({
      code: 2,
      error: expect.stringContaining('--lines must be a whole number'),
    });
    expect(await desk.run('logs', 'tail', '--from', 'yesterday')).toMatchObject({
      code: 4,
      error: expect.stringContaining('ISO 8601'),
    });
    expect((await desk.run('logs', 'tail', '--tenant', 'x')).code).toBe(2);
  });

  test('follows: what comes is shown once, also what is written late, and nothing from before', async () => {
    const { key, id: tenantId } = await world.tenant();
    await world.application(key);
    await world.application(key);
    const env = { SALLYPORT_URL: world.url, SALLYPORT_KEY: key };
    const follower = openDesk(() => env);
    const { next, stop } = follower.follow('logs', 'tail', '--lines', '1');
    expect(await next()).toMatchObject([{ operation: 'application.create' }]);

    const before = world.clock.now();
    world.clock.advance(2000);
    const { id } = await world.application(key);
    expect(await next()).toMatchObject([{ operation: 'application.create', entity: { id } }]);
    const late = {
      tenantId,
      at: before,
      actor: { kind: 'anonymous' },
      operation: 'late',
      result: 'denied',
      from: {},
    };
    await world.app.store.audit.write([late as NewEntry]);
    expect(await next()).toMatchObject([{ operation: 'late', result: 'denied' }]);

    expect(await stop()).toBe(0);
    follower.clear();
  });
});

test('logs tail follows a clock that was ahead: what comes after it was put right is shown, and nothing twice', async () => {
  const day = 86_400_000;
  const unlimited = { SALLYPORT_RATE_PER_ADDRESS: '0', SALLYPORT_RATE_PER_KEY: '0' };
  const world = await openTestServer(sqlite, unlimited);
  const { clock, application } = world;
  clock.advance(Date.now() - clock.now());
  const { key } = await world.tenant();
  const create = async (name: string) => (await application(key, { name })).id;
  const follower = openDesk(() => ({ SALLYPORT_URL: world.url, SALLYPORT_KEY: key }));
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
    clock.advance(1000);
    const id = await create(name);
    expect(ids(await early.next())).toEqual([id]);
    expect(ids(await late.next())).toEqual([id]);
  }
  expect([await early.stop(), await late.stop()]).toEqual([0, 0]);
  await world.close();
  follower.clear();
});

/** Listens on the port until it has turned so many connections away. */
async function refuseConnections(port: number, count: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  let left = count;
  const server = createServer((socket) => {
    socket.destroy();
    if (--left === 0) resolve();
  }).listen(port, '127.0.0.1');
  await promise;
  await new Promise((closed) => server.close(closed));
}

test('logs tail follows through a restart of the service: it says so once, and loses and doubles nothing', async () => {
  const place = new ProgramFolder();
  const first = await place.serve();
  const env = { PORT: new URL(first.url).port };
  const key = readFileSync(place.path('data/management.key'), 'utf8').trim();
  const desk = openDesk(() => ({ SALLYPORT_URL: first.url, SALLYPORT_KEY: key }));
  const create = async (name: string) =>
    desk.run('apps', 'create', '--name', name, '--type', 'private', '--permission', 'token:read');
  await create('one');
  const { next, said, stop } = desk.follow('logs', 'tail', '--lines', '1');
  expect(await next()).toHaveLength(1);
  first.kill('SIGTERM');
  await first.ended;
  expect(await said()).toBe(
    `sallyport: warning: ${first.url}: the service could not be reached; it is asked again until it answers\n`,
  );
  await refuseConnections(Number(env.PORT), 2);
  const second = await place.serve(env);
  for (const name of ['two', 'three']) {
    const { out } = await create(name);
    expect(await next()).toMatchObject([{ entity: { id: out.match(/[0-9a-f-]{36}/)?.[0] } }]);
  }
  expect(await stop()).toBe(0);
  expect(await said()).toBe('');
  second.kill('SIGTERM');
  expect(await second.ended).toBe(0);
  await place.close();
  desk.clear();
});

test('logs tail stops at a refusal, which does not pass', async () => {
  const world = await openTestServer(sqlite);
  const { key } = await world.tenant();
  const reader = await world.application(key, { permissions: ['log:read'] });
  const desk = openDesk(() => ({ SALLYPORT_URL: world.url, SALLYPORT_KEY: reader.key }));
  const { next, said, ended } = desk.follow('logs', 'tail');
  expect(await next()).toHaveLength(1);
  await world.call('DELETE', `/applications/${reader.id}`, { key });
  expect(await said()).toContain('unauthenticated');
  expect(await ended).toBe(4);
  await world.close();
  desk.clear();
});
