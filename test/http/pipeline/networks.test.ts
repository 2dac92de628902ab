import { describe, expect, test } from 'bun:test';
import { databases, openTestServer, testMasterKey } from '../../support/test-server.ts';

const [inside, outside] = ['10.1.2.3', '192.0.2.9'];

describe.each(databases)('allowed networks on %s', async (_, database) => {
  const env = { SALLYPORT_MASTER_KEY: testMasterKey, SALLYPORT_TRUSTED_PROXIES: '127.0.0.1,10.9.9.9' };
  const server = await openTestServer(database, env);
  const node = await openTestServer(server.config.databaseUrl, env);
  const key = (await server.tenant()).key;

  const fenced = (fields: object = {}) =>
    server.application(key, {
      permissions: ['application:read', 'application:update', 'token:read'],
      allowed_networks: ['10.0.0.0/8', '2001:db8::/32'],
      ...fields,
    });
  const from = (as: string, address: string, at = server) =>
    at.call('GET', '/applications/key', { key: as, headers: { 'X-Forwarded-For': address } });
  const statuses = (as: string, address: string) =>
    Promise.all([server, node].map(async (at) => (await from(as, address, at)).status));

  test('are returned normalized, changed by an update, and removed by an empty list', async () => {
    const created = await fenced({ allowed_networks: ['10.0.0.0/8', '192.0.2.7', '10.0.0.0/8'] });
    expect(created.allowed_networks).toEqual(['10.0.0.0/8', '192.0.2.7/32']);
    const update = async (fields: object) => {
      const body = { name: 'renamed', permissions: ['application:read'], ...fields };
      return (await server.call('PUT', `/applications/${created.id}`, { key, body })).body;
    };
    expect((await update({})).allowed_networks).toEqual(created.allowed_networks);
    expect((await update({ allowed_networks: ['::1'] })).allowed_networks).toEqual(['::1/128']);
    expect(await update({ allowed_networks: [] })).not.toHaveProperty('allowed_networks');
    const { body: logs } = await server.call('GET', `/logs?entity=${created.id}`, { key });
    expect(logs.data[0].difference).toMatchObject({ allowed_networks: { from: ['::1/128'] } });
  });

  test('deny requests from other addresses on every node, with an audit entry', async () => {
    const app = await fenced();
    for (const address of [inside, '10.255.0.1', '2001:db8::7', '::ffff:10.0.0.1'])
      expect(await statuses(app.key, address)).toEqual([200, 200]);
    for (const address of [outside, '11.0.0.1', '2001:db9::1', 'unknown'])
      expect(await statuses(app.key, address)).toEqual([403, 403]);
    const refused = await from(app.key, outside);
    expect(refused.body).toMatchObject({ code: 'network_refused', status: 403 });
    expect(JSON.stringify(refused.body)).not.toContain('10.0.0.0');
    await server.flush();
    const { body } = await server.call('GET', `/logs?actor=${app.id}&result=denied`, { key });
    const entry = body.data.find((each: { from: { ip?: string } }) => each.from.ip === outside);
    expect(entry).toMatchObject({
      operation: 'application.read',
      reason: 'network_refused',
      decision: { reason: `the address ${outside} is not in allowed_networks of the application` },
    });
  });

  test('use the address that trusted proxies report, not one that the client made up', async () => {
    const app = await fenced();
    expect((await from(app.key, `${inside}, ${outside}`)).status).toBe(403);
    expect((await from(app.key, `${outside}, ${inside}`)).status).toBe(200);
    expect((await from(app.key, `${outside}, 10.9.9.9`)).status).toBe(403);
    // The address of the proxy is in the allowed networks. It is not used if the headers disagree.
    const near = await fenced({ allowed_networks: ['127.0.0.1'] });
    for (const Forwarded of [`for=${outside}`, 'for=unknown', 'x']) {
      const both = { 'X-Forwarded-For': outside, Forwarded };
      expect((await server.call('GET', '/applications/key', { key: near.key, headers: both })).status).toBe(
        403,
      );
    }
    expect((await from(near.key, 'unknown')).status).toBe(403);
    const headers = { 'X-Forwarded-For': inside, Forwarded: `for=${outside}` };
    expect((await server.call('GET', '/applications/key', { key: app.key, headers })).status).toBe(403);
    expect((await server.call('GET', '/applications/key', { key: app.key })).status).toBe(403);
  });

  test('apply to changes, to all keys, and immediately after an update', async () => {
    const app = await fenced({ allowed_networks: undefined });
    const { body: second } = await server.call('POST', `/applications/${app.id}/keys`, { key });
    expect(await statuses(second.key, outside)).toEqual([200, 200]);
    const body = { name: 'x', permissions: ['application:update'], allowed_networks: ['10.0.0.0/8'] };
    await server.call('PUT', `/applications/${app.id}`, { key, body });
    const regenerate = (as: string, address: string) =>
      server.call('POST', `/applications/${app.id}/regenerate`, {
        key: as,
        headers: { 'X-Forwarded-For': address },
      });
    for (const each of [app.key, second.key])
      expect((await regenerate(each, outside)).body.code).toBe('network_refused');
    expect((await regenerate(second.key, inside)).status).toBe(200);
  });

  test('limit the requests that authorize sessions, but not the sessions', async () => {
    const backend = await fenced();
    const web = await server.application(key, { type: 'public', permissions: ['token:create'] });
    const { body: session } = await server.call('POST', '/sessions', { key: web.key });
    const authorize = async (address: string) =>
      (
        await server.call('POST', '/sessions/authorize', {
          key: backend.key,
          body: { nonce: session.nonce, permissions: ['token:read'] },
          headers: { 'X-Forwarded-For': address },
        })
      ).status;
    expect([await authorize(outside), await authorize(inside)]).toEqual([403, 204]);
    const headers = { 'X-Forwarded-For': outside };
    const read = await server.call('GET', '/tokens', { key: session.session_key, headers });
    expect(read.status).toBe(200);
  });

  test('cannot exclude the caller from its own application', async () => {
    const app = await fenced({ allowed_networks: undefined });
    const update = (networks: string[], as = app.key) =>
      server.call('PUT', `/applications/${app.id}`, {
        key: as,
        headers: { 'X-Forwarded-For': inside },
        body: { name: 'own', permissions: app.permissions, allowed_networks: networks },
      });
    const refused = await update(['192.0.2.0/24']);
    expect([refused.status, refused.body.errors.allowed_networks[0]]).toEqual([
      400,
      expect.stringContaining(`must contain your address ${inside}`),
    ]);
    expect((await update(['192.0.2.0/24', '10.1.2.3'])).status).toBe(200);
    expect((await update(['192.0.2.0/24'], key)).status).toBe(200);
    expect(await statuses(app.key, inside)).toEqual([403, 403]);
  });

  test('are rejected for public applications, malformed or too many', async () => {
    const create = async (fields: object) => {
      const body = { name: 'x', type: 'private', permissions: ['token:read'], ...fields };
      const { status, body: answer } = await server.call('POST', '/applications', { key, body });
      return [status, Object.keys(answer.errors ?? {})];
    };
    const networks = ['10.0.0.0/8'];
    expect(await create({ type: 'public', allowed_networks: networks })).toEqual([400, ['allowed_networks']]);
    expect(await create({ allowed_networks: ['10.0.0.1/8'] })).toEqual([400, ['allowed_networks.0']]);
    const many = Array.from({ length: 51 }, (_, at) => `10.0.0.${at}`);
    expect(await create({ allowed_networks: many })).toEqual([400, ['allowed_networks']]);
    expect(await create({ type: 'public', allowed_networks: [] })).toEqual([201, []]);
  });
});
