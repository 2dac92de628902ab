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

describe.each(databases)('keys of an application on %s', (_, database) => {
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
  /** The statuses that both nodes return for the key. */
  const shown = (as: string) =>
    Promise.all(
      [world, node].map(async (at) => (await at.call('GET', '/applications/key', { key: as })).status),
    );

  test('a second key works beside the first until the first is deleted', async () => {
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

  test('only the response that creates a key contains it; others have its last characters', async () => {
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

  test('a fourth key is rejected until one is deleted', async () => {
    const made = await readable();
    expect((await add(made.id)).status).toBe(201);
    const { body: third } = await add(made.id);
    expect(await add(made.id)).toMatchObject({ status: 409, body: { code: 'too_many_keys' } });
    await remove(made.id, third.id);
    expect((await add(made.id)).status).toBe(201);
    expect(await list(made.id)).toHaveLength(3);
  });

  test('concurrent requests on several nodes create at most three keys', async () => {
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

  test('regenerating revokes all keys immediately and leaves one', async () => {
    const made = await readable();
    const others = [(await add(made.id)).body.key, (await add(made.id)).body.key];
    const { body } = await regenerate(made.id);
    for (const old of [made.key, ...others]) expect(await shown(old)).toEqual(dead);
    expect(await shown(body.key)).toEqual(alive);
    expect((await list(made.id)).map(({ ending }: ApiResponse['body']) => ending)).toEqual([
      body.key.slice(-4),
    ]);
  });

  test('a key created during a regeneration is revoked, unless it was created after it', async () => {
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

  test('the last key can be deleted, and another created', async () => {
    const made = await readable();
    const [only] = await list(made.id);
    expect((await remove(made.id, only.id)).status).toBe(204);
    expect(await shown(made.key)).toEqual(dead);
    expect(await list(made.id)).toEqual([]);
    expect((await world.call('GET', `/applications/${made.id}`, { key })).status).toBe(200);
    const { body } = await add(made.id);
    expect(await shown(body.key)).toEqual(alive);
  });

  test('an application can replace its own key, and delete the one it uses', async () => {
    const made = await readable({ permissions: ['application:read', 'application:update'] });
    const { body } = await add(made.id, made.key);
    const [, old] = await list(made.id);
    expect((await remove(made.id, old.id, made.key)).status).toBe(204);
    expect((await remove(made.id, body.id, made.key)).status).toBe(401);
    expect(await shown(body.key)).toEqual(alive);
  });

  test('deleting a key twice, or by the id of another application, returns 404', async () => {
    const [made, other] = [await readable(), await readable()];
    const [one] = await list(made.id);
    expect((await remove(other.id, one.id)).status).toBe(404);
    expect(await shown(made.key)).toEqual(alive);
    const answers = await Promise.all(times(8, () => remove(made.id, one.id)));
    expect(answers.map(({ status }) => status).sort()).toEqual([204, ...Array(7).fill(404)]);
  });

  test('creating and deleting keys requires the management permissions of the application', async () => {
    const admin = await readable({ permissions: ['application:update', 'log:read'] });
    const weak = await readable({ permissions: ['application:update', 'application:read'] });
    const [one] = await list(admin.id);
    for (const answer of [await add(admin.id, weak.key), await remove(admin.id, one.id, weak.key)])
      expect(answer).toMatchObject({ status: 403, body: { code: 'grant_not_held' } });
    expect(await list(admin.id)).toEqual([one]);
    const equal = await readable({ permissions: ['application:update', 'log:read'] });
    expect((await add(admin.id, equal.key)).status).toBe(201);
  });

  test('a limited session is revoked with the key that authorized it, and with no other', async () => {
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

  test('keys of an expired application cannot be listed, created or deleted', async () => {
    const made = await readable({ expires_at: new Date(world.clock.now() + 1000).toISOString() });
    const [one] = await list(made.id);
    world.clock.advance(1000);
    expect((await world.call('GET', `/applications/${made.id}/keys`, { key })).status).toBe(404);
    expect((await add(made.id)).status).toBe(404);
    expect((await remove(made.id, one.id)).status).toBe(404);
  });

  test('the audit log identifies created and deleted keys by their last characters', async () => {
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

  test('a retry with an Idempotency-Key creates one key and returns it again', async () => {
    const made = await readable();
    const once = () =>
      world.call('POST', `/applications/${made.id}/keys`, { key, headers: { 'Idempotency-Key': made.id } });
    const [first, again] = [await once(), await once()];
    expect(again.body).toEqual(first.body);
    expect(await list(made.id)).toHaveLength(2);
  });
});
