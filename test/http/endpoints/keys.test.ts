import { describe, expect, test } from 'bun:test';
import { type ApiResponse, databases, openTestServer, testMasterKey } from '../../support/test-server.ts';

const times = <T>(count: number, make: (at: number) => T) =>
  Array.from({ length: count }, (_, at) => make(at));
const invalid = [401, 401];
const valid = [200, 200];

describe.each(databases)('keys of an application on %s', async (_, database) => {
  const server = await openTestServer(database, { SALLYPORT_MASTER_KEY: testMasterKey });
  const node = await openTestServer(server.config.databaseUrl);
  const key = (await server.tenant()).key;

  const readable = (fields: object = {}) =>
    server.application(key, { permissions: ['application:read'], ...fields });
  const add = (id: string, as = key) => server.call('POST', `/applications/${id}/keys`, { key: as });
  const list = async (id: string) =>
    (await server.call('GET', `/applications/${id}/keys`, { key })).body.data;
  const remove = (id: string, keyId: string, as = key) =>
    server.call('DELETE', `/applications/${id}/keys/${keyId}`, { key: as });
  const regenerate = (id: string) => server.call('POST', `/applications/${id}/regenerate`, { key });
  /** The statuses that both nodes return for the key. */
  const statuses = (as: string) =>
    Promise.all(
      [server, node].map(async (at) => (await at.call('GET', '/applications/key', { key: as })).status),
    );

  test('a second key works beside the first until the first is deleted', async () => {
    const created = await readable();
    const { status, body } = await add(created.id);
    expect(status).toBe(201);
    expect(await statuses(created.key)).toEqual(valid);
    expect(await statuses(body.key)).toEqual(valid);
    const [, first] = await list(created.id);
    expect((await remove(created.id, first.id)).status).toBe(204);
    expect(await statuses(created.key)).toEqual(invalid);
    expect(await statuses(body.key)).toEqual(valid);
  });

  test('only the response that creates a key contains it; others have its last characters', async () => {
    const created = await readable({ type: 'public' });
    const creator = (await server.call('GET', '/applications/key', { key })).body.id;
    server.clock.advance(1000);
    const { body } = await add(created.id);
    expect(body).toEqual({
      id: expect.any(String),
      key: expect.stringMatching(/^slp_pub_/),
      ending: body.key.slice(-4),
      created_by: creator,
      created_at: new Date(server.clock.now()).toISOString(),
    });
    const { key: _, ...rest } = body;
    expect(await list(created.id)).toEqual([
      rest,
      {
        id: expect.any(String),
        ending: created.key.slice(-4),
        created_by: creator,
        created_at: created.created_at,
      },
    ]);
  });

  test('a fourth key is rejected until one is deleted', async () => {
    const created = await readable();
    expect((await add(created.id)).status).toBe(201);
    const { body: third } = await add(created.id);
    expect(await add(created.id)).toMatchObject({ status: 409, body: { code: 'too_many_keys' } });
    await remove(created.id, third.id);
    expect((await add(created.id)).status).toBe(201);
    expect(await list(created.id)).toHaveLength(3);
  });

  test('concurrent requests on several nodes create at most three keys', async () => {
    for (let round = 0; round < 3; round++) {
      const created = await readable();
      const answers = await Promise.all(
        times(20, (at) => [server, node][at % 2]!.call('POST', `/applications/${created.id}/keys`, { key })),
      );
      const won = answers.filter(({ status }) => status === 201);
      expect(won).toHaveLength(2);
      expect(answers.filter(({ status }) => status === 409)).toHaveLength(18);
      for (const { body } of won) expect(await statuses(body.key)).toEqual(valid);
      expect(await list(created.id)).toHaveLength(3);
    }
  });

  test('regenerating revokes all keys immediately and leaves one', async () => {
    const created = await readable();
    const others = [(await add(created.id)).body.key, (await add(created.id)).body.key];
    const { body } = await regenerate(created.id);
    for (const old of [created.key, ...others]) expect(await statuses(old)).toEqual(invalid);
    expect(await statuses(body.key)).toEqual(valid);
    expect((await list(created.id)).map(({ ending }: ApiResponse['body']) => ending)).toEqual([
      body.key.slice(-4),
    ]);
  });

  test('a key created during a regeneration is revoked, unless it was created after it', async () => {
    const created = await readable();
    const [again, ...added] = await Promise.all([regenerate(created.id), ...times(6, () => add(created.id))]);
    expect(again?.status).toBe(200);
    const endings = (await list(created.id)).map(({ ending }: ApiResponse['body']) => ending);
    expect(endings.length).toBeLessThanOrEqual(3);
    for (const { status, body } of added) {
      expect([201, 409]).toContain(status);
      if (status === 201)
        expect(await statuses(body.key)).toEqual(endings.includes(body.ending) ? valid : invalid);
    }
  });

  test('the last key can be deleted, and another created', async () => {
    const created = await readable();
    const [only] = await list(created.id);
    expect((await remove(created.id, only.id)).status).toBe(204);
    expect(await statuses(created.key)).toEqual(invalid);
    expect(await list(created.id)).toEqual([]);
    expect((await server.call('GET', `/applications/${created.id}`, { key })).status).toBe(200);
    const { body } = await add(created.id);
    expect(await statuses(body.key)).toEqual(valid);
  });

  test('an application can replace its own key, and delete the one it uses', async () => {
    const created = await readable({ permissions: ['application:read', 'application:update'] });
    const { body } = await add(created.id, created.key);
    const [, old] = await list(created.id);
    expect((await remove(created.id, old.id, created.key)).status).toBe(204);
    expect((await remove(created.id, body.id, created.key)).status).toBe(401);
    expect(await statuses(body.key)).toEqual(valid);
  });

  test('deleting a key twice, or by the id of another application, returns 404', async () => {
    const [created, other] = [await readable(), await readable()];
    const [one] = await list(created.id);
    expect((await remove(other.id, one.id)).status).toBe(404);
    expect(await statuses(created.key)).toEqual(valid);
    const answers = await Promise.all(times(8, () => remove(created.id, one.id)));
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
      const { body } = await server.call('POST', '/sessions', { key: web.key });
      const grant = { nonce: body.nonce, permissions: ['application:read'] };
      await server.call('POST', '/sessions/authorize', { key: as, body: grant });
      return body.session_key;
    };
    const [byFirst, bySecond] = [await begin(backend.key), await begin(second.key)];
    await remove(backend.id, second.id);
    expect(await statuses(bySecond)).toEqual(invalid);
    expect(await statuses(byFirst)).toEqual(valid);
  });

  test('keys of an expired application cannot be listed, created or deleted', async () => {
    const created = await readable({ expires_at: new Date(server.clock.now() + 1000).toISOString() });
    const [one] = await list(created.id);
    server.clock.advance(1000);
    expect((await server.call('GET', `/applications/${created.id}/keys`, { key })).status).toBe(404);
    expect((await add(created.id)).status).toBe(404);
    expect((await remove(created.id, one.id)).status).toBe(404);
  });

  test('the audit log identifies created and deleted keys by their last characters', async () => {
    const created = await readable();
    const { body } = await add(created.id);
    await remove(created.id, body.id);
    const { body: logs } = await server.call('GET', `/logs?entity=${created.id}`, { key });
    const it = { id: body.id, ending: body.ending };
    expect(logs.data.slice(0, 2)).toMatchObject([
      { operation: 'application.key.delete', difference: { keys: { from: it } } },
      { operation: 'application.key.create', difference: { keys: { to: it } } },
    ]);
    expect(JSON.stringify(logs)).not.toContain(body.key);
  });

  test('a retry with an Idempotency-Key creates one key and returns it again', async () => {
    const created = await readable();
    const once = () =>
      server.call('POST', `/applications/${created.id}/keys`, {
        key,
        headers: { 'Idempotency-Key': created.id },
      });
    const [first, again] = [await once(), await once()];
    expect(again.body).toEqual(first.body);
    expect(await list(created.id)).toHaveLength(2);
  });
});
