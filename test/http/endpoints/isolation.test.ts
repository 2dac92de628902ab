import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import type { Route } from '../../../src/http/pipeline/route.ts';
import {
  authenticatedRoutes,
  callers,
  collectionOf,
  routeCaller,
  routesWithId,
  statusByCaller,
  statusById,
} from '../../support/route-access.ts';
import { databases, openTestServer, type TestServer } from '../../support/test-server.ts';

describe('the tables of these tests', () => {
  test('cover every authenticated route and every route with an id', () => {
    const names = (all: readonly Route[]) => all.map(({ name }) => name).sort();
    expect(Object.keys(statusByCaller).sort()).toEqual(names(authenticatedRoutes));
    expect(Object.keys(statusById).sort()).toEqual(names(routesWithId));
  });
});

describe.each(databases)('isolation on %s', (_, database) => {
  let world: TestServer;
  beforeAll(async () => {
    world = await openTestServer(database);
  });
  afterAll(() => world.close());

  const { callRoute, keyOf, session, createEntity } = routeCaller((...asked) => world.call(...asked));

  test.each(authenticatedRoutes.map((route) => [route.name, route] as const))(
    '%s accepts only the keys that it is for',
    async (name, route) => {
      const tenant = await world.tenant();
      const statuses = [];
      for (const caller of callers) {
        const key = await keyOf(caller, tenant);
        statuses.push((await callRoute(route, key, await createEntity(route, tenant), tenant)).status);
      }
      expect(statuses).toEqual(statusByCaller[name] as number[]);
    },
  );

  test.each(routesWithId.map((route) => [route.name, route] as const))(
    '%s finds only existing resources of the same tenant',
    async (name, route) => {
      const [mine, theirs] = [await world.tenant(), await world.tenant()];
      const where = collectionOf(route);
      const foreign = await createEntity(route, theirs);
      const gone = await createEntity(route, mine);
      await world.call('DELETE', `${where}/${gone}`, { key: mine.key });
      const before = await world.call('GET', `${where}?id=${foreign}`, { key: theirs.key });
      expect(before.body.data).toHaveLength(1);
      const ids = [await createEntity(route, mine), foreign, crypto.randomUUID(), gone, '!'];
      const answers = [];
      for (const id of ids)
        answers.push(await callRoute(route, mine.key, id, mine, id === foreign ? theirs : mine));
      expect(answers.map(({ status }) => status)).toEqual(statusById[name] as number[]);

      const [, ofForeign, ofUnknown, ofGone] = answers.map(({ body }) => ({
        ...body,
        instance: undefined,
        request_id: undefined,
      }));
      expect(ofForeign).toEqual(ofUnknown);
      expect(ofGone).toEqual(ofUnknown);
      expect((await world.call('GET', `${where}?id=${foreign}`, { key: theirs.key })).body).toEqual(
        before.body,
      );
    },
  );

  test.each(['/applications', '/sessions', '/tokens'])(
    'a list of %s contains only resources of the same tenant',
    async (path) => {
      const [mine, theirs] = [await world.tenant(), await world.tenant()];
      const route = authenticatedRoutes.find((each) => each.path === path) as Route;
      const [own, foreign] = [await createEntity(route, mine), await createEntity(route, theirs)];
      const { body } = await world.call('GET', `${path}?id=${own},${foreign}`, { key: mine.key });
      expect(body.data.map(({ id }: { id: string }) => id)).toEqual([own]);
      expect(body.pagination.total_items).toBe(1);
      const all = await world.call('GET', path, { key: mine.key });
      for (const { tenant_id } of all.body.data) expect(tenant_id).toBe(mine.id);
    },
  );

  test('a new resource belongs to the tenant of the key, also if a session creates it', async () => {
    const tenant = await world.tenant();
    const key = await keyOf('session', tenant);
    const { body } = await world.call('POST', '/tokens', { key, body: { data: 'x' } });
    expect(body.tenant_id).toBe(tenant.id);
    const own = await world.call('GET', '/applications/key', { key });
    expect(body.created_by).toBe(own.body.id);
  });

  test('a session cannot be authorized or checked by another tenant', async () => {
    const [mine, theirs] = [await world.tenant(), await world.tenant()];
    const { nonce, session_key } = await session(theirs);
    const grant = { nonce, permissions: ['mine:x'] };
    expect((await world.call('POST', '/sessions/authorize', { key: mine.key, body: grant })).status).toBe(
      404,
    );
    await world.call('POST', '/sessions/authorize', { key: theirs.key, body: grant });
    const question = { credential: session_key, permission: 'mine:x' };
    const ask = async (key: string) => (await world.call('POST', '/decisions', { key, body: question })).body;
    expect((await ask(theirs.key)).allowed).toBe(true);
    const { allowed, principal, trace } = await ask(mine.key);
    expect({ allowed, principal, trace }).toEqual({ allowed: false, principal: undefined, trace: undefined });
  });

  test('two tenants may use the same token id', async () => {
    const tenants = [await world.tenant(), await world.tenant()];
    for (const [at, { key }] of tenants.entries()) {
      const body = { id: 'shared', data: 'x', mask: `of ${at}` };
      expect((await world.call('POST', '/tokens', { key, body })).status).toBe(201);
    }
    await world.call('DELETE', '/tokens/shared', { key: tenants[0]?.key });
    const { body } = await world.call('GET', '/tokens/shared', { key: tenants[1]?.key });
    expect(body.data).toBe('of 1');
  });
});
