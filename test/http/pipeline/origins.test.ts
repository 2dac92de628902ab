import { describe, expect, test } from 'bun:test';
import { databases, openTestServer } from '../../support/test-server.ts';

describe.each(databases)('allowed origins on %s', async (_, database) => {
  const server = await openTestServer(database);
  const key = (await server.tenant()).key;

  const shop = 'https://shop.example';
  const fields = { name: 'shop', type: 'public', permissions: ['token:read'] };
  const create = (more: object) =>
    server.call('POST', '/applications', { key, body: { ...fields, ...more } });
  const update = (id: string, more: object) =>
    server.call('PUT', `/applications/${id}`, {
      key,
      body: { name: 'shop', permissions: ['token:read'], ...more },
    });
  const statusFrom = async (as: string, origin: string | undefined, method = 'GET', path = '/tokens') => {
    const headers = origin === undefined ? {} : { Origin: origin };
    return (await server.call(method, path, { key: as, headers })).status;
  };

  test('are returned normalized and without duplicates, and are absent by default', async () => {
    const { body } = await create({
      allowed_origins: ['HTTPS://shop.example:443', shop, 'http://localhost:3000'],
    });
    const origins = [shop, 'http://localhost:3000'];
    expect(body.allowed_origins).toEqual(origins);
    const get = await server.call('GET', `/applications/${body.id}`, { key });
    expect(get.body.allowed_origins).toEqual(origins);
    const list = await server.call('GET', `/applications?id=${body.id}`, { key });
    expect(list.body.data[0].allowed_origins).toEqual(origins);
    for (const none of [{}, { allowed_origins: [] }, { allowed_origins: null }]) {
      expect((await create(none)).body).not.toHaveProperty('allowed_origins');
    }
  });

  test('deny other origins, and allow requests without an Origin', async () => {
    const { body: web } = await create({ allowed_origins: [shop] });
    expect(await statusFrom(web.key, shop)).toBe(200);
    expect(await statusFrom(web.key, undefined)).toBe(200);
    for (const other of [
      'https://evil.example',
      'http://shop.example',
      `${shop}:8443`,
      'null',
      `${shop}, ${shop}`,
    ]) {
      expect(await statusFrom(web.key, other)).toBe(403);
    }
    expect(await statusFrom(web.key, 'https://evil.example', 'POST', '/sessions')).toBe(403);
    expect(await statusFrom(key, 'https://evil.example')).toBe(200);
  });

  test('apply to session keys, too', async () => {
    const { body: web } = await create({ allowed_origins: [shop] });
    const { body: session } = await server.call('POST', '/sessions', {
      key: web.key,
      headers: { Origin: shop },
    });
    const grant = { nonce: session.nonce, permissions: ['token:read'] };
    await server.call('POST', '/sessions/authorize', { key, body: grant });
    expect(await statusFrom(session.session_key, shop)).toBe(200);
    expect(await statusFrom(session.session_key, undefined)).toBe(200);
    expect(await statusFrom(session.session_key, 'https://evil.example')).toBe(403);
  });

  test('a denial has a reason and an audit entry', async () => {
    const { body: web } = await create({ allowed_origins: [shop] });
    const rejected = await server.call('GET', '/tokens', {
      key: web.key,
      headers: { Origin: 'https://evil.example' },
    });
    expect(rejected.body).toMatchObject({ code: 'origin_refused', status: 403 });
    await server.flush();
    const { body } = await server.call('GET', `/logs?actor=${web.id}`, { key });
    expect(body.data[0]).toMatchObject({
      operation: 'token.read',
      result: 'denied',
      reason: 'origin_refused',
    });
  });

  test('are unchanged by an update without them, replaced by one with them, and removed by an empty list', async () => {
    const { body: web } = await create({ allowed_origins: [shop] });
    for (const silent of [{}, { allowed_origins: null }]) {
      expect((await update(web.id, silent)).body.allowed_origins).toEqual([shop]);
    }
    await update(web.id, { allowed_origins: ['https://new.example'] });
    expect(await statusFrom(web.key, shop)).toBe(403);
    expect(await statusFrom(web.key, 'https://new.example')).toBe(200);
    const emptied = await update(web.id, { allowed_origins: [] });
    expect(emptied.body).not.toHaveProperty('allowed_origins');
    expect(await statusFrom(web.key, shop)).toBe(200);
    const { body } = await server.call('GET', `/logs?entity=${web.id}&operation=application.update`, { key });
    expect(body.data.map(({ difference }: { difference: object }) => difference)).toEqual([
      { allowed_origins: { from: ['https://new.example'] } },
      { allowed_origins: { from: [shop], to: ['https://new.example'] } },
      {},
      {},
    ]);
  });

  test('a fetched application can be sent back unchanged', async () => {
    const { body: web } = await create({ allowed_origins: [shop] });
    const { body } = await server.call('GET', `/applications/${web.id}`, { key });
    expect((await server.call('PUT', `/applications/${web.id}`, { key, body })).body.allowed_origins).toEqual(
      [shop],
    );
  });

  test.each(['private', 'management'])('are rejected for a %s application', async (type) => {
    const created = await create({ type, allowed_origins: [shop] });
    expect([created.status, Object.keys(created.body.errors)]).toEqual([400, ['allowed_origins']]);
    const { body } = await create({ type });
    const updated = await update(body.id, { allowed_origins: [shop] });
    expect([updated.status, Object.keys(updated.body.errors)]).toEqual([400, ['allowed_origins']]);
    expect((await update(body.id, { allowed_origins: [] })).status).toBe(200);
  });

  test.each([
    [['https://shop.example/path'], 'allowed_origins.0'],
    [[shop, '*'], 'allowed_origins.1'],
    [[7], 'allowed_origins.0'],
    [[`https://${'a'.repeat(300)}`], 'allowed_origins.0'],
    [Array.from({ length: 21 }, (_, port) => `http://localhost:${4000 + port}`), 'allowed_origins'],
    [shop, 'allowed_origins'],
  ])('invalid or too many origins are rejected: %j', async (allowed_origins, path) => {
    const { status, body } = await create({ allowed_origins });
    expect([status, Object.keys(body.errors)]).toEqual([400, [path]]);
  });
});
