import { describe, expect, test } from 'bun:test';
import { databases, openTestServer } from '../../support/test-server.ts';

const conditions = [{ attribute: 'id', operator: 'starts_with', value: 'order-' }];
const both = ['application:read', 'token:read'];

describe.each(databases)('authorizing a session on %s', async (_, database) => {
  const server = await openTestServer(database);

  /** A tenant, a backend with these grants, and a function by which the backend authorizes a new session. */
  async function scene(backendFields: Record<string, unknown>) {
    const { key } = await server.tenant();
    const backend = await server.application(key, backendFields);
    const web = await server.application(key, { type: 'public' });
    const begin = async () => (await server.call('POST', '/sessions', { key: web.key })).body;
    const grant = (nonce: string, grants: object) =>
      server.call('POST', '/sessions/authorize', { key: backend.key, body: { nonce, ...grants } });
    const authorized = async (grants: object): Promise<string> => {
      const { session_key, nonce } = await begin();
      expect((await grant(nonce, grants)).status).toBe(204);
      return session_key;
    };
    const change = (grants: object) =>
      server.call('PUT', `/applications/${backend.id}`, { key, body: { name: 'backend', ...grants } });
    return { key, backend, web, begin, grant, authorized, change };
  }

  const me = async (key: string) => (await server.call('GET', '/applications/key', { key })).status;

  test.each(['session:authorize', 'application:create'])(
    'a holder of %s can grant any permission that a session can hold',
    async (permission) => {
      const { authorized } = await scene({ permissions: [permission] });
      const permissions = [...both, 'session:read', 'decision:create', 'token:delete', 'mine:x'];
      expect(await me(await authorized({ permissions }))).toBe(200);
      const rule = { priority: 1, conditions, transform: 'reveal', permissions: ['application:read'] };
      expect(await me(await authorized({ rules: [rule] }))).toBe(200);
    },
  );

  test('session:authorize may come from a rule', async () => {
    const rules = [{ priority: 1, container: '/', transform: 'mask', permissions: ['session:authorize'] }];
    const { authorized } = await scene({ permissions: undefined, rules });
    expect(await me(await authorized({ permissions: ['application:read'] }))).toBe(200);
  });

  test('any other caller can grant only permissions that it holds', async () => {
    const rules = [{ priority: 1, container: '/pci/', transform: 'mask', permissions: ['token:read'] }];
    const { begin, grant } = await scene({ permissions: ['application:read', 'mine:x'], rules });
    const { nonce } = await begin();
    const rule = { priority: 1, conditions, transform: 'mask' };
    for (const grants of [
      { permissions: ['token:create'] },
      { permissions: ['application:read', 'mine:y'] },
      { permissions: ['session:read'] },
      { rules: [{ ...rule, permissions: ['token:read', 'token:delete'] }] },
    ]) {
      const { status, body } = await grant(nonce, grants);
      expect([status, body.code]).toEqual([403, 'grant_not_held']);
      expect(body.detail).toMatch(/token:create|mine:y|session:read|token:delete/);
    }
    const held = {
      permissions: ['application:read', 'mine:x'],
      rules: [{ ...rule, permissions: ['token:read'] }],
    };
    expect((await grant(nonce, held)).status).toBe(204);
  });

  test('a limited session loses what its authorizer loses, with the next request', async () => {
    const { authorized, change } = await scene({ permissions: both });
    const session = await authorized({ permissions: both });
    expect(await me(session)).toBe(200);
    await change({ permissions: ['token:read'] });
    const { status, body } = await server.call('GET', '/applications/key', { key: session });
    expect([status, body.code]).toEqual([403, 'permission_missing']);
    expect((await server.call('GET', '/tokens', { key: session })).status).toBe(200);
    await change({ permissions: both });
    expect(await me(session)).toBe(200);
  });

  test('a limited session gains nothing if its authorizer gains permissions', async () => {
    const { authorized, change } = await scene({ permissions: both });
    const session = await authorized({ permissions: ['token:read'] });
    await change({ permissions: [...both, 'session:authorize', 'application:create'] });
    expect(await me(session)).toBe(403);
  });

  test('a limited session stays limited if its authorizer gains session:authorize', async () => {
    const { authorized, change } = await scene({ permissions: both });
    const session = await authorized({ permissions: ['application:read'] });
    await change({ permissions: ['session:authorize'] });
    expect(await me(session)).toBe(403);
  });

  test.each(['regenerate', 'delete', 'expire'])(
    'a limited session is revoked with its authorizer’s key: %s',
    async (what) => {
      const expires_at = new Date(server.clock.now() + 60_000).toISOString();
      const { key, backend, authorized } = await scene({ permissions: both, expires_at });
      const session = await authorized({ permissions: both });
      expect(await me(session)).toBe(200);
      if (what === 'regenerate') await server.call('POST', `/applications/${backend.id}/regenerate`, { key });
      if (what === 'delete') await server.call('DELETE', `/applications/${backend.id}`, { key });
      if (what === 'expire') {
        server.clock.advance(59_999);
        expect(await me(session)).toBe(200);
        server.clock.advance(1);
      }
      expect(await me(session)).toBe(401);
    },
  );

  test('an unlimited session does not depend on its authorizer', async () => {
    const { key, backend, authorized, change } = await scene({
      permissions: ['application:read', 'session:authorize'],
    });
    const session = await authorized({ permissions: ['application:read'] });
    await change({ permissions: ['mine:x'] });
    expect(await me(session)).toBe(200);
    await server.call('POST', `/applications/${backend.id}/regenerate`, { key });
    expect(await me(session)).toBe(200);
    await server.call('DELETE', `/applications/${backend.id}`, { key });
    expect(await me(session)).toBe(200);
  });

  test('every key can list the permissions that it holds now, and no denial is recorded', async () => {
    const rules = [{ priority: 1, container: '/pci/', transform: 'mask', permissions: ['token:read'] }];
    const { key, backend, web, begin, authorized, change } = await scene({ permissions: ['mine:x'], rules });
    const own = async (as: string) =>
      (await server.call('GET', '/permissions/own', { key: as })).body.permissions;
    const session = await authorized({ permissions: ['mine:x', 'token:read'] });
    expect(await own(backend.key)).toEqual(['mine:x', 'token:read']);
    expect(await own(web.key)).toEqual(['token:read']);
    expect(await own((await begin()).session_key)).toEqual([]);
    expect(await own(session)).toEqual(['mine:x', 'token:read']);
    await change({ permissions: ['mine:x', 'token:create'] });
    expect(await own(session)).toEqual(['mine:x']);
    expect(await own(key)).toContain('application:create');
    await server.flush();
    const { body } = await server.call('GET', '/logs?result=denied', { key });
    expect(body.data).toEqual([]);
  });

  test('the stricter transform of session and authorizer applies per container', async () => {
    const rules = [
      { priority: 1, container: '/pci/', transform: 'mask', permissions: ['token:read'] },
      { priority: 2, container: '/open/', transform: 'reveal', permissions: ['token:read'] },
    ];
    const { key, authorized } = await scene({ permissions: undefined, rules });
    const everything = [{ attribute: 'id', operator: 'starts_with', value: 'order-' }];
    const session = await authorized({
      rules: [{ priority: 1, conditions: everything, transform: 'reveal', permissions: ['token:read'] }],
    });
    const make = (id: string, container: string) =>
      server.call('POST', '/tokens', { key, body: { id, container, data: 'secret', mask: 'masked' } });
    for (const container of ['pci', 'open', 'other']) await make(`order-${container}`, `/${container}/`);
    const read = async (id: string) => {
      const { status, body } = await server.call('GET', `/tokens/order-${id}`, { key: session });
      return status === 200 ? body.data : status;
    };
    expect([await read('pci'), await read('open'), await read('other')]).toEqual(['masked', 'secret', 403]);
  });
});
