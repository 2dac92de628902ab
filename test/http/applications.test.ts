import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { databases, openWorld, type World } from '../support/world.ts';

describe.each(databases)('Applications over HTTP on %s', (_, database) => {
  let world: World;
  beforeAll(async () => {
    world = await openWorld(database);
  });
  afterAll(() => world.close());

  test('the first start makes a management key that may do everything', async () => {
    const { key } = await world.tenant();
    const { status, body } = await world.call('GET', '/applications/key', { key });
    expect(status).toBe(200);
    expect(body.type).toBe('management');
    expect(body).not.toHaveProperty('key');
  });

  test('a created Application shows its key once, and the key works', async () => {
    const { key, id } = await world.tenant();
    const made = await world.application(key, {
      name: 'backend',
      permissions: ['application:read', 'token:read'],
    });
    expect(made).toMatchObject({ tenant_id: id, name: 'backend', type: 'private', rules: [] });
    const { body } = await world.call('GET', '/applications/key', { key: made.key });
    const { key: _key, ...rest } = made;
    expect(body).toEqual(rest);
  });

  test('a Session is authorized once', async () => {
    const { key } = await world.tenant();
    const web = await world.application(key, { type: 'public', permissions: ['token:create'] });
    const session = await world.call('POST', '/sessions', { key: web.key });
    expect(session.status).toBe(201);
    const before = await world.call('GET', '/applications/key', { key: session.body.session_key });
    expect(before.status).toBe(403);
    const body = { nonce: session.body.nonce, permissions: ['application:read'] };
    const first = await world.call('POST', '/sessions/authorize', { key, body });
    expect(first.status).toBe(204);
    const again = await world.call('POST', '/sessions/authorize', { key, body });
    expect(again.status).toBe(409);
    const after = await world.call('GET', '/applications/key', { key: session.body.session_key });
    expect(after.body.id).toBe(web.id);
    world.clock.advance(180_000);
    const expired = await world.call('GET', '/applications/key', { key: session.body.session_key });
    expect(expired.status).toBe(401);
  });
});
