import { describe, expect, test } from 'bun:test';
import { databases, manyConnections, openTestServer } from '../../support/test-server.ts';

describe.each(databases)('regenerating and deleting on %s', async (_, database) => {
  const server = await openTestServer(database, manyConnections);
  const key = (await server.tenant()).key;

  const readable = (fields: object = {}) =>
    server.application(key, { permissions: ['application:read'], ...fields });
  const me = async (as: string) => (await server.call('GET', '/applications/key', { key: as })).status;
  const regenerate = (id: string, as = key) =>
    server.call('POST', `/applications/${id}/regenerate`, { key: as });
  const remove = (id: string, as = key) => server.call('DELETE', `/applications/${id}`, { key: as });

  test('regenerating a key revokes the old one immediately', async () => {
    const created = await readable();
    const { status, body } = await regenerate(created.id);
    expect(status).toBe(200);
    expect(body.key).toMatch(/^slp_pvt_/);
    expect(body.key).not.toBe(created.key);
    expect(await me(created.key)).toBe(401);
    expect(await me(body.key)).toBe(200);
  });

  test('regenerating returns the application with modified_by and modified_at', async () => {
    const created = await readable({ expires_at: '2030-01-01T00:00:00Z' });
    server.clock.advance(1000);
    const { body } = await regenerate(created.id);
    expect(body).toEqual({
      ...created,
      key: expect.any(String),
      modified_by: created.created_by,
      modified_at: new Date(server.clock.now()).toISOString(),
    });
    const { key: _new, ...rest } = body;
    expect((await server.call('GET', `/applications/${created.id}`, { key })).body).toEqual(rest);
  });

  test.each(['public', 'management'])('the new key of a %s application has the same kind', async (type) => {
    const created = await readable({ type });
    const { body } = await regenerate(created.id);
    expect(body.key.slice(0, 8)).toBe(created.key.slice(0, 8));
  });

  test('an application can regenerate its own key', async () => {
    const created = await readable({ permissions: ['application:read', 'application:update'] });
    const { body } = await regenerate(created.id, created.key);
    expect(await me(created.key)).toBe(401);
    expect(await me(body.key)).toBe(200);
  });

  test('exactly one key is valid after concurrent regenerations', async () => {
    const created = await readable();
    const answers = await Promise.all(Array.from({ length: 10 }, () => regenerate(created.id)));
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
    const created = await readable();
    const path = `/applications/${created.id}/regenerate`;
    expect((await server.call('POST', path, { key, body, headers })).status).toBe(200);
  });

  test('deleting an application revokes its key immediately', async () => {
    const created = await readable();
    const { status, body } = await remove(created.id);
    expect([status, body]).toEqual([204, '']);
    expect(await me(created.key)).toBe(401);
    expect((await server.call('GET', `/applications/${created.id}`, { key })).status).toBe(404);
    expect((await server.call('GET', `/applications?id=${created.id}`, { key })).body.data).toEqual([]);
    expect((await remove(created.id)).status).toBe(404);
    expect((await regenerate(created.id)).status).toBe(404);
  });

  test('an application can delete itself', async () => {
    const created = await readable({ permissions: ['application:delete'] });
    expect((await remove(created.id, created.key)).status).toBe(204);
    expect(await me(created.key)).toBe(401);
  });

  test('applications created by a deleted application remain', async () => {
    const parent = await readable({ permissions: ['application:create', 'application:read'] });
    const child = await server.application(parent.key, { permissions: ['application:read'] });
    await remove(parent.id);
    expect(await me(child.key)).toBe(200);
  });

  test('an expired application can be neither changed nor deleted', async () => {
    const tenant = await server.tenant();
    const expires_at = new Date(server.clock.now() + 1000).toISOString();
    const created = await server.application(tenant.key, { expires_at });
    server.clock.advance(1000);
    expect((await regenerate(created.id, tenant.key)).status).toBe(404);
    expect((await remove(created.id, tenant.key)).status).toBe(404);
    const body = { name: 'x', permissions: ['token:read'] };
    const update = await server.call('PUT', `/applications/${created.id}`, { key: tenant.key, body });
    expect(update.status).toBe(404);
  });
});
