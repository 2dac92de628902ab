import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { databases, openTestServer, type TestServer } from '../../support/test-server.ts';

describe.each(databases)('listing and ending sessions on %s', (_, database) => {
  let server: TestServer;
  beforeAll(async () => {
    server = await openTestServer(database);
  });
  afterAll(() => server.close());

  const iso = (moment: number) => new Date(moment).toISOString();
  const start = async (key: string) => (await server.call('POST', '/sessions', { key })).body;
  const authorize = (key: string, nonce: string, grants: object) =>
    server.call('POST', '/sessions/authorize', { key, body: { nonce, ...grants } });
  const list = async (key: string, query = '') =>
    (await server.call('GET', `/sessions${query}`, { key })).body;
  const ids = async (key: string, query = '') =>
    (await list(key, query)).data.map(({ id }: { id: string }) => id);
  const end = (key: string, id: string) => server.call('DELETE', `/sessions/${id}`, { key });
  const me = async (key: string) => (await server.call('GET', '/applications/key', { key })).status;

  async function scene() {
    const { id: tenant, key } = await server.tenant();
    const web = await server.application(key, { type: 'public', permissions: ['mine:x'] });
    return { tenant, key, web };
  }

  test('a list has grants, authorizer and expiry, but neither key nor nonce', async () => {
    const { tenant, key, web } = await scene();
    const backend = await server.application(key, { permissions: ['token:read'] });
    const created_at = iso(server.clock.now());
    const { nonce } = await start(web.key);
    server.clock.advance(1000);
    await authorize(backend.key, nonce, { permissions: ['token:read'] });
    await start(web.key);
    const { data, pagination } = await list(key);
    const shared = {
      tenant_id: tenant,
      application_id: web.id,
      id: expect.any(String),
      rules: [],
      bound: false,
    };
    expect(pagination.total_items).toBe(2);
    expect(data).toEqual([
      {
        ...shared,
        state: 'pending',
        permissions: [],
        ceiling: false,
        created_at: iso(server.clock.now()),
        expires_at: iso(server.clock.now() + 180_000),
      },
      {
        ...shared,
        state: 'active',
        permissions: ['token:read'],
        ceiling: true,
        created_at,
        authorized_at: iso(server.clock.now()),
        authorized_by: backend.id,
        expires_at: iso(server.clock.now() + 179_000),
      },
    ]);
  });

  test('a list can be filtered by application, authorizer, state and id', async () => {
    const { key, web } = await scene();
    const other = await server.application(key, { type: 'public', permissions: ['mine:x'] });
    const backend = await server.application(key, { permissions: ['session:authorize'] });
    await authorize(backend.key, (await start(web.key)).nonce, { permissions: ['mine:x'] });
    await authorize(key, (await start(other.key)).nonce, { permissions: ['mine:x'] });
    await start(web.key);
    const [third, second, first] = await ids(key);
    expect(await ids(key, `?application_id=${web.id}`)).toEqual([third, first]);
    expect(await ids(key, `?authorized_by=${backend.id}`)).toEqual([first]);
    expect(await ids(key, '?state=pending')).toEqual([third]);
    expect(await ids(key, '?state=active')).toEqual([second, first]);
    expect(await ids(key, `?id=${first},${third}&state=pending`)).toEqual([third]);
    const page = await list(key, '?size=2');
    expect(page.data).toHaveLength(2);
    expect(await ids(key, `?size=2&start=${page.pagination.next}`)).toEqual([first]);
    expect((await server.call('GET', '/sessions?state=idle', { key })).status).toBe(400);
  });

  test('a list can be filtered by a container in which a grant applies', async () => {
    const { key, web } = await scene();
    const rule = (attribute: string, operator: string, value: string) => ({
      rules: [
        {
          priority: 1,
          transform: 'mask',
          permissions: ['token:read'],
          conditions: [{ attribute, operator, value }],
        },
      ],
    });
    const grants = [
      rule('container', 'equals', 'Customers/42'),
      rule('container', 'starts_with', '/customers/'),
      rule('container', 'starts_with', '/customers-old/'),
      rule('id', 'equals', 'card-1'),
      { permissions: ['token:read'] },
    ];
    for (const each of grants) await authorize(key, (await start(web.key)).nonce, each);
    await start(web.key);
    const [pending, plain, byId, other, wide, exact] = await ids(key);
    const found = (container: string) => ids(key, `?container=${container}`);
    expect(await found('/customers/42/')).toEqual([plain, byId, wide, exact]);
    expect(await found('/customers/42/deeper/')).toEqual([plain, byId, wide]);
    expect(await found('/customers-old/')).toEqual([plain, byId, other]);
    expect(await found('/')).not.toContain(pending);
    const first = await list(key, '?container=/customers/42/&size=3');
    expect(first.pagination).toEqual({ page_number: 1, page_size: 3, next: expect.any(String) });
    expect(first.data).toHaveLength(3);
    expect(await ids(key, `?container=/customers/42/&start=${first.pagination.next}`)).toEqual([exact]);
    for (const query of ['container=no//path', 'container=/a/&page=2'])
      expect((await server.call('GET', `/sessions?${query}`, { key })).status).toBe(400);
    const { key: stranger } = await server.tenant();
    expect(await ids(stranger, '?container=/customers/')).toEqual([]);
  });

  test('a list excludes expired sessions and those without application or authorizer', async () => {
    const { key, web } = await scene();
    const gone = await server.application(key, { type: 'public', permissions: ['mine:x'] });
    await start(gone.key);
    const backend = await server.application(key, { permissions: ['mine:x'] });
    await authorize(backend.key, (await start(web.key)).nonce, { permissions: ['mine:x'] });
    expect(await ids(key)).toHaveLength(2);
    await server.call('DELETE', `/applications/${gone.id}`, { key });
    expect(await ids(key)).toHaveLength(1);
    await server.call('DELETE', `/applications/${backend.id}`, { key });
    expect(await ids(key)).toEqual([]);
    await start(web.key);
    expect(await ids(key)).toHaveLength(1);
    server.clock.advance(180_000);
    expect(await ids(key)).toEqual([]);
  });

  test('ending a session revokes its key immediately, with an audit entry', async () => {
    const { key, web } = await scene();
    const { session_key, nonce } = await start(web.key);
    await authorize(key, nonce, { permissions: ['application:read'] });
    expect(await me(session_key)).toBe(200);
    const [id] = await ids(key);
    expect((await end(key, id)).status).toBe(204);
    expect(await me(session_key)).toBe(401);
    expect((await end(key, id)).status).toBe(404);
    const { body } = await server.call('GET', `/logs?entity=${id}&operation=session.delete`, { key });
    const outcomes = body.data.map(({ result }: { result: string }) => result);
    expect(outcomes).toContain('success');
  });

  test('a pending session can be ended, which invalidates its nonce', async () => {
    const { key, web } = await scene();
    const { nonce } = await start(web.key);
    const [id] = await ids(key);
    expect((await end(key, id)).status).toBe(204);
    const answer = await authorize(key, nonce, { permissions: ['mine:x'] });
    expect([answer.status, answer.body.code]).toEqual([404, 'nonce_not_found']);
  });

  test('ending a session whose authorizer was deleted returns 404', async () => {
    const { key, web } = await scene();
    const backend = await server.application(key, { permissions: ['mine:x'] });
    await authorize(backend.key, (await start(web.key)).nonce, { permissions: ['mine:x'] });
    const [id] = await ids(key);
    await server.call('DELETE', `/applications/${backend.id}`, { key });
    expect((await end(key, id)).status).toBe(404);
  });
});
