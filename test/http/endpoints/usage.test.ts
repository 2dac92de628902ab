import { describe, expect, test } from 'bun:test';
import { hideTable } from '../../support/database.ts';
import { type ApiResponse, databases, openTestServer, testMasterKey } from '../../support/test-server.ts';
import { runSql } from '../../support/test-store.ts';

const minute = 60_000;

describe.each(databases)('usage on %s', async (_, database) => {
  const server = await openTestServer(database, { SALLYPORT_MASTER_KEY: testMasterKey });

  const now = () => new Date(server.clock.now()).toISOString();
  const get = async (key: string, path: string) => (await server.call('GET', path, { key })).body;
  const usage = (key: string, id: string) => get(key, `/applications/${id}/usage`);
  const places = async (key: string, id: string) =>
    (await usage(key, id)).uses.map(
      ({ permission, container }: ApiResponse['body']) => `${permission} ${container}`,
    );
  const me = (key: string) => server.call('GET', '/applications/key', { key });

  test('last_used_at of a key and its application is written by a job, not by the request', async () => {
    const { key } = await server.tenant();
    const created = await server.application(key, { permissions: ['application:read'] });
    const { body: second } = await server.call('POST', `/applications/${created.id}/keys`, { key });
    server.clock.advance(minute);
    const at = now();
    expect((await me(second.key)).status).toBe(200);
    const rows = `select last_used_at from application_keys where application_id = '${created.id}'`;
    expect(await runSql(server.config.databaseUrl, rows)).toEqual([
      { last_used_at: null },
      { last_used_at: null },
    ]);
    expect(await get(key, `/applications/${created.id}`)).not.toHaveProperty('last_used_at');

    await server.flush();
    server.clock.advance(minute);
    expect(await get(key, `/applications/${created.id}`)).toHaveProperty('last_used_at', at);
    const { data } = await get(key, `/applications?id=${created.id}`);
    expect(data[0].last_used_at).toBe(at);
    const keys = (await get(key, `/applications/${created.id}/keys`)).data;
    expect(keys.map(({ last_used_at }: ApiResponse['body']) => last_used_at)).toEqual([at, undefined]);
  });

  test('requests are counted by key and day', async () => {
    const { key } = await server.tenant();
    const created = await server.application(key, { permissions: ['application:read', 'token:create'] });
    const { body: second } = await server.call('POST', `/applications/${created.id}/keys`, { key });
    const days: string[] = [];
    for (const count of [1, 2]) {
      days.push(now().slice(0, 10));
      for (let request = 0; request < count; request++) await me(created.key);
      await server.call('POST', '/tokens', { key: second.key, body: { data: 'x' } });
      await server.flush();
      server.clock.advance(24 * 60 * minute);
    }
    const { keys } = await usage(key, created.id);
    const counted = (counts: number[]) => counts.map((requests, at) => ({ date: days[at], requests }));
    expect(keys).toEqual([
      { id: second.id, ending: second.key.slice(-4), days: counted([1, 1]) },
      { id: expect.any(String), ending: created.key.slice(-4), days: counted([1, 2]) },
    ]);
  });

  test('denied requests are no uses; those that a rule denies count as requests of the key', async () => {
    const { key } = await server.tenant();
    const created = await server.application(key, { permissions: ['token:read'] });
    expect((await me(created.key)).status).toBe(403);
    const rules = [{ priority: 1, container: '/a/', transform: 'mask', permissions: ['token:create'] }];
    const narrow = await server.application(key, { permissions: undefined, rules });
    const elsewhere = { key: narrow.key, body: { data: 'x', container: '/b/' } };
    expect((await server.call('POST', '/tokens', elsewhere)).status).toBe(403);
    await server.flush();
    expect(await usage(key, created.id)).toEqual({
      uses: [],
      unused: [{ rule: 'permissions', permission: 'token:read', container: '/' }],
      keys: [{ id: expect.any(String), ending: created.key.slice(-4), days: [] }],
    });
    expect(await usage(key, narrow.id)).toMatchObject({
      uses: [],
      keys: [{ days: [{ date: now().slice(0, 10), requests: 1 }] }],
    });
  });

  test('token requests are recorded by permission and container, and unused grants are listed', async () => {
    const { key } = await server.tenant();
    const rules = [
      { priority: 1, container: '/a/', transform: 'reveal', permissions: ['token:read', 'token:delete'] },
    ];
    const permissions = ['token:create', 'token:update', 'token:delete', 'log:read'];
    const created = await server.application(key, { permissions, rules });
    const as = created.key;
    await server.call('POST', '/tokens', { key: as, body: { id: 'one', data: 'x', container: 'A/b' } });
    await server.call('GET', '/tokens/one', { key: as });
    await server.call('GET', '/tokens', { key: as });
    await server.call('PATCH', '/tokens/one', { key: as, body: { container: '/c/' } });
    await server.call('DELETE', '/tokens/one', { key: as });
    await server.flush();
    expect((await places(key, created.id)).sort()).toEqual([
      'token:create /a/b/',
      'token:delete /c/',
      'token:read /a/',
      'token:read /a/b/',
      'token:update /a/b/',
      'token:update /c/',
    ]);
    const { last_used_at, unused } = await usage(key, created.id);
    expect(last_used_at).toBe(now());
    expect(unused).toEqual([
      { rule: 'permissions', permission: 'log:read', container: '/' },
      { rule: 1, permission: 'token:delete', container: '/a/' },
    ]);
  });

  test('uses are listed latest first', async () => {
    const { key } = await server.tenant();
    const created = await server.application(key, { permissions: ['token:create', 'application:read'] });
    await me(created.key);
    server.clock.advance(1);
    await server.call('POST', '/tokens', { key: created.key, body: { data: 'x' } });
    await server.flush();
    expect(await places(key, created.id)).toEqual(['token:create /general/', 'application:read /']);
  });

  test('requests of a limited session count for its authorizer', async () => {
    const { key } = await server.tenant();
    const backend = await server.application(key, { permissions: ['application:read'] });
    const web = await server.application(key, { type: 'public', permissions: ['application:read'] });
    const begin = async (as: string) => {
      const { body } = await server.call('POST', '/sessions', { key: web.key });
      const grant = { nonce: body.nonce, permissions: ['application:read'] };
      expect((await server.call('POST', '/sessions/authorize', { key: as, body: grant })).status).toBe(204);
      return body.session_key;
    };
    const [free, bound] = [await begin(key), await begin(backend.key)];
    await server.flush();
    server.clock.advance(minute);
    await me(free);
    await server.flush();
    expect(await usage(key, web.id)).toMatchObject({ last_used_at: now(), uses: [] });
    expect((await usage(key, backend.id)).uses).toEqual([]);

    server.clock.advance(minute);
    await me(bound);
    await server.flush();
    expect(await usage(key, web.id)).toMatchObject({ last_used_at: now(), uses: [] });
    const { last_used_at, uses, unused } = await usage(key, backend.id);
    expect([last_used_at, unused]).toEqual([now(), []]);
    expect(uses).toEqual([{ permission: 'application:read', container: '/', last_used_at: now() }]);
    expect((await get(key, `/applications/${backend.id}/keys`)).data[0].last_used_at).toBe(now());
  });

  test('authorizing counts as a use of session:authorize or application:create', async () => {
    const { key } = await server.tenant();
    const backend = await server.application(key, {
      permissions: ['application:create', 'session:authorize'],
    });
    const web = await server.application(key, { type: 'public' });
    const { body } = await server.call('POST', '/sessions', { key: web.key });
    const grant = { nonce: body.nonce, permissions: ['mine:x'] };
    await server.call('POST', '/sessions/authorize', { key: backend.key, body: grant });
    await server.flush();
    expect(await places(key, backend.id)).toEqual(['session:authorize /']);
  });

  test('an allowed decision counts for its credential, a denied one does not', async () => {
    const { key } = await server.tenant();
    const created = await server.application(key, { permissions: ['order:read'] });
    const ask = (permission: string, more: object) =>
      server.call('POST', '/decisions', { key, body: { credential: created.key, permission, ...more } });
    await ask('order:write', { resource: { container: '/eu/' } });
    await server.flush();
    expect((await usage(key, created.id)).uses).toEqual([]);
    await ask('order:read', { resources: [{ container: '/eu/' }, { id: 'x' }] });
    await server.flush();
    expect((await places(key, created.id)).sort()).toEqual(['order:read /', 'order:read /eu/']);
  });

  test('last_used_at in an update is ignored', async () => {
    const { key } = await server.tenant();
    const created = await server.application(key, { permissions: ['application:read'] });
    await me(created.key);
    await server.flush();
    const fetched = await get(key, `/applications/${created.id}`);
    expect(fetched.last_used_at).toBe(now());
    for (const last_used_at of [fetched.last_used_at, '2001-01-01T00:00:00Z', null, 42, 'never']) {
      const { modified_at, modified_by, ...body } = { ...fetched, last_used_at };
      const answer = await server.call('PUT', `/applications/${created.id}`, { key, body });
      expect([answer.status, answer.body.last_used_at]).toEqual([200, fetched.last_used_at]);
    }
    const { body } = await server.call('POST', '/applications', {
      key,
      body: { name: 'x', type: 'private', permissions: ['token:read'], last_used_at: now() },
    });
    expect(body.errors).toEqual({ last_used_at: ['is not a known field'] });
  });

  test('regenerating does not reset the usage of the application, and the new key has no usage yet', async () => {
    const { key } = await server.tenant();
    const created = await server.application(key, { permissions: ['application:read'] });
    await me(created.key);
    await server.flush();
    const { body } = await server.call('POST', `/applications/${created.id}/regenerate`, { key });
    expect(body.last_used_at).toBe(now());
    expect((await get(key, `/applications/${created.id}/keys`)).data[0]).not.toHaveProperty('last_used_at');
    expect(await places(key, created.id)).toEqual(['application:read /']);
  });

  test('random containers do not grow the record', async () => {
    const { key } = await server.tenant();
    const created = await server.application(key, { permissions: ['order:read'] });
    for (let round = 0; round < 4; round++) {
      const resources = Array.from({ length: 100 }, (_, at) => ({
        container: `/customers/${round * 100 + at}/`,
      }));
      await server.call('POST', '/decisions', {
        key,
        body: { credential: created.key, permission: 'order:read', resources },
      });
    }
    await server.flush();
    const returned = await places(key, created.id);
    expect(returned).toContain('order:read /customers/');
    expect(returned.length).toBeLessThanOrEqual(50);
  });
});

describe.each(databases)('unwritten usage on %s', (_, database) => {
  test('is written on shutdown', async () => {
    const server = await openTestServer(database, { SALLYPORT_MASTER_KEY: testMasterKey });
    const node = await openTestServer(server.config.databaseUrl);
    const { key } = await server.tenant();
    const created = await server.application(key, { permissions: ['application:read'] });
    await node.call('GET', '/applications/key', { key: created.key });
    await node.close();
    const { body } = await server.call('GET', `/applications/${created.id}`, { key });
    expect(body.last_used_at).toBe(new Date(server.clock.now()).toISOString());
  });

  test('is retried after a database error, which is logged', async () => {
    const server = await openTestServer(database);
    const { key } = await server.tenant();
    const made = await server.application(key, { permissions: ['application:read'] });
    await server.call('GET', '/applications/key', { key: made.key });
    await hideTable(server.config.databaseUrl, 'application_uses');
    await server.flush();
    expect(server.logged.at(-1)).toContain('could not write usage');
    await runSql(server.config.databaseUrl, 'alter table application_uses_hidden rename to application_uses');
    await server.flush();
    const { body } = await server.call('GET', `/applications/${made.id}/usage`, { key });
    expect(body.uses).toHaveLength(1);
  });
});
