import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import {
  type ApiResponse,
  databases,
  openTestServer,
  type TestServer,
  testMasterKey,
} from '../../support/test-server.ts';

const times = <T>(count: number, make: (at: number) => T) =>
  Array.from({ length: count }, (_, at) => make(at));
const dead = [401, 401];
const alive = [200, 200];

describe.each(databases)('the keys of an Application on %s', (_, database) => {
  let world: TestServer;
  let node: TestServer;
  let key: string;
  beforeAll(async () => {
    world = await openTestServer(database, { SALLYPORT_MASTER_KEY: testMasterKey });
    node = await openTestServer(world.config.databaseUrl);
    key = (await world.tenant()).key;
  });
  afterAll(async () => {
    await node.close();
    await world.close();
  });

  const readable = (fields: object = {}) =>
    world.application(key, { permissions: ['application:read'], ...fields });
  const add = (id: string, as = key) => world.call('POST', `/applications/${id}/keys`, { key: as });
  const list = async (id: string) => (await world.call('GET', `/applications/${id}/keys`, { key })).body.data;
  const remove = (id: string, keyId: string, as = key) =>
    world.call('DELETE', `/applications/${id}/keys/${keyId}`, { key: as });
  const regenerate = (id: string) => world.call('POST', `/applications/${id}/regenerate`, { key });
  /** What both nodes answer to whoever shows the key. */
  const shown = (as: string) =>
    Promise.all(
      [world, node].map(async (at) => (await at.call('GET', '/applications/key', { key: as })).status),
    );

  test('a second key works beside the first, which is deleted when nothing uses it any more', async () => {
    const made = await readable();
    const { status, body } = await add(made.id);
    expect(status).toBe(201);
    expect(await shown(made.key)).toEqual(alive);
    expect(await shown(body.key)).toEqual(alive);
    const [, first] = await list(made.id);
    expect((await remove(made.id, first.id)).status).toBe(204);
    expect(await shown(made.key)).toEqual(dead);
    expect(await shown(body.key)).toEqual(alive);
  });

  test('the reply that makes a key is the only one that shows it; the others show how it ends', async () => {
    const made = await readable({ type: 'public' });
    const creator = (await world.call('GET', '/applications/key', { key })).body.id;
    world.clock.advance(1000);
    const { body } = await add(made.id);
    expect(body).toEqual({
      id: expect.any(String),
      key: expect.stringMatching(/^slp_pub_/),
      ending: body.key.slice(-4),
      created_by: creator,
      created_at: new Date(world.clock.now()).toISOString(),
    });
    const { key: _, ...rest } = body;
    expect(await list(made.id)).toEqual([
      rest,
      {
        id: expect.any(String),
        ending: made.key.slice(-4),
        created_by: creator,
        created_at: made.created_at,
      },
    ]);
  });

  test('a fourth is refused until one of the three is gone', async () => {
    const made = await readable();
    expect((await add(made.id)).status).toBe(201);
    const { body: third } = await add(made.id);
    expect(await add(made.id)).toMatchObject({ status: 409, body: { code: 'too_many_keys' } });
    await remove(made.id, third.id);
    expect((await add(made.id)).status).toBe(201);
    expect(await list(made.id)).toHaveLength(3);
  });

  test('of any number made at once on several nodes, no more than three are alive', async () => {
    for (let round = 0; round < 3; round++) {
      const made = await readable();
      const answers = await Promise.all(
        times(20, (at) => [world, node][at % 2]!.call('POST', `/applications/${made.id}/keys`, { key })),
      );
      const won = answers.filter(({ status }) => status === 201);
      expect(won).toHaveLength(2);
      expect(answers.filter(({ status }) => status === 409)).toHaveLength(18);
      for (const { body } of won) expect(await shown(body.key)).toEqual(alive);
      expect(await list(made.id)).toHaveLength(3);
    }
  });

  test('regenerating kills all of them at once and leaves one', async () => {
    const made = await readable();
    const others = [(await add(made.id)).body.key, (await add(made.id)).body.key];
    const { body } = await regenerate(made.id);
    for (const old of [made.key, ...others]) expect(await shown(old)).toEqual(dead);
    expect(await shown(body.key)).toEqual(alive);
    expect((await list(made.id)).map(({ ending }: ApiResponse['body']) => ending)).toEqual([
      body.key.slice(-4),
    ]);
  });

  test('keys made while the Application is regenerated are dead, or made after it', async () => {
    const made = await readable();
    const [again, ...added] = await Promise.all([regenerate(made.id), ...times(6, () => add(made.id))]);
    expect(again?.status).toBe(200);
    const endings = (await list(made.id)).map(({ ending }: ApiResponse['body']) => ending);
    expect(endings.length).toBeLessThanOrEqual(3);
    for (const { status, body } of added) {
      expect([201, 409]).toContain(status);
      if (status === 201) expect(await shown(body.key)).toEqual(endings.includes(body.ending) ? alive : dead);
    }
  });

  test('the last one may be deleted: the Application stays, and is given another', async () => {
    const made = await readable();
    const [only] = await list(made.id);
    expect((await remove(made.id, only.id)).status).toBe(204);
    expect(await shown(made.key)).toEqual(dead);
    expect(await list(made.id)).toEqual([]);
    expect((await world.call('GET', `/applications/${made.id}`, { key })).status).toBe(200);
    const { body } = await add(made.id);
    expect(await shown(body.key)).toEqual(alive);
  });

  test('an Application may replace its own key, and delete the one that it calls with', async () => {
    const made = await readable({ permissions: ['application:read', 'application:update'] });
    const { body } = await add(made.id, made.key);
    const [, old] = await list(made.id);
    expect((await remove(made.id, old.id, made.key)).status).toBe(204);
    expect((await remove(made.id, body.id, made.key)).status).toBe(401);
    expect(await shown(body.key)).toEqual(alive);
  });

  test('deleting one twice, or by the id of another Application, finds nothing', async () => {
    const [made, other] = [await readable(), await readable()];
    const [one] = await list(made.id);
    expect((await remove(other.id, one.id)).status).toBe(404);
    expect(await shown(made.key)).toEqual(alive);
    const answers = await Promise.all(times(8, () => remove(made.id, one.id)));
    expect(answers.map(({ status }) => status).sort()).toEqual([204, ...Array(7).fill(404)]);
  });

  test('who lacks a management permission of the Application gets no key of it, and takes none away', async () => {
    const admin = await readable({ permissions: ['application:update', 'log:read'] });
    const weak = await readable({ permissions: ['application:update', 'application:read'] });
    const [one] = await list(admin.id);
    for (const answer of [await add(admin.id, weak.key), await remove(admin.id, one.id, weak.key)])
      expect(answer).toMatchObject({ status: 403, body: { code: 'grant_not_held' } });
    expect(await list(admin.id)).toEqual([one]);
    const equal = await readable({ permissions: ['application:update', 'log:read'] });
    expect((await add(admin.id, equal.key)).status).toBe(201);
  });

  test('a Session under a ceiling dies with the key that authorized it, and with no other', async () => {
    const backend = await readable();
    const { body: second } = await add(backend.id);
    const web = await readable({ type: 'public' });
    const begin = async (as: string) => {
      const { body } = await world.call('POST', '/sessions', { key: web.key });
      const grant = { nonce: body.nonce, permissions: ['application:read'] };
      await world.call('POST', '/sessions/authorize', { key: as, body: grant });
      return body.session_key;
    };
    const [byFirst, bySecond] = [await begin(backend.key), await begin(second.key)];
    await remove(backend.id, second.id);
    expect(await shown(bySecond)).toEqual(dead);
    expect(await shown(byFirst)).toEqual(alive);
  });

  test('an expired Application has no keys to list, to add to or to delete', async () => {
    const made = await readable({ expires_at: new Date(world.clock.now() + 1000).toISOString() });
    const [one] = await list(made.id);
    world.clock.advance(1000);
    expect((await world.call('GET', `/applications/${made.id}/keys`, { key })).status).toBe(404);
    expect((await add(made.id)).status).toBe(404);
    expect((await remove(made.id, one.id)).status).toBe(404);
  });

  test('the audit log says which key came and which went, by how it ends', async () => {
    const made = await readable();
    const { body } = await add(made.id);
    await remove(made.id, body.id);
    const { body: logs } = await world.call('GET', `/logs?entity=${made.id}`, { key });
    const it = { id: body.id, ending: body.ending };
    expect(logs.data.slice(0, 2)).toMatchObject([
      { operation: 'application.key.delete', difference: { keys: { from: it } } },
      { operation: 'application.key.create', difference: { keys: { to: it } } },
    ]);
    expect(JSON.stringify(logs)).not.toContain(body.key);
  });

  test('a request repeated with its Idempotency-Key makes one key, and shows the same again', async () => {
    const made = await readable();
    const once = () =>
      world.call('POST', `/applications/${made.id}/keys`, { key, headers: { 'Idempotency-Key': made.id } });
    const [first, again] = [await once(), await once()];
    expect(again.body).toEqual(first.body);
    expect(await list(made.id)).toHaveLength(2);
  });
});
