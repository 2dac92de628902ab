import { describe, expect, test } from 'bun:test';
import { type ApiResponse, databases, openTestServer } from '../../support/test-server.ts';

type Body = ApiResponse['body'];
const other = '0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5d';

const different: [field: string, value: unknown][] = [
  ['id', other],
  ['id', 7],
  ['tenant_id', other],
  ['type', 'management'],
  ['created_by', other],
  ['created_at', '2020-01-01T00:00:00.000Z'],
  ['created_at', 'yesterday'],
  ['modified_by', other],
  ['modified_at', '2020-01-01T00:00:00.000Z'],
];

describe.each(databases)('updating an application on %s', async (_, database) => {
  const server = await openTestServer(database);

  const put = (id: string, key: string, body: unknown) =>
    server.call('PUT', `/applications/${id}`, { key, body });
  const get = (id: string, key: string) => server.call('GET', `/applications/${id}`, { key });

  /** An application with every field. */
  async function fetched(): Promise<{ key: string; current: Body }> {
    const { key } = await server.tenant();
    const created = await server.application(key, {
      type: 'public',
      expires_at: '2030-01-31T12:00:00+01:00',
    });
    server.clock.advance(1000);
    await put(created.id, key, { name: 'changed', permissions: ['token:read'] });
    return { key, current: (await get(created.id, key)).body };
  }

  test('replaces name, permissions and rules, and sets modified_by and modified_at', async () => {
    const { key, id: tenant } = await server.tenant();
    const me = (await server.call('GET', '/applications/key', { key })).body.id;
    const created = await server.application(key, {
      permissions: ['token:read', 'token:create'],
      expires_at: '2030-01-01T00:00:00Z',
    });
    expect(created).not.toHaveProperty('modified_by');
    expect(created).not.toHaveProperty('modified_at');
    server.clock.advance(1500);
    const rule = { priority: 1, container: 'pci', transform: 'redact', permissions: ['token:read'] };
    const { status, body } = await put(created.id, key, { name: 'renamed', rules: [rule] });
    expect(status).toBe(200);
    expect(body).toEqual({
      id: created.id,
      tenant_id: tenant,
      name: 'renamed',
      type: 'private',
      permissions: [],
      rules: [rule],
      created_by: me,
      created_at: created.created_at,
      modified_by: me,
      modified_at: new Date(server.clock.now()).toISOString(),
      expires_at: '2030-01-01T00:00:00.000Z',
    });
    expect((await get(created.id, key)).body).toEqual(body);
  });

  test('modified_by is the application that made the last change', async () => {
    const { key } = await server.tenant();
    const created = await server.application(key);
    const deputy = await server.application(key, { permissions: ['application:update'] });
    await put(created.id, key, { name: 'first', permissions: ['token:read'] });
    const { body } = await put(created.id, deputy.key, { name: 'second', permissions: ['token:read'] });
    expect(body.modified_by).toBe(deputy.id);
  });

  test('a fetched application can be sent back unchanged', async () => {
    const { key, current } = await fetched();
    expect(Object.keys(current)).toEqual(
      expect.arrayContaining(['modified_by', 'modified_at', 'expires_at']),
    );
    const { status, body } = await put(current.id, key, current);
    expect(status).toBe(200);
    expect({ ...body, modified_at: current.modified_at }).toEqual(current);
    expect(Date.parse(body.modified_at)).toBeGreaterThan(Date.parse(current.modified_at));
  });

  test('read-only fields are compared by value, and null means absent', async () => {
    const { key, current } = await fetched();
    const spelt = {
      ...current,
      id: current.id.toUpperCase(),
      expires_at: '2030-01-31T12:00:00+01:00',
      created_by: null,
      modified_at: null,
    };
    expect((await put(current.id, key, spelt)).status).toBe(200);
  });

  test.each(different)('a different %s (%j) is rejected without a change', async (field, value) => {
    const { key, current } = await fetched();
    const { status, body } = await put(current.id, key, { ...current, name: 'new', [field]: value });
    expect(status).toBe(400);
    expect(Object.keys(body.errors)).toEqual([field]);
    expect((await get(current.id, key)).body).toEqual(current);
  });

  test('expires_at can be added, changed, and removed with never; absent and null leave it unchanged', async () => {
    const { key } = await server.tenant();
    const { id } = await server.application(key);
    const expiryAfter = async (fields: object) => {
      const { status, body } = await put(id, key, { name: 'x', permissions: ['token:read'], ...fields });
      expect(status).toBe(200);
      expect((await get(id, key)).body).toEqual(body);
      return body.expires_at;
    };
    const [first, second] = ['2030-01-01T00:00:00.000Z', '2029-01-01T00:00:00.000Z'];
    expect(await expiryAfter({ expires_at: first })).toBe(first);
    expect(await expiryAfter({})).toBe(first);
    expect(await expiryAfter({ expires_at: null })).toBe(first);
    expect(await expiryAfter({ expires_at: '2029-01-01T01:00:00+01:00' })).toBe(second);
    expect(await expiryAfter({ expires_at: 'never' })).toBeUndefined();
    const { body: log } = await server.call('GET', '/logs?operation=application.update&size=5', { key });
    const changes = log.data.map(({ difference }: Body) => difference.expires_at);
    expect(changes).toEqual([
      { from: second },
      { from: first, to: second },
      undefined,
      undefined,
      { to: first },
    ]);
  });

  test('a shorter expires_at ends the key and the sessions of the application at that time', async () => {
    const { key } = await server.tenant();
    const page = await server.application(key, { type: 'public', expires_at: '2030-01-01T00:00:00Z' });
    const { body: session } = await server.call('POST', '/sessions', { key: page.key });
    const body = { nonce: session.nonce, permissions: ['token:read'] };
    await server.call('POST', '/sessions/authorize', { key, body });
    const works = async (one: string) => (await server.call('GET', '/tokens', { key: one })).status === 200;
    expect([await works(page.key), await works(session.session_key)]).toEqual([true, true]);
    const expires_at = new Date(server.clock.now() + 5000).toISOString();
    await put(page.id, key, { name: 'page', permissions: ['token:read'], expires_at });
    server.clock.advance(4999);
    expect([await works(page.key), await works(session.session_key)]).toEqual([true, true]);
    server.clock.advance(1);
    expect([await works(page.key), await works(session.session_key)]).toEqual([false, false]);
    expect((await put(page.id, key, { name: 'page', expires_at: 'never' })).status).toBe(404);
  });

  test.each([['2020-01-01T00:00:00Z'], ['soon'], [1893456000000]])(
    'the expires_at %p is rejected without a change',
    async (expires_at) => {
      const { key, current } = await fetched();
      const { status, body } = await put(current.id, key, { ...current, expires_at });
      expect([status, Object.keys(body.errors)]).toEqual([400, ['expires_at']]);
      expect((await get(current.id, key)).body).toEqual(current);
    },
  );

  test.each([
    ['neither permissions nor rules', { name: 'x' }, 'permissions'],
    ['empty permissions and rules', { name: 'x', permissions: [], rules: [] }, 'permissions'],
    ['what its type may not hold', { name: 'x', permissions: ['session:authorize'] }, 'permissions.0'],
    ['its key', { name: 'x', permissions: ['token:read'], key: 'slp_pub_x' }, 'key'],
  ])('%s is rejected without a change', async (_what, body, part) => {
    const { key, current } = await fetched();
    const answer = await put(current.id, key, body);
    expect(answer.status).toBe(400);
    expect(Object.keys(answer.body.errors)).toEqual([part]);
    expect((await get(current.id, key)).body).toEqual(current);
  });

  test('a rule without a container is accepted only for management applications', async () => {
    const { key } = await server.tenant();
    const rules = [{ priority: 1, transform: 'mask', permissions: ['token:read'] }];
    for (const [type, status] of Object.entries({ private: 400, public: 400, management: 200 })) {
      const created = await server.application(key, { type });
      expect((await put(created.id, key, { name: 'x', rules })).status).toBe(status);
    }
  });

  test('applies to the next request with the same key', async () => {
    const { key } = await server.tenant();
    const created = await server.application(key, { permissions: ['application:read'] });
    const me = () => server.call('GET', '/applications/key', { key: created.key });
    expect((await me()).status).toBe(200);
    await put(created.id, key, { name: 'x', permissions: ['token:read'] });
    expect((await me()).status).toBe(403);
    const rules = [{ priority: 1, container: '/', transform: 'mask', permissions: ['application:read'] }];
    await put(created.id, key, { name: 'x', rules });
    expect((await me()).body.name).toBe('x');
  });

  test('an application can reduce its own grants', async () => {
    const { key } = await server.tenant();
    const created = await server.application(key, {
      permissions: ['application:read', 'application:update'],
    });
    const narrow = { name: 'x', permissions: ['application:read'] };
    expect((await put(created.id, created.key, narrow)).status).toBe(200);
    expect((await put(created.id, created.key, narrow)).status).toBe(403);
  });
});
