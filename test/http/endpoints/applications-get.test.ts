import { describe, expect, test } from 'bun:test';
import { databases, openTestServer } from '../../support/test-server.ts';

describe.each(databases)('getting an application on %s', async (_, database) => {
  const server = await openTestServer(database);
  const key = (await server.tenant()).key;

  const get = (path: string, as = key) => server.call('GET', `/applications/${path}`, { key: as });

  async function sessionOf(application: { key: string }, grants?: object): Promise<string> {
    const { body } = await server.call('POST', '/sessions', { key: application.key });
    const authorize = { key, body: { nonce: body.nonce, ...grants } };
    if (grants) expect((await server.call('POST', '/sessions/authorize', authorize)).status).toBe(204);
    return body.session_key;
  }

  test('returns the same as create, without the key', async () => {
    const rules = [
      { description: 'd', priority: 3, container: 'Pci', transform: 'reveal', permissions: ['token:read'] },
    ];
    const { key: _key, ...created } = await server.application(key, {
      rules,
      expires_at: '2030-01-01T00:00:00Z',
    });
    const { status, body } = await get(created.id);
    expect(status).toBe(200);
    expect(body).toEqual(created);
  });

  test('accepts an id in upper case', async () => {
    const created = await server.application(key);
    expect((await get(created.id.toUpperCase())).body.id).toBe(created.id);
  });

  test('a new tenant has a management application with every permission', async () => {
    const { body } = await get('key');
    expect(body).toMatchObject({ type: 'management', rules: [] });
    expect(body.permissions).toContain('application:create');
    expect(body).not.toHaveProperty('created_by');
    expect(body).not.toHaveProperty('key');
  });

  test.each(['private', 'public', 'management'])('by key, a %s application gets itself', async (type) => {
    const { key: own, ...created } = await server.application(key, {
      type,
      permissions: ['application:read'],
    });
    const { status, body } = await get('key', own);
    expect(status).toBe(200);
    expect(body).toEqual(created);
  });

  test('by key, a session with application:read gets its application', async () => {
    const { key: web, ...created } = await server.application(key, { type: 'public' });
    const session = await sessionOf({ key: web }, { permissions: ['application:read'] });
    const { status, body } = await get('key', session);
    expect(status).toBe(200);
    expect(body).toEqual(created);
  });

  test('by key, application:read may come from a rule of the session', async () => {
    const web = await server.application(key, { type: 'public' });
    const conditions = [{ attribute: 'id', operator: 'equals', value: 'x' }];
    const rules = [{ priority: 1, transform: 'redact', permissions: ['application:read'], conditions }];
    const session = await sessionOf(web, { rules });
    expect((await get('key', session)).body.id).toBe(web.id);
  });
});
