/** The audit entries of denials: what was denied, why, and what is missing. */
import { describe, expect, test } from 'bun:test';
import { databases, openTestServer } from '../../support/test-server.ts';

const all = ['token:read', 'token:update', 'token:delete', 'token:create'];
const rule = { priority: 1, container: '/other/', transform: 'mask', permissions: all };

describe.each(databases)('the entry of a denial on %s', async (_, database) => {
  const server = await openTestServer(database);
  const { key: management } = await server.tenant();
  const desk: { id: string; key: string } = await server.application(management, {
    permissions: [],
    rules: [rule],
  });
  for (const [id, container] of [
    ['card-1', '/cards/42/'],
    ['card-2', '/cards/42/'],
    ['mine', '/other/'],
  ])
    await server.call('POST', '/tokens', {
      key: management,
      body: { id, container, data: { a: 1 }, mask: 'm' },
    });

  /** The entries of denials since the last call. */
  const denials = async (key = management) => {
    await server.flush();
    const known = seen.size;
    const { body } = await server.call('GET', '/logs?result=denied&size=100', { key });
    const entries = body.data.filter(({ id }: { id: string }) => !seen.has(id));
    for (const { id } of entries) seen.add(id);
    expect(seen.size).toBeGreaterThan(known);
    return entries;
  };
  const seen = new Set<string>();
  type Entry = { resource: { ids: string[] } };

  test('about a stored token has its container, which the response does not tell', async () => {
    for (const id of ['card-1', 'card-2', 'card-1']) {
      const { status, body } = await server.call('GET', `/tokens/${id}`, { key: desk.key });
      expect([status, JSON.stringify(body).includes('/cards/')]).toEqual([403, false]);
    }
    expect(await denials()).toMatchObject([
      {
        actor: { kind: 'application', id: desk.id },
        operation: 'token.read',
        reason: 'permission_missing',
        resource: { ids: ['card-1', 'card-2'], container: '/cards/42/' },
        decision: {
          reason: 'rule 1 grants token:read but does not match: container /cards/42/ is not in /other/',
          missing: { permission: 'token:read', container: '/cards/42/' },
          rule: { of: 'application', rule: 1 },
        },
        count: 3,
      },
    ]);
  });

  test('about a container in the request names that container, and no generated id', async () => {
    const body = { container: '/Cards/', data: 1 };
    await server.call('POST', '/tokens', { key: desk.key, body });
    const [entry] = await denials();
    expect(entry.resource).toEqual({ container: '/cards/' });
    expect(entry.decision.missing).toEqual({ permission: 'token:create', container: '/Cards/' });
  });

  test('about a move has the container of the token, and the missing grant on the other container', async () => {
    await server.call('PATCH', '/tokens/mine', { key: desk.key, body: { container: '/cards/' } });
    expect(await denials()).toMatchObject([
      {
        operation: 'token.update',
        resource: { ids: ['mine'], container: '/other/' },
        decision: { missing: { permission: 'token:update', container: '/cards/' } },
      },
    ]);
  });

  test('about a permission that the key does not have anywhere says so', async () => {
    await server.call('DELETE', '/applications/no-such-id', { key: desk.key });
    expect(await denials()).toMatchObject([
      {
        resource: { ids: ['no-such-id'] },
        decision: {
          reason: 'this application does not have application:delete in its permissions or rules',
          missing: { permission: 'application:delete' },
        },
      },
    ]);
  });

  test('about a permission that the key does not have anywhere has the container of the token', async () => {
    const idle = await server.application(management, { permissions: ['nothing:much'] });
    const get = (id: string, purpose: string) =>
      server.call('GET', `/tokens/${id}`, { key: idle.key, headers: { 'SVC-PURPOSE': purpose } });
    for (let i = 0; i < 30; i++) await get(`none-${i}`, `purpose ${i}`);
    const { body } = await get('card-1', 'audit');
    expect(JSON.stringify(body)).not.toContain('/cards/');
    const [stored, unknown, ...others] = await denials();
    expect(others).toEqual([]);
    expect(stored).toMatchObject({
      resource: { ids: ['card-1'], container: '/cards/42/' },
      decision: {
        reason: 'this application does not have token:read in its permissions or rules',
        missing: { permission: 'token:read', container: '/cards/42/' },
      },
      purpose: 'audit',
    });
    expect(unknown).toMatchObject({ count: 30, resource: { omitted: 10 }, purpose: 'purpose 0' });
    expect(unknown.resource.container).toBeUndefined();
  });

  test('of a key without the permission has the container that the request named', async () => {
    const idle = await server.application(management, { permissions: ['nothing:much'] });
    const { key } = idle;
    const create = (body: unknown) => server.call('POST', '/tokens', { key, body });
    await create({ id: 'new-1', container: '/Cards/', data: 'x' });
    await create({ containers: ['/cards'], data: 'x' });
    await create({ data: 'x' });
    await create({ container: '//', data: 'x' });
    await create({ container: '/large/', data: 'x'.repeat(70_000) });
    await server.call('GET', '/tokens?container=/cards/&id=none-1,none-2', { key });
    await server.call('GET', '/tokens?id=card-1,none-1,card-2', { key });
    const resources = (await denials()).map(({ resource }: { resource: unknown }) => resource);
    expect(resources).toHaveLength(5);
    for (const resource of [
      { ids: ['new-1'], container: '/cards/' },
      { container: '/general/' },
      undefined,
      { ids: ['none-1', 'none-2'], container: '/cards/' },
      { ids: ['card-1', 'card-2'], container: '/cards/42/', omitted: 1 },
    ])
      expect(resources).toContainEqual(resource);
  });

  test('about a change that needs reveal names the rule that limits the transform', async () => {
    await server.call('PATCH', '/tokens/mine', { key: desk.key, body: { mask: 'x' } });
    expect(await denials()).toMatchObject([
      {
        operation: 'token.update',
        reason: 'reveal_required',
        resource: { ids: ['mine'], container: '/other/' },
        decision: {
          reason:
            'the change needs token:update with the transform reveal, but rule 1 grants token:update with the transform mask: container is /other/',
          rule: { of: 'application', rule: 1 },
          missing: { permission: 'token:update', container: '/other/', transform: 'reveal' },
        },
      },
    ]);
  });

  test('about a token of others has its id, also after many denials about own tokens', async () => {
    const write = { priority: 1, container: '/cards/', permissions: ['token:create'], transform: 'mask' };
    const shop = await server.application(management, { permissions: [], rules: [write] });
    const own = Array.from({ length: 25 }, (_, number) => `own-${number}`);
    for (const id of own)
      await server.call('POST', '/tokens', { key: shop.key, body: { id, container: '/cards/42/', data: 1 } });
    for (const id of [...own, 'card-1']) await server.call('GET', `/tokens/${id}`, { key: shop.key });
    await server.call('GET', `/tokens?id=${own.join(',')},card-2`, { key: shop.key });
    const entries = await denials();
    const idsOf = (id: string) => entries.find(({ resource }: Entry) => resource.ids.includes(id))?.resource;
    expect(idsOf('card-1')).toEqual({
      ids: ['card-1', 'card-2'],
      container: '/cards/42/',
      omitted: 25,
    });
    expect(idsOf('own-0')).toMatchObject({ omitted: 5 });
  });

  test('by the ceiling of a session names the authorizer', async () => {
    const web = await server.application(management, { type: 'public' });
    const { body } = await server.call('POST', '/sessions', { key: web.key });
    const grant = { nonce: body.nonce, permissions: ['token:read'] };
    await server.call('POST', '/sessions/authorize', { key: desk.key, body: grant });
    await server.call('GET', '/tokens/card-1', { key: body.session_key });
    expect(await denials()).toMatchObject([
      {
        actor: { kind: 'session', application_id: web.id, authorized_by: desk.id },
        decision: {
          reason:
            'this key is limited by its authorizer, whose rule 1 grants token:read but does not match: container /cards/42/ is not in /other/',
          rule: { of: 'authorizer', rule: 1 },
          missing: { permission: 'token:read', container: '/cards/42/' },
        },
      },
    ]);
  });

  test('about the origin or the type of key has a reason', async () => {
    const web = await server.application(management, {
      type: 'public',
      allowed_origins: ['https://shop.example'],
    });
    const headers = { Origin: 'https://other.example' };
    await server.call('POST', '/sessions', { key: web.key, headers });
    await server.call('POST', '/sessions', { key: desk.key });
    const reasons = (await denials()).map((entry: { decision: { reason: string } }) => entry.decision.reason);
    expect(reasons.sort()).toEqual([
      'the origin https://other.example is not in allowed_origins of the application',
      'this operation requires the key of a public application, and this is the key of a private application',
    ]);
  });
});
