import { describe, expect, test } from 'bun:test';
import { databases, openTestServer } from '../../support/test-server.ts';

describe.each(databases)('listing and ending sessions on %s', async (_, database) => {
  const server = await openTestServer(database);

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
        kind: 'session',
        state: 'pending',
        permissions: [],
        ceiling: false,
        created_at: iso(server.clock.now()),
        expires_at: iso(server.clock.now() + 180_000),
      },
      {
        ...shared,
        kind: 'session',
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

  test('a session can be read by its id, until it ends', async () => {
    const { key, web } = await scene();
    await start(web.key);
    const [session] = (await list(key)).data;
    const get = (as: string, id = session.id) => server.call('GET', `/sessions/${id}`, { key: as });
    expect((await get(key)).body).toEqual(session);
    expect((await get((await server.tenant()).key)).status).toBe(404);
    expect((await get(key, crypto.randomUUID())).status).toBe(404);
    expect((await get(web.key)).status).toBe(403);
    await end(key, session.id);
    expect((await get(key)).status).toBe(404);
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

  test('a session has its subject, and a list can be filtered by it', async () => {
    const { key, web } = await scene();
    for (const subject of ['user:42', 'user:4', 'user:42', null])
      await authorize(key, (await start(web.key)).nonce, { permissions: ['mine:x'], subject });
    const { data } = await list(key);
    expect(data.map((session: { subject?: string }) => session.subject)).toEqual([
      undefined,
      'user:42',
      'user:4',
      'user:42',
    ]);
    const [, third, , first] = await ids(key);
    expect(await ids(key, '?subject=user:42')).toEqual([third, first]);
    expect((await list(key, '?subject=user:42&state=active')).pagination.total_items).toBe(2);
    const page = await list(key, '?subject=user:42&size=1');
    expect(await ids(key, `?subject=user:42&size=1&start=${page.pagination.next}`)).toEqual([first]);
    const { key: stranger } = await server.tenant();
    expect(await ids(stranger, '?subject=user:42')).toEqual([]);
    for (const subject of ['', ' ', 'a'.repeat(201), 'a\nb', 'a\u202eb', 42]) {
      const { nonce } = await start(web.key);
      const { status, body } = await authorize(key, nonce, { permissions: ['mine:x'], subject });
      expect([status, Object.keys(body.errors)]).toEqual([400, ['subject']]);
    }
  });

  test('decisions and access reviews name the subject of a session', async () => {
    const { key, web } = await scene();
    const { session_key: credential, nonce } = await start(web.key);
    await authorize(key, nonce, { permissions: ['token:read'], subject: 'user:42' });
    const decision = { key, body: { credential, permission: 'token:read' } };
    expect((await server.call('POST', '/decisions', decision)).body.principal.subject).toBe('user:42');
    const { data } = (await server.call('GET', '/access/who?container=/', { key })).body;
    const named = data.map(({ subject }: { subject: object }) => subject);
    const [id] = await ids(key);
    expect(named).toContainEqual({ type: 'session', id, name: 'an application', subject: 'user:42' });
  });

  test('all sessions of a subject end with one request, and those authorized afterwards are valid', async () => {
    const { tenant, key, web } = await scene();
    const signIn = async (subject?: string, at = key) => {
      const { session_key, nonce } = await start(web.key);
      await authorize(at, nonce, { permissions: ['application:read'], subject });
      return session_key;
    };
    const endAll = (by: string, query = '?subject=user:42') =>
      server.call('DELETE', `/sessions${query}`, { key: by });
    const pending = await start(web.key);
    const ended = [await signIn('user:42'), await signIn('user:42')];
    const others = [await signIn('user:4'), await signIn()];
    const { key: stranger } = await server.tenant();
    expect((await endAll(stranger)).status).toBe(204);
    expect(await Promise.all(ended.map(me))).toEqual([200, 200]);
    expect((await endAll(key)).status).toBe(204);
    expect(await Promise.all(ended.map(me))).toEqual([401, 401]);
    expect(await ids(key, '?subject=user:42')).toEqual([]);
    // The clock has not moved: the order of the requests decides.
    const again = await signIn('user:42');
    await authorize(key, pending.nonce, { permissions: ['application:read'], subject: 'user:42' });
    expect(await Promise.all([again, pending.session_key, ...others].map(me))).toEqual([200, 200, 200, 200]);
    expect((await endAll(key)).status).toBe(204);
    expect(await Promise.all([again, pending.session_key].map(me))).toEqual([401, 401]);
    const { body } = await server.call('GET', '/logs?entity=user:42', { key });
    expect(body.data).toHaveLength(2);
    expect(body.data[0]).toMatchObject({
      tenant_id: tenant,
      operation: 'session.delete',
      entity: { kind: 'subject', id: 'user:42' },
    });
    const reader = await server.application(key, { permissions: ['session:read'] });
    expect((await endAll(reader.key)).status).toBe(403);
    for (const query of ['', '?subject=', '?subject=a&subject=b'])
      expect((await endAll(key, query)).status).toBe(400);
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
