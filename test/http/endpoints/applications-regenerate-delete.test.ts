import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { databases, openTestServer, type TestServer } from '../../support/test-server.ts';

describe.each(databases)('regenerating and deleting on %s', (_, database) => {
  let world: TestServer;
  let key: string;
  beforeAll(async () => {
    world = await openTestServer(database);
    key = (await world.tenant()).key;
  });
  afterAll(() => world.close());

  const readable = (fields: object = {}) =>
    world.application(key, { permissions: ['application:read'], ...fields });
  const me = async (as: string) => (await world.call('GET', '/applications/key', { key: as })).status;
  const regenerate = (id: string, as = key) =>
    world.call('POST', `/applications/${id}/regenerate`, { key: as });
  const remove = (id: string, as = key) => world.call('DELETE', `/applications/${id}`, { key: as });

  test('regenerating a key revokes the old one immediately', async () => {
    const made = await readable();
    const { status, body } = await regenerate(made.id);
    expect(status).toBe(200);
    expect(body.key).toMatch(/^slp_pvt_/);
    expect(body.key).not.toBe(made.key);
    expect(await me(made.key)).toBe(401);
    expect(await me(body.key)).toBe(200);
  });

  test('regenerating returns the application with modified_by and modified_at', async () => {
    const made = await readable({ expires_at: '2030-01-01T00:00:00Z' });
    world.clock.advance(1000);
    const { body } = await regenerate(made.id);
    expect(body).toEqual({
      ...made,
      key: expect.any(String),
      modified_by: made.created_by,
      modified_at: new Date(world.clock.now()).toISOString(),
    });
    const { key: _new, ...rest } = body;
    expect((await world.call('GET', `/applications/${made.id}`, { key })).body).toEqual(rest);
  });

  test.each(['public', 'management'])('the new key of a %s application has the same kind', async (type) => {
    const made = await readable({ type });
    const { body } = await regenerate(made.id);
    expect(body.key.slice(0, 8)).toBe(made.key.slice(0, 8));
  });

  test('an application can regenerate its own key', async () => {
    const made = await readable({ permissions: ['application:read', 'application:update'] });
    const { body } = await regenerate(made.id, made.key);
    expect(await me(made.key)).toBe(401);
    expect(await me(body.key)).toBe(200);
  });

  test('exactly one key is valid after concurrent regenerations', async () => {
    const made = await readable();
    const answers = await Promise.all(Array.from({ length: 10 }, () => regenerate(made.id)));
    expect(answers.map(({ status }) => status)).toEqual(Array(10).fill(200));
    const statuses = await Promise.all(answers.map(({ body }) => me(body.key)));
    expect(statuses.filter((status) => status === 200)).toHaveLength(1);
    expect(statuses.filter((status) => status === 401)).toHaveLength(9);
  });

  test.each([
    ['nothing', undefined, {}],
    ['an empty body with another content type', undefined, { 'Content-Type': 'text/plain' }],
    ['an empty body of some other type', '', { 'Content-Type': 'application/xml' }],
    ['an object without fields', '{}', {}],
  ])('regenerating accepts %s as a body', async (_what, body, headers) => {
    const made = await readable();
    const path = `/applications/${made.id}/regenerate`;
    expect((await world.call('POST', path, { key, body, headers })).status).toBe(200);
  });

  test('regenerating rejects a body with fields', async () => {
    const made = await readable();
    const path = `/applications/${made.id}/regenerate`;
    const { status, body } = await world.call('POST', path, { key, body: { key: 'mine' } });
    expect([status, Object.keys(body.errors)]).toEqual([400, ['key']]);
    expect(await me(made.key)).toBe(200);
  });

  test('deleting an application revokes its key immediately', async () => {
    const made = await readable();
    const { status, body } = await remove(made.id);
    expect([status, body]).toEqual([204, '']);
    expect(await me(made.key)).toBe(401);
    expect((await world.call('GET', `/applications/${made.id}`, { key })).status).toBe(404);
    expect((await world.call('GET', `/applications?id=${made.id}`, { key })).body.data).toEqual([]);
    expect((await remove(made.id)).status).toBe(404);
    expect((await regenerate(made.id)).status).toBe(404);
  });

  test('exactly one of several concurrent deletions succeeds', async () => {
    const made = await readable();
    const answers = await Promise.all(Array.from({ length: 10 }, () => remove(made.id)));
    expect(answers.map(({ status }) => status).sort()).toEqual([204, ...Array(9).fill(404)]);
  });

  test('an application can delete itself', async () => {
    const made = await readable({ permissions: ['application:delete'] });
    expect((await remove(made.id, made.key)).status).toBe(204);
    expect(await me(made.key)).toBe(401);
  });

  test('applications created by a deleted application remain', async () => {
    const parent = await readable({ permissions: ['application:create', 'application:read'] });
    const child = await world.application(parent.key, { permissions: ['application:read'] });
    await remove(parent.id);
    expect(await me(child.key)).toBe(200);
  });

  test('an expired application can be neither changed nor deleted', async () => {
    const tenant = await world.tenant();
    const expires_at = new Date(world.clock.now() + 1000).toISOString();
    const made = await world.application(tenant.key, { expires_at });
    world.clock.advance(1000);
    expect((await regenerate(made.id, tenant.key)).status).toBe(404);
    expect((await remove(made.id, tenant.key)).status).toBe(404);
    const body = { name: 'x', permissions: ['token:read'] };
    const update = await world.call('PUT', `/applications/${made.id}`, { key: tenant.key, body });
    expect(update.status).toBe(404);
  });

  test.each([
    ['POST', '/regenerate', 'application:update'],
    ['DELETE', '', 'application:delete'],
  ])('%s %s requires %s', async (method, path, permission) => {
    const others = ['application:create', 'application:read', 'application:update', 'application:delete'];
    const made = await readable();
    const deputy = await readable({ permissions: others.filter((name) => name !== permission) });
    const { status, body } = await world.call(method, `/applications/${made.id}${path}`, { key: deputy.key });
    expect([status, body.code]).toEqual([403, 'permission_missing']);
    expect(body.detail).toContain(permission);
    expect(await me(made.key)).toBe(200);
  });
});
