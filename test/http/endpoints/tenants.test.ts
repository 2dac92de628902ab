import { describe, expect, test } from 'bun:test';
import { parseKey } from '../../../src/domain/key.ts';
import { databases, openTestServer, testMasterKey } from '../../support/test-server.ts';

describe.each(databases)('tenants on %s', async (_, database) => {
  const server = await openTestServer(database, { SALLYPORT_MASTER_KEY: testMasterKey });
  const node = await openTestServer(server.config.databaseUrl);

  const statuses = (key: string) =>
    Promise.all(
      [server, node].map(async (at) => (await at.call('GET', '/applications/key', { key })).status),
    );

  /** A tenant with every kind of key, each with read access. */
  async function populated() {
    const { id, key } = await server.tenant();
    const reading = { permissions: ['application:read'] };
    const backend = await server.application(key, reading);
    const web = await server.application(key, { type: 'public', ...reading });
    const begin = async (as: string) => {
      const { body } = await server.call('POST', '/sessions', { key: web.key });
      await server.call('POST', '/sessions/authorize', { key: as, body: { nonce: body.nonce, ...reading } });
      return body.session_key;
    };
    const sessions = [await begin(key), await begin(backend.key)];
    return { id, key, keys: [key, backend.key, web.key, ...sessions] };
  }

  test('a key gets its own tenant, with the number of applications', async () => {
    const { id, key } = await server.tenant();
    await server.application(key, { expires_at: new Date(server.clock.now() + 1000).toISOString() });
    const self = async () => (await server.call('GET', '/tenants/self', { key })).body;
    const created_at = new Date(server.clock.now()).toISOString();
    expect(await self()).toEqual({ id, tag: parseKey(key)?.tag, name: 'test', created_at, applications: 2 });
    server.clock.advance(1000);
    expect((await self()).applications).toBe(1);
  });

  test('disabling a tenant invalidates its keys on every node immediately, and no others', async () => {
    const [tenant, other] = [await populated(), await populated()];
    for (const key of tenant.keys) expect(await statuses(key)).toEqual([200, 200]);
    await server.app.maintenance.tenants.disable(tenant.id);
    for (const key of tenant.keys) expect(await statuses(key)).toEqual([401, 401]);
    for (const key of other.keys) expect(await statuses(key)).toEqual([200, 200]);
    const question = { credential: tenant.keys[1], permission: 'application:read' };
    const asked = await server.call('POST', '/decisions', { key: other.key, body: question });
    expect(asked.body.allowed).toBe(false);
  });

  test('enabling a tenant restores its keys and data', async () => {
    const tenant = await populated();
    await server.call('POST', '/tokens', { key: tenant.key, body: { id: 'kept', data: 'x', mask: 'seen' } });
    await server.app.maintenance.tenants.disable(tenant.id);
    await node.app.maintenance.tenants.enable(tenant.id);
    for (const key of tenant.keys) expect(await statuses(key)).toEqual([200, 200]);
    const { body } = await node.call('GET', '/tokens/kept', { key: tenant.key });
    expect(body.data).toBe('seen');
  });

  test('a key of a disabled tenant gets the same response as every invalid key', async () => {
    const tenant = await populated();
    await server.app.maintenance.tenants.disable(tenant.id);
    const ask = async (key: string) => {
      const { body } = await server.call('GET', '/tenants/self', {
        key,
        headers: { 'SVC-REQUEST-ID': 'same' },
      });
      return body;
    };
    expect(await ask(tenant.key)).toEqual(await ask('nonsense'));
  });
});
