import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { builtIn, hasTrait } from '../../../src/domain/permission.ts';
import { type ApiResponse, openTestServer, sqlite } from '../../support/test-server.ts';

const management: string[] = builtIn.filter((name) => hasTrait(name, 'management'));
const free = [...builtIn.filter((name) => !hasTrait(name, 'management')), 'mine:x'];
const plain = free.filter((name) => !hasTrait(name, 'destination'));
const byRule = (permissions: string[]) => ({
  rules: [
    {
      priority: 1,
      container: '/a/',
      transform: 'mask',
      permissions,
      ...(permissions.includes('token:use') && { destinations: [crypto.randomUUID()] }),
    },
  ],
});

function managementOf({ permissions, rules }: ApiResponse['body']): string[] {
  const all = [permissions, ...rules.map((rule: { permissions: string[] }) => rule.permissions)].flat();
  return all.filter((name) => management.includes(name));
}

describe('privilege escalation', async () => {
  const server = await openTestServer(sqlite);
  const key = (await server.tenant()).key;

  const create = (as: string, grants: object) =>
    server.call('POST', '/applications', { key: as, body: { name: 'x', type: 'private', ...grants } });
  const update = (as: string, id: string, grants: object) =>
    server.call('PUT', `/applications/${id}`, { key: as, body: { name: 'x', ...grants } });
  const regenerate = (as: string, id: string) =>
    server.call('POST', `/applications/${id}/regenerate`, { key: as });

  function expectRefused({ status, body }: ApiResponse, permission: string): void {
    expect([status, body.code]).toEqual([403, 'grant_not_held']);
    expect(body.detail).toContain(permission);
  }

  test.each(management.filter((name) => name !== 'application:create'))(
    'a create cannot grant %s without holding it',
    async (permission) => {
      const deputy = await server.application(key, { permissions: ['application:create'] });
      expectRefused(await create(deputy.key, { permissions: ['token:read', permission] }), permission);
      expectRefused(await create(deputy.key, byRule([permission])), permission);
      const holder = await server.application(key, { permissions: ['application:create', permission] });
      expect((await create(holder.key, { permissions: [permission] })).status).toBe(201);
      expect((await create(holder.key, byRule([permission]))).status).toBe(201);
    },
  );

  test('a create or update can grant token and custom permissions', async () => {
    const deputy = await server.application(key, {
      permissions: ['application:create', 'application:update'],
    });
    const created = await create(deputy.key, { permissions: plain, ...byRule(free) });
    expect(created.status).toBe(201);
    expect((await update(deputy.key, created.body.id, { permissions: plain })).status).toBe(200);
  });

  test('a permission held by a rule can be granted', async () => {
    const deputy = await server.application(key, {
      permissions: ['application:create'],
      ...byRule(['log:read']),
    });
    expect((await create(deputy.key, { permissions: ['log:read'] })).status).toBe(201);
  });

  test('an update is denied if the application has or gets a management permission that the caller lacks', async () => {
    const deputy = await server.application(key, { permissions: ['application:update', 'token:read'] });
    const plain = await server.application(key);
    const strong = await server.application(key, { permissions: ['token:read', 'log:read'] });
    expectRefused(await update(deputy.key, plain.id, { permissions: ['log:read'] }), 'log:read');
    expectRefused(await update(deputy.key, strong.id, { permissions: ['token:read'] }), 'log:read');
    expectRefused(await update(deputy.key, strong.id, { permissions: strong.permissions }), 'log:read');
    expectRefused(await update(deputy.key, deputy.id, { permissions: management }), 'application:create');
    const { body } = await server.call('GET', `/applications/${strong.id}`, { key });
    expect(body.permissions).toEqual(strong.permissions);
    expect(body).not.toHaveProperty('modified_at');
  });

  test('regenerating is denied for an application with more management permissions', async () => {
    const deputy = await server.application(key, { permissions: ['application:update'] });
    const strong = await server.application(key, { permissions: ['application:read', 'tenant:read'] });
    expectRefused(await regenerate(deputy.key, strong.id), 'application:read');
    expect((await server.call('GET', '/applications/key', { key: strong.key })).status).toBe(200);
    const ruled = await server.application(key, { permissions: undefined, ...byRule(['tenant:read']) });
    expectRefused(await regenerate(deputy.key, ruled.id), 'tenant:read');
    const equal = await server.application(key, { permissions: ['application:update', 'token:read'] });
    expect((await regenerate(deputy.key, equal.id)).status).toBe(200);
  });

  test('no random sequence of requests gives a key more than the first one had', async () => {
    const some = (of: string[]) => fc.subarray(of, { minLength: 1 });
    const grants = fc.oneof(
      some([...management, ...free]).map((permissions) => ({ permissions })),
      some([...management, ...free]).map(byRule),
    );
    const request = fc.record({
      as: fc.nat(),
      on: fc.nat(),
      what: fc.constantFrom('create', 'update', 'regenerate', 'session'),
      grants,
    });
    await fc.assert(
      fc.asyncProperty(some(management), fc.array(request, { maxLength: 15 }), async (held, requests) => {
        const { key: owner } = await server.tenant();
        const first = await server.application(owner, { permissions: [...held, 'token:read'] });
        const others = [await server.application(owner, { permissions: management }), first];
        const web = await server.application(owner, { type: 'public' });
        const keys: string[] = [first.key];
        for (const { as, on, what, grants } of requests) {
          const mine = keys[as % keys.length] as string;
          const target = others[on % others.length].id as string;
          const { status, body } = await attempt(what, mine, target, grants, web.key);
          if (status === 201) others.push(body);
          if (status === 200 || status === 201) keys.push(...(body.key ? [body.key] : []));
          if (status === 204) keys.push(body);
        }
        const grantsAll = held.includes('session:authorize') || held.includes('application:create');
        for (const mine of keys) {
          const { status, body } = await server.call('GET', '/applications/key', { key: mine });
          if (status !== 200) continue;
          if (mine.startsWith('slp_ses_')) expect(grantsAll || held.includes('application:read')).toBe(true);
          else expect(held).toEqual(expect.arrayContaining(managementOf(body)));
        }
      }),
      { seed: 7, numRuns: 40 },
    );
  });

  async function attempt(what: string, as: string, id: string, grants: object, web: string) {
    if (what === 'create') return create(as, grants);
    if (what === 'update') return update(as, id, grants);
    if (what === 'regenerate') return regenerate(as, id);
    const { session_key, nonce } = (await server.call('POST', '/sessions', { key: web })).body;
    const body = { nonce, permissions: ['application:read'] };
    const { status } = await server.call('POST', '/sessions/authorize', { key: as, body });
    return { status, body: session_key };
  }
});
