/** Rate limits and storage quota of tokens per application. */
import { describe, expect, test } from 'bun:test';
import { databases, openTestServer, type TestServer, testMasterKey } from '../../support/test-server.ts';

const permissions = ['token:create', 'token:read', 'token:update', 'token:delete'];

describe.each(databases)('on %s, an application', async (_, database) => {
  const opened = async (env: Record<string, string>) => {
    const server = await openTestServer(database, { SALLYPORT_MASTER_KEY: testMasterKey, ...env });
    const { id: tenant, key } = await server.tenant();
    const application = (fields = {}) => server.application(key, { permissions, ...fields });
    const create = (as: { key: string }, data: string, fields = {}) =>
      server.call('POST', '/tokens', { key: as.key, body: { data, ...fields } });
    const patch = (as: { key: string }, id: string, data: string) =>
      server.call('PATCH', `/tokens/${id}`, { key: as.key, body: { data } });
    async function sessionOf(web: { key: string }) {
      const { body } = await server.call('POST', '/sessions', { key: web.key });
      const grant = { nonce: body.nonce, permissions };
      expect((await server.call('POST', '/sessions/authorize', { key, body: grant })).status).toBe(204);
      return { key: body.session_key as string };
    }
    const stored = (id: string) => server.app.store.tokens.storageUsed(tenant, id);
    return { server, key, application, create, patch, sessionOf, stored };
  };

  test('can create or change a limited number of tokens per minute, including its sessions', async () => {
    const { server, application, create, patch, sessionOf } = await opened({
      SALLYPORT_TOKENS_PER_MINUTE: '3',
    });
    const web = await application({ type: 'public' });
    const session = await sessionOf(web);
    const created = await create(web, 'x');
    expect(created.headers.get('ratelimit')).toBeNull();
    const second = await create(session, 'x');
    expect(second.status).toBe(201);
    expect(second.headers.get('ratelimit')).toContain('"tokens";r=1;t=20');
    expect(second.headers.get('ratelimit-policy')).toContain('"tokens";q=3;w=60');
    expect((await patch(session, created.body.id, 'y')).status).toBe(200);
    for (const rejected of [
      await create(web, 'x'),
      await create(session, 'x'),
      await patch(web, created.body.id, 'z'),
    ]) {
      expect([rejected.status, rejected.body.code, rejected.headers.get('retry-after')]).toEqual([
        429,
        'too_many_requests',
        '20',
      ]);
      expect(rejected.body.detail).toContain('3 tokens created or changed by one application');
    }
    expect((await server.call('GET', `/tokens/${created.body.id}`, { key: session.key })).status).toBe(200);
    expect((await create(await application(), 'x')).status).toBe(201);
    server.clock.advance(20_000);
    expect([(await create(web, 'x')).status, (await create(web, 'x')).status]).toEqual([201, 429]);
  });

  test('a token with many index rows counts as several tokens per minute', async () => {
    const { server, application } = await opened({ SALLYPORT_TOKENS_PER_MINUTE: '12' });
    const { key } = await application();
    const metadata = Object.fromEntries(Array.from({ length: 50 }, (_, n) => [`n${n}`, 'x']));
    const container = `/${'a/'.repeat(16)}`;
    const create = (body: object) => server.call('POST', '/tokens', { key, body: { data: 'x', ...body } });
    expect((await create({ metadata, container })).status).toBe(201);
    const statuses: number[] = [];
    for (let n = 0; n < 4; n++) statuses.push((await create({})).status);
    expect(statuses).toEqual([201, 201, 201, 429]);
    server.clock.advance(60_000);
    const { body } = await create({});
    const patch = { method: 'PATCH', path: `/tokens/${body.id}` };
    expect((await server.call(patch.method, patch.path, { key, body: { metadata } })).status).toBe(200);
    const after: number[] = [];
    for (let n = 0; n < 5; n++) after.push((await create({})).status);
    expect(after).toEqual([201, 201, 201, 201, 429]);
  });

  test('rejected requests count towards the bytes per minute', async () => {
    const { application, create } = await opened({ SALLYPORT_TOKEN_BYTES_PER_MINUTE: '1048576' });
    const web = await application();
    const large = 'x'.repeat(500_000);
    const statuses = [];
    for (let at = 0; at < 3; at++) statuses.push((await create(web, large, { unknown: 1 })).status);
    expect(statuses).toEqual([400, 400, 429]);
  });

  test('can send a limited number of token bytes per minute', async () => {
    const { server, application, create } = await opened({ SALLYPORT_TOKEN_BYTES_PER_MINUTE: '1048576' });
    const web = await application({ type: 'public' });
    const first = await create(web, 'x'.repeat(700_000));
    expect(first.status).toBe(201);
    expect(first.headers.get('ratelimit-policy')).toContain(
      '"token-bytes";q=1048576;qu="content-bytes";w=60',
    );
    const rejected = await create(web, 'x'.repeat(700_000));
    expect([rejected.status, rejected.body.code]).toEqual([429, 'too_many_requests']);
    expect(Number(rejected.headers.get('retry-after'))).toBe(21);
    expect((await create(web, 'x'.repeat(100_000))).status).toBe(201);
    server.clock.advance(60_000);
    expect((await create(web, 'x'.repeat(1_000_000))).status).toBe(201);
  });

  describe('with a storage quota', async () => {
    const on: Awaited<ReturnType<typeof opened>> = await opened({
      SALLYPORT_TOKEN_BYTES_PER_APPLICATION: '20480',
    });

    test('can store a limited number of bytes, including its sessions', async () => {
      const { server, application, create, sessionOf, stored } = on;
      const web = await application({ type: 'public' });
      const session = await sessionOf(web);
      const created = await create(web, 'x'.repeat(6000));
      expect((await create(session, 'x'.repeat(6000))).status).toBe(201);
      expect((await stored(web.id)).tokens).toBe(2);
      for (const as of [web, session]) {
        const { status, body } = await create(as, 'x'.repeat(6000));
        expect([status, body.code]).toEqual([507, 'storage_full']);
      }
      expect((await create(await application(), 'x'.repeat(6000))).status).toBe(201);
      await server.call('DELETE', `/tokens/${created.body.id}`, { key: session.key });
      server.clock.advance(1000);
      expect((await create(web, 'x'.repeat(6000))).status).toBe(201);
    });

    test('cannot exceed it with concurrent requests', async () => {
      const { application, create, stored } = on;
      const web = await application({ type: 'public' });
      const all = await Promise.all(Array.from({ length: 12 }, () => create(web, 'x'.repeat(1500))));
      const statuses = all.map(({ status }) => status);
      expect(new Set(statuses)).toEqual(new Set([201, 507]));
      const { bytes } = await stored(web.id);
      expect(bytes).toBeGreaterThan(8000);
      expect(bytes).toBeLessThanOrEqual(20_480);
    });

    test('is charged for the growth of its tokens, also if others change them', async () => {
      const { application, create, patch, stored } = on;
      const [maker, other] = [await application(), await application()];
      const created = (await create(maker, 'x'.repeat(6000))).body;
      const rejected = await patch(other, created.id, 'x'.repeat(21_000));
      expect([rejected.status, rejected.body.code]).toEqual([507, 'storage_full']);
      expect((await patch(other, created.id, 'x'.repeat(12_000))).status).toBe(200);
      const large = (await stored(maker.id)).bytes;
      expect([large > 12_000, large < 16_000]).toEqual([true, true]);
      expect((await patch(other, created.id, 'x')).status).toBe(200);
      expect((await stored(maker.id)).bytes).toBeLessThan(2000);
      expect(await stored(other.id)).toEqual({ tokens: 0, bytes: 0 });
    });

    /** Sends the request with new idempotency keys until the quota is reached. Returns how often it succeeded. */
    async function fill(send: (headers: Record<string, string>) => ReturnType<TestServer['call']>) {
      for (let count = 0; count < 100; count++) {
        const { status, body } = await send({ 'Idempotency-Key': crypto.randomUUID() });
        if (status >= 300) {
          expect([status, body.code]).toEqual([507, 'storage_full']);
          return count;
        }
      }
      throw new Error('the quota was not reached');
    }

    test('uses it also for idempotency records, which do not contain the token', async () => {
      const { server, application, create, sessionOf, stored } = on;
      const [maker, web] = [await application(), await application({ type: 'public' })];
      const metadata = Object.fromEntries(Array.from({ length: 50 }, (_, n) => [`m${n}`, 'x'.repeat(200)]));
      const { id } = (await create(maker, 'x', { metadata })).body;
      const session = await sessionOf(web);
      const patch = (headers: Record<string, string>) =>
        server.call('PATCH', `/tokens/${id}`, { key: session.key, body: { type: 'card' }, headers });
      const count = await fill(patch);
      expect(count).toBeGreaterThanOrEqual(20);
      expect(await stored(web.id)).toMatchObject({ tokens: 0 });
      expect((await stored(web.id)).bytes).toBeGreaterThan(19_000);
      expect((await stored(web.id)).bytes).toBeLessThanOrEqual(20_480);
      server.clock.advance(1000);
      expect((await create(web, 'x')).status).toBe(507);
      expect((await patch({})).status).toBe(200);
    });

    test('gets the space of idempotency records back after a day', async () => {
      const { server, application, create, stored } = on;
      const maker = await application();
      const { id } = (await create(maker, 'x', { type: 'card' })).body;
      const before = await stored(maker.id);
      await fill((headers) =>
        server.call('PATCH', `/tokens/${id}`, { key: maker.key, body: { type: 'card' }, headers }),
      );
      server.clock.advance(86_400_000);
      while ((await server.app.maintenance.sweep(100)) > 0);
      expect(await stored(maker.id)).toEqual(before);
    });

    test('can still revoke, quarantine, delete and authorize after it has reached it', async () => {
      const { server, key, application, stored } = on;
      const manager = await server.application(key, {
        type: 'management',
        permissions: ['application:create', 'application:update', 'application:delete', 'session:delete'],
      });
      const [web, other] = [await application({ type: 'public' }), await application()];
      const sessions = await Promise.all(
        ['a', 'b'].map(async () => (await server.call('POST', '/sessions', { key: web.key })).body),
      );
      const created: string[] = [];
      await fill(async (headers) => {
        const body = { name: 'x', type: 'private', permissions: ['mine:x'] };
        const answer = await server.call('POST', '/applications', { key: manager.key, body, headers });
        created.push(answer.body.id);
        return answer;
      });
      const full = (await stored(manager.id)).bytes;
      const send = (method: string, path: string, body?: object) =>
        server.call(method, path, {
          key: manager.key,
          body,
          headers: { 'Idempotency-Key': crypto.randomUUID() },
        });
      const { body: keys } = await server.call('GET', `/applications/${other.id}/keys`, { key });
      for (const [method, path, body] of [
        ['POST', '/sessions/authorize', { nonce: sessions[0].nonce, permissions: ['mine:x'] }],
        ['POST', `/applications/${web.id}/quarantine`],
        ['DELETE', `/applications/${web.id}/quarantine`],
        ['DELETE', `/applications/${other.id}/keys/${keys.data[0].id}`],
        ['POST', `/applications/${other.id}/regenerate`],
        ['DELETE', `/applications/${created[0]}`],
      ] as const)
        expect([path, (await send(method, path, body)).status < 300]).toEqual([path, true]);
      expect((await stored(manager.id)).bytes).toBeGreaterThan(full);
    });
  });

  test('has no limits if they are 0', async () => {
    const { application, create } = await opened({
      SALLYPORT_TOKENS_PER_MINUTE: '0',
      SALLYPORT_TOKEN_BYTES_PER_MINUTE: '0',
      SALLYPORT_TOKEN_BYTES_PER_APPLICATION: '0',
    });
    const created = await create(await application(), 'x');
    expect(created.status).toBe(201);
    expect(created.headers.get('ratelimit')).toBeNull();
  });
});
