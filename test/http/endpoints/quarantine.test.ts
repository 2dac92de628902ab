/** Applications in quarantine. */
import { beforeEach, describe, expect, test } from 'bun:test';
import { databases, openTestServer, type TestServer, testMasterKey } from '../../support/test-server.ts';

const rule = { priority: 1, container: '/cards/', transform: 'reveal' };
const permissions = ['token:read', 'token:create', 'token:update', 'token:delete'];

describe.each(databases)('quarantine on %s', async (_, database) => {
  let key: string;
  let desk: { id: string; key: string };
  const server = await openTestServer(database, { SALLYPORT_MASTER_KEY: testMasterKey });
  // Another node on the same database.
  const other = await openTestServer(server.config.databaseUrl);

  beforeEach(async () => {
    ({ key } = await server.tenant());
    const rules = [{ ...rule, permissions: [...permissions, 'invoice:read', 'invoice:pay'] }];
    const plain = ['application:read', 'decision:create'];
    desk = await server.application(key, { name: 'desk', permissions: plain, rules });
    const body = {
      id: 'card-42',
      container: '/cards/42/',
      data: { number: '4242' },
    };
    expect((await server.call('POST', '/tokens', { key, body })).status).toBe(201);
  });

  const quarantine = (id = desk.id, caller = key) =>
    server.call('POST', `/applications/${id}/quarantine`, { key: caller });
  const release = (id = desk.id, caller = key) =>
    server.call('DELETE', `/applications/${id}/quarantine`, { key: caller });
  const dataOf = async (on: TestServer, caller: string) =>
    (await on.call('GET', '/tokens/card-42', { key: caller })).body.data;

  test('reads are redacted immediately on every node, until the release', async () => {
    for (const node of [server, other]) expect(await dataOf(node, desk.key)).toEqual({ number: '4242' });
    expect((await quarantine()).body.quarantined_at).toBe(new Date(server.clock.now()).toISOString());
    for (const node of [other, server]) {
      const { status, body } = await node.call('GET', '/tokens/card-42', { key: desk.key });
      expect([status, body.id, 'data' in body]).toEqual([200, 'card-42', false]);
      const list = await node.call('GET', '/tokens', { key: desk.key });
      expect(list.body.data.map((token: object) => 'data' in token)).toEqual([false]);
      expect((await node.call('GET', '/applications/key', { key: desk.key })).body.rules[0].transform).toBe(
        'reveal',
      );
    }
    await server.flush();
    const { body: log } = await server.call('GET', `/logs?actor=${desk.id}&operation=token.read`, { key });
    expect(log.data[0]).toMatchObject({ decision: { transform: 'redact' }, resource: { ids: ['card-42'] } });
    expect((await release()).status).toBe(204);
    for (const node of [other, server]) expect(await dataOf(node, desk.key)).toEqual({ number: '4242' });
    const released = (await server.call('GET', `/applications/${desk.id}`, { key })).body;
    expect(released).not.toHaveProperty('quarantined_at');
  });

  test('every change is denied, and the audit log records the quarantine and the attempts', async () => {
    const web = await server.application(key, { type: 'public', permissions: ['token:create'] });
    const { nonce } = (await server.call('POST', '/sessions', { key: web.key })).body;
    await quarantine();
    await quarantine(web.id);
    const changes: [method: string, path: string, caller: string, body: object | undefined][] = [
      ['POST', '/tokens', desk.key, { container: '/cards/', data: 'x' }],
      ['PATCH', '/tokens/card-42', desk.key, { data: 'x' }],
      ['DELETE', '/tokens/card-42', desk.key, undefined],
      ['POST', '/sessions/authorize', desk.key, { nonce, permissions: ['token:read'] }],
      ['POST', '/sessions', web.key, undefined],
    ];
    for (const [method, path, caller, body] of changes) {
      const denied = await other.call(method, path, { key: caller, ...(body && { body }) });
      expect([path, denied.status, denied.body.code]).toEqual([path, 403, 'quarantined']);
    }
    await release();
    await other.flush();
    const { data } = (await server.call('GET', '/logs?size=100', { key })).body;
    const entries = data.map(({ operation, result, entity, difference }: Record<string, object>) => ({
      operation,
      result,
      ...(entity && { entity: (entity as { id: string }).id }),
      ...(difference && { difference }),
    }));
    const since = expect.stringMatching(/Z$/);
    expect(entries).toContainEqual({
      operation: 'application.quarantine',
      result: 'success',
      entity: desk.id,
      difference: { quarantined_at: { to: since } },
    });
    expect(entries).toContainEqual({
      operation: 'application.release',
      result: 'success',
      entity: desk.id,
      difference: { quarantined_at: { from: since } },
    });
    const denied = entries.filter(({ result }: { result: string }) => result === 'denied');
    expect(denied.map(({ operation }: { operation: string }) => operation).sort()).toEqual([
      'session.authorize',
      'session.create',
      'token.create',
      'token.delete',
      'token.update',
    ]);
  });

  test('decisions and access reviews report it', async () => {
    await quarantine();
    const resource = { id: 'card-42', container: '/cards/42/' };
    const decide = async (permission: string) =>
      (await server.call('POST', '/decisions', { key, body: { credential: desk.key, permission, resource } }))
        .body;
    expect(await decide('token:read')).toMatchObject({
      allowed: true,
      transform: 'redact',
      rule: { rule: 1 },
      reason: 'the application is in quarantine: token:read has the transform redact',
    });
    expect(await decide('invoice:read')).toMatchObject({ allowed: true, transform: 'redact' });
    expect(await decide('application:read')).toMatchObject({ allowed: true, transform: 'redact' });
    for (const permission of ['token:update', 'invoice:pay']) {
      const { allowed, reason, missing } = await decide(permission);
      expect([allowed, missing]).toEqual([false, undefined]);
      expect(reason).toBe(`the application is in quarantine: ${permission} cannot be used`);
    }
    const who = async (permission: string) => {
      const path = `/access/who?token=card-42&permission=${permission}`;
      const { data } = (await server.call('GET', path, { key })).body;
      const own = data.find(({ subject }: { subject: { id: string } }) => subject.id === desk.id);
      return own?.transform;
    };
    expect([await who('token:read'), await who('token:delete')]).toEqual(['redact', undefined]);
  });

  test('a second quarantine does not change the time of the first, and an update does not end it', async () => {
    const first = (await quarantine()).body;
    server.clock.advance(1000);
    expect((await quarantine()).body).toEqual(first);
    const updated = await server.call('PUT', `/applications/${desk.id}`, {
      key,
      body: { ...first, name: 'help desk' },
    });
    expect([updated.status, updated.body.quarantined_at]).toEqual([200, first.quarantined_at]);
    const { quarantined_at: _, ...released } = first;
    const { status } = await server.call('PUT', `/applications/${desk.id}`, {
      key,
      body: { ...released, quarantined_at: new Date(0).toISOString() },
    });
    expect(status).toBe(400);
  });

  test('needs every management permission of the application', async () => {
    const deputy = await server.application(key, { permissions: ['application:update'] });
    const auditor = await server.application(key, { permissions: ['log:read'] });
    for (const call of [quarantine, release]) {
      const { status, body } = await call(auditor.id, deputy.key);
      expect([status, body.code]).toEqual([403, 'grant_not_held']);
    }
    const plain = await server.application(key, { permissions: ['token:read'] });
    expect((await quarantine(plain.id, deputy.key)).status).toBe(200);
    expect((await release(plain.id, deputy.key)).status).toBe(204);
    expect((await release(plain.id, deputy.key)).status).toBe(204);
  });
});
