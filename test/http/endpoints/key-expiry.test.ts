import { describe, expect, test } from 'bun:test';
import { databases, openTestServer, testMasterKey } from '../../support/test-server.ts';

const day = 86_400_000;
const valid = [200, 200];
const invalid = [401, 401];

describe.each(databases)('keys that expire on %s', async (_, database) => {
  const server = await openTestServer(database, { SALLYPORT_MASTER_KEY: testMasterKey });
  const node = await openTestServer(server.config.databaseUrl);
  const key = (await server.tenant()).key;

  const advance = (milliseconds: number) => {
    for (const { clock } of [server, node]) clock.advance(milliseconds);
  };
  const inMs = (milliseconds: number) => new Date(server.clock.now() + milliseconds).toISOString();
  const readable = (fields: object = {}, as = key) =>
    server.application(as, { permissions: ['application:read'], ...fields });
  const add = (id: string, body?: unknown, as = key) =>
    server.call('POST', `/applications/${id}/keys`, { key: as, body });
  const regenerate = (id: string, body?: unknown, as = key) =>
    server.call('POST', `/applications/${id}/regenerate`, { key: as, body });
  const list = async (id: string, as = key) =>
    (await server.call('GET', `/applications/${id}/keys`, { key: as })).body.data;
  const statuses = (as: string) =>
    Promise.all(
      [server, node].map(async (at) => (await at.call('GET', '/applications/key', { key: as })).status),
    );

  test('a key is valid until the millisecond before it expires, and then treated as deleted', async () => {
    const created = await readable();
    const { status, body } = await add(created.id, { expires_at: inMs(1000) });
    expect([status, body.expires_at]).toEqual([201, inMs(1000)]);
    const [listed] = await list(created.id);
    expect(listed).toMatchObject({ id: body.id, expires_at: body.expires_at });
    expect(await statuses(body.key)).toEqual(valid);
    advance(999);
    expect(await statuses(body.key)).toEqual(valid);
    advance(1);
    expect(await statuses(body.key)).toEqual(invalid);
    expect(await statuses(created.key)).toEqual(valid);
    expect((await list(created.id)).map(({ ending }: { ending: string }) => ending)).toEqual([
      created.key.slice(-4),
    ]);
    const path = `/applications/${created.id}/keys/${body.id}`;
    expect((await server.call('DELETE', path, { key })).status).toBe(404);
    await server.app.maintenance.sweep(100);
    expect(await list(created.id)).toHaveLength(1);
  });

  test('an expired key does not count towards the maximum of three', async () => {
    const created = await readable();
    for (let count = 0; count < 2; count++) await add(created.id, { expires_at: inMs(10) });
    expect((await add(created.id)).body.code).toBe('too_many_keys');
    expect((await regenerate(created.id, { old_keys_expire_at: inMs(10) })).body.code).toBe('too_many_keys');
    advance(10);
    expect((await add(created.id)).status).toBe(201);
  });

  test('regenerate with an overlap lets the old keys expire, without extending any', async () => {
    const created = await readable();
    const { body: early } = await add(created.id, { expires_at: inMs(500) });
    const { status, body } = await regenerate(created.id, { old_keys_expire_at: inMs(1000) });
    expect(status).toBe(200);
    expect(body.key_expires_at).toBeUndefined();
    expect((await list(created.id)).map((each: { expires_at?: string }) => each.expires_at)).toEqual([
      undefined,
      inMs(500),
      inMs(1000),
    ]);
    advance(500);
    expect(await statuses(early.key)).toEqual(invalid);
    advance(499);
    expect(await statuses(created.key)).toEqual(valid);
    advance(1);
    expect(await statuses(created.key)).toEqual(invalid);
    expect(await statuses(body.key)).toEqual(valid);
    const { body: logs } = await server.call('GET', `/logs?entity=${created.id}`, { key });
    expect(logs.data[0]).toMatchObject({
      operation: 'application.regenerate',
      difference: { old_keys_expire_at: { to: inMs(0) } },
    });
  });

  test('a new key can set the expiry of the old ones', async () => {
    const created = await readable();
    const { body } = await add(created.id, { old_keys_expire_at: inMs(1000) });
    expect(body.expires_at).toBeUndefined();
    advance(1000);
    expect(await statuses(created.key)).toEqual(invalid);
    expect(await statuses(body.key)).toEqual(valid);
  });

  test('a limited session ends when the key that authorized it expires', async () => {
    const backend = await readable();
    const { body: expiring } = await add(backend.id, { expires_at: inMs(1000) });
    const web = await readable({ type: 'public' });
    const { body: session } = await server.call('POST', '/sessions', { key: web.key });
    const grant = { nonce: session.nonce, permissions: ['application:read'] };
    const authorized = await server.call('POST', '/sessions/authorize', { key: expiring.key, body: grant });
    expect(authorized.status).toBe(204);
    const listed = async () =>
      (await server.call('GET', `/sessions?application_id=${web.id}`, { key })).body.data.length;
    advance(999);
    expect([await statuses(session.session_key), await listed()]).toEqual([valid, 1]);
    advance(1);
    expect([await statuses(session.session_key), await listed()]).toEqual([invalid, 0]);
  });

  test('times that have passed, unknown fields and malformed times are rejected by name', async () => {
    const created = await readable();
    const passed = ['must be in the future'];
    const cases: [body: object, errors: object][] = [
      [{ expires_at: inMs(0) }, { expires_at: passed }],
      [{ old_keys_expire_at: inMs(0) }, { old_keys_expire_at: passed }],
      [{ expires_at: 'soon' }, { expires_at: [expect.stringContaining('ISO 8601')] }],
      [{ expire_at: inMs(1) }, { expire_at: [expect.any(String)] }],
    ];
    for (const [body, errors] of cases)
      expect(await add(created.id, body)).toMatchObject({ status: 400, body: { errors } });
    expect((await regenerate(created.id, { old_keys_expire_at: inMs(0) })).status).toBe(400);
    expect((await regenerate(created.id, { expires_at: inMs(1) })).body.errors).toHaveProperty('expires_at');
    expect(await list(created.id)).toHaveLength(1);
    expect((await add(created.id, { expires_at: null })).status).toBe(201);
    expect((await add(created.id, '')).status).toBe(201);
  });

  test('a key cannot expire after its application', async () => {
    const created = await readable({ expires_at: inMs(1000) });
    const message = `must be at most ${inMs(1000)}, when the application expires: change the expiry of the application first`;
    const late = await add(created.id, { expires_at: inMs(1001) });
    expect(late).toMatchObject({ status: 400, body: { errors: { expires_at: [message] } } });
    expect((await add(created.id, { expires_at: inMs(1000) })).body.expires_at).toBe(inMs(1000));
    const body = { name: 'x', permissions: ['application:read'], expires_at: inMs(999) };
    await server.call('PUT', `/applications/${created.id}`, { key, body });
    expect((await list(created.id)).map((each: object) => 'expires_at' in each)).toEqual([false, false]);
  });

  describe('with a maximum lifetime of the tenant', async () => {
    const tenant: { id: string; key: string } = await server.tenant();
    await server.app.maintenance.tenants.limitLifetime(tenant.id, 30 * day);

    const error = () => ({
      expires_at: [`must be at most ${inMs(30 * day)}, because the tenant has a maximum lifetime`],
    });

    test('applications and keys get the latest expiry, and a later one is rejected', async () => {
      const { body: self } = await server.call('GET', '/tenants/self', { key: tenant.key });
      expect(self.max_lifetime).toBe(30 * 86_400);
      const created = await readable({}, tenant.key);
      expect([created.expires_at, created.key_expires_at]).toEqual([inMs(30 * day), inMs(30 * day)]);
      const body = {
        name: 'x',
        type: 'private',
        permissions: ['token:read'],
        expires_at: inMs(30 * day + 1),
      };
      const late = await server.call('POST', '/applications', { key: tenant.key, body });
      expect(late).toMatchObject({ status: 400, body: { errors: error() } });
      expect(await add(created.id, { expires_at: inMs(30 * day + 1) }, tenant.key)).toMatchObject({
        status: 400,
        body: { errors: error() },
      });
      expect((await add(created.id, {}, tenant.key)).body.expires_at).toBe(inMs(30 * day));
      expect((await add(created.id, { expires_at: inMs(5) }, tenant.key)).body.expires_at).toBe(inMs(5));
      expect((await regenerate(created.id, undefined, tenant.key)).body.key_expires_at).toBe(inMs(30 * day));
    });

    test('an application can be renewed again and again, but its keys must be replaced', async () => {
      const created = await readable({}, tenant.key);
      const update = (expires_at: string) =>
        server.call('PUT', `/applications/${created.id}`, {
          key: tenant.key,
          body: { name: 'renewed', permissions: ['application:read'], expires_at },
        });
      expect((await update('never')).body.errors).toEqual({
        expires_at: ['must not be never, because the tenant has a maximum lifetime'],
      });
      expect((await update(inMs(30 * day + 1))).body.errors).toEqual(error());
      advance(20 * day);
      expect((await update(inMs(30 * day))).status).toBe(200);
      expect(await statuses(created.key)).toEqual(valid);
      advance(10 * day);
      expect(await statuses(created.key)).toEqual(invalid);
      expect((await update(created.expires_at)).status).toBe(400);
    });

    test('no response has an expiry of a key that is later than that of its application', async () => {
      const created = await readable({ expires_at: inMs(day) }, tenant.key);
      expect(created.expires_at).toBe(inMs(day));
      const regenerated = (await regenerate(created.id, undefined, tenant.key)).body;
      const added = (await add(created.id, {}, tenant.key)).body;
      const listed = await list(created.id, tenant.key);
      expect(listed.map((each: object) => 'expires_at' in each)).toEqual([false, false]);
      expect([created.key_expires_at, regenerated.key_expires_at, added.expires_at]).toEqual([
        undefined,
        undefined,
        undefined,
      ]);
      // The maximum lifetime of the keys still counts from their creation.
      const body = { name: 'x', permissions: ['application:read'], expires_at: inMs(30 * day) };
      await server.call('PUT', `/applications/${created.id}`, { key: tenant.key, body });
      expect((await list(created.id, tenant.key))[0].expires_at).toBe(inMs(30 * day));
    });

    test('an application without an expiry can still be changed', async () => {
      const { body: self } = await server.call('GET', '/applications/key', { key: tenant.key });
      const { name, permissions, rules } = self;
      const path = `/applications/${self.id}`;
      for (const body of [
        { name, permissions, rules },
        { name, permissions, rules, expires_at: 'never' },
      ])
        expect((await server.call('PUT', path, { key: tenant.key, body })).status).toBe(200);
    });

    test('other tenants have no limit', async () => {
      expect((await readable()).expires_at).toBeUndefined();
    });
  });
});
