import { describe, expect, test } from 'bun:test';
import type { Route } from '../../../src/http/pipeline/route.ts';
import {
  authenticatedRoutes,
  type Caller,
  callers,
  collectionOf,
  refusalFor,
  routeCaller,
  routesWithId,
  statusesById,
  statusFor,
  type Tenant,
} from '../../support/route-access.ts';
import { databases, openTestServer } from '../../support/test-server.ts';

describe.each(databases)('isolation on %s', async (_, database) => {
  const server = await openTestServer(database);
  const keys = new Map<Caller, string | undefined>();

  const { callRoute, keyOf, session, createEntity } = routeCaller((...asked) => server.call(...asked));

  /** The tenant of all requests that change nothing, and its keys. */
  const reading: Tenant = await server.tenant();
  for (const caller of callers) keys.set(caller, await keyOf(caller, reading));

  test.each(authenticatedRoutes.map((route) => [route.name, route] as const))(
    '%s accepts only the keys that it is for',
    async (_name, route) => {
      const tenant = route.kind === 'change' ? await server.tenant() : reading;
      // A request that is refused leaves its entity to the next one.
      let entity = '';
      for (const caller of callers) {
        const key = tenant === reading ? keys.get(caller) : await keyOf(caller, tenant);
        if (route.path.includes(':') && entity === '') entity = await createEntity(route, tenant);
        const { status, body } = await callRoute(route, key, entity, tenant);
        const expected = { caller, status: statusFor(route, caller), errors: undefined };
        expect({ caller, status, errors: body.errors }).toEqual(expected);
        if (status === 403) {
          const [code, named] = refusalFor(route, caller);
          expect([caller, body.code, body.detail]).toEqual([caller, code, expect.stringContaining(named)]);
        }
        if (status < 300) entity = '';
      }
    },
  );

  test.each(routesWithId.map((route) => [route.name, route] as const))(
    '%s finds only existing resources of the same tenant',
    async (_name, route) => {
      const [mine, theirs] = [await server.tenant(), await server.tenant()];
      const where = collectionOf(route);
      const foreign = await createEntity(route, theirs);
      const gone = await createEntity(route, mine);
      await server.call('DELETE', `${where}/${gone}`, { key: mine.key });
      const before = await server.call('GET', `${where}?id=${foreign}`, { key: theirs.key });
      expect(before.body.data).toHaveLength(1);
      const ids = [await createEntity(route, mine), foreign, crypto.randomUUID(), gone, '!'];
      const answers = [];
      for (const id of ids)
        answers.push(await callRoute(route, mine.key, id, mine, id === foreign ? theirs : mine));
      expect(answers.map(({ status }) => status)).toEqual(statusesById(route));

      const [, ofForeign, ofUnknown, ofGone] = answers.map(({ body }) => ({
        ...body,
        instance: undefined,
        request_id: undefined,
      }));
      expect(ofForeign).toEqual(ofUnknown);
      expect(ofGone).toEqual(ofUnknown);
      expect((await server.call('GET', `${where}?id=${foreign}`, { key: theirs.key })).body).toEqual(
        before.body,
      );
    },
  );

  test.each(['/applications', '/sessions', '/tokens'])(
    'a list of %s contains only resources of the same tenant',
    async (path) => {
      const [mine, theirs] = [await server.tenant(), await server.tenant()];
      const route = authenticatedRoutes.find((each) => each.path === path) as Route;
      const [own, foreign] = [await createEntity(route, mine), await createEntity(route, theirs)];
      const { body } = await server.call('GET', `${path}?id=${own},${foreign}`, { key: mine.key });
      expect(body.data.map(({ id }: { id: string }) => id)).toEqual([own]);
      expect(body.pagination.total_items).toBe(1);
      const all = await server.call('GET', path, { key: mine.key });
      for (const { tenant_id } of all.body.data) expect(tenant_id).toBe(mine.id);
    },
  );

  test('a new resource belongs to the tenant of the key, also if a session creates it', async () => {
    const tenant = await server.tenant();
    const key = await keyOf('session', tenant);
    const { body } = await server.call('POST', '/tokens', { key, body: { data: 'x' } });
    expect(body.tenant_id).toBe(tenant.id);
    const own = await server.call('GET', '/applications/key', { key });
    expect(body.created_by).toBe(own.body.id);
  });

  test('a session cannot be authorized or checked by another tenant', async () => {
    const [mine, theirs] = [await server.tenant(), await server.tenant()];
    const { nonce, session_key } = await session(theirs);
    const grant = { nonce, permissions: ['mine:x'] };
    expect((await server.call('POST', '/sessions/authorize', { key: mine.key, body: grant })).status).toBe(
      404,
    );
    await server.call('POST', '/sessions/authorize', { key: theirs.key, body: grant });
    const question = { credential: session_key, permission: 'mine:x' };
    const ask = async (key: string) =>
      (await server.call('POST', '/decisions', { key, body: question })).body;
    expect((await ask(theirs.key)).allowed).toBe(true);
    const { allowed, principal, trace } = await ask(mine.key);
    expect({ allowed, principal, trace }).toEqual({ allowed: false, principal: undefined, trace: undefined });
  });

  test('two tenants may use the same token id', async () => {
    const tenants = [await server.tenant(), await server.tenant()];
    for (const [at, { key }] of tenants.entries()) {
      const body = { id: 'shared', data: 'x', mask: `of ${at}` };
      expect((await server.call('POST', '/tokens', { key, body })).status).toBe(201);
    }
    await server.call('DELETE', '/tokens/shared', { key: tenants[0]?.key });
    const { body } = await server.call('GET', '/tokens/shared', { key: tenants[1]?.key });
    expect(body.data).toBe('of 1');
  });
});
