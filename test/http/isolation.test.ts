import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { builtIn } from '../../src/domain/permission.ts';
import type { Route } from '../../src/http/route.ts';
import { routes } from '../../src/http/routes.ts';
import { type Answer, databases, openWorld, type World } from '../support/world.ts';

/** Every caller holds all that its kind may hold; `idle` is a Session that nobody has authorized. */
const callers = ['nobody', 'management', 'private', 'public', 'session', 'idle'] as const;
type Caller = (typeof callers)[number];

/** What each of the callers gets from each route, by the route's name. */
const byCaller: Record<string, number[]> = {
  createApplication: [401, 201, 201, 403, 403, 403],
  listApplications: [401, 200, 200, 200, 200, 403],
  getApplicationByKey: [401, 200, 200, 200, 200, 403],
  getApplication: [401, 200, 200, 200, 200, 403],
  updateApplication: [401, 200, 200, 403, 403, 403],
  regenerateKey: [401, 200, 200, 403, 403, 403],
  deleteApplication: [401, 204, 204, 403, 403, 403],
  createKey: [401, 201, 201, 403, 403, 403],
  listKeys: [401, 200, 200, 200, 200, 403],
  deleteKey: [401, 204, 204, 403, 403, 403],
  getUsage: [401, 200, 200, 200, 200, 403],
  createSession: [401, 403, 403, 201, 403, 403],
  authorizeSession: [401, 204, 204, 403, 403, 403],
  listSessions: [401, 200, 200, 200, 200, 403],
  endSession: [401, 204, 204, 403, 403, 403],
  createToken: [401, 201, 201, 201, 201, 403],
  listTokens: [401, 200, 200, 200, 200, 403],
  getToken: [401, 200, 200, 200, 200, 403],
  updateToken: [401, 200, 200, 200, 200, 403],
  deleteToken: [401, 204, 204, 204, 204, 403],
  decide: [401, 200, 200, 200, 200, 403],
  getTenant: [401, 200, 200, 200, 200, 403],
  listLogs: [401, 200, 200, 200, 200, 403],
};

/** What a management key gets from each route with an id: its own, another tenant's, unknown, gone, malformed. */
const byId: Record<string, number[]> = {
  getApplication: [200, 404, 404, 404, 400],
  updateApplication: [200, 404, 404, 404, 400],
  regenerateKey: [200, 404, 404, 404, 400],
  deleteApplication: [204, 404, 404, 404, 400],
  createKey: [201, 404, 404, 404, 400],
  listKeys: [200, 404, 404, 404, 400],
  deleteKey: [204, 404, 404, 404, 400],
  getUsage: [200, 404, 404, 404, 400],
  endSession: [204, 404, 404, 404, 400],
  getToken: [200, 404, 404, 404, 400],
  updateToken: [200, 404, 404, 404, 400],
  deleteToken: [204, 404, 404, 404, 400],
};

const roomOf = ({ path }: Route) => `/${path.split('/')[1]}`;
const guarded = routes.filter(({ kind }) => kind !== 'open');
const inBrowser = builtIn.filter(
  (name) => !/^(application:(create|update|delete)|session:(authorize|delete))$/.test(name),
);

describe('the tables of this test', () => {
  test('have a row for every guarded route, and for every one with an id', () => {
    const names = (all: readonly Route[]) => all.map(({ name }) => name).sort();
    expect(Object.keys(byCaller).sort()).toEqual(names(guarded));
    expect(Object.keys(byId).sort()).toEqual(names(routes.filter(({ path }) => path.includes(':'))));
  });
});

describe.each(databases)('isolation on %s', (_, database) => {
  let world: World;
  beforeAll(async () => {
    world = await openWorld(database);
  });
  afterAll(() => world.close());

  interface Tenant {
    readonly id: string;
    readonly key: string;
  }

  async function session(
    tenant: Tenant,
    permissions?: string[],
  ): Promise<{ session_key: string; nonce: string }> {
    const web = await world.application(tenant.key, { type: 'public' });
    const { body } = await world.call('POST', '/sessions', { key: web.key });
    const grant = { key: tenant.key, body: { nonce: body.nonce, permissions } };
    if (permissions) await world.call('POST', '/sessions/authorize', grant);
    return body;
  }

  async function keyOf(caller: Caller, tenant: Tenant): Promise<string | undefined> {
    if (caller === 'nobody') return undefined;
    if (caller === 'session') return (await session(tenant, inBrowser)).session_key;
    if (caller === 'idle') return (await session(tenant)).session_key;
    const permissions = caller === 'public' ? inBrowser : builtIn;
    return (await world.application(tenant.key, { type: caller, permissions })).key;
  }

  /** Something of the tenant's that the route is about: an Application, a Session or a Token. */
  async function thingFor(route: Route, tenant: Tenant): Promise<string> {
    const { key } = tenant;
    if (roomOf(route) === '/sessions') {
      await session(tenant);
      return (await world.call('GET', '/sessions', { key })).body.data[0].id;
    }
    if (!route.path.startsWith('/tokens')) return (await world.application(key)).id;
    return (await world.call('POST', '/tokens', { key, body: { data: 'x' } })).body.id;
  }

  async function bodyFor({ name }: Route, tenant: Tenant): Promise<unknown> {
    const grants = { permissions: ['mine:x'] };
    if (name === 'createApplication') return { name: 'x', type: 'private', ...grants };
    if (name === 'updateApplication') return { name: 'x', ...grants };
    if (name === 'authorizeSession') return { nonce: (await session(tenant)).nonce, ...grants };
    if (name === 'createToken') return { data: 'x' };
    if (name === 'updateToken') return { metadata: { a: 'b' } };
    if (name === 'decide') return { credential: tenant.key, permission: 'mine:x' };
    return undefined;
  }

  /** The path of the thing, and of a key of it where the route is about one. */
  async function pathFor({ path }: Route, id: string, owner: Tenant): Promise<string> {
    if (!path.includes(':key_id')) return path.replace(':id', id);
    const { body } = await world.call('GET', `/applications/${id}/keys`, { key: owner.key });
    return path.replace(':id', id).replace(':key_id', body.data?.[0].id ?? crypto.randomUUID());
  }

  const call = async (
    route: Route,
    key: string | undefined,
    id: string,
    tenant: Tenant,
    owner = tenant,
  ): Promise<Answer> =>
    world.call(route.method, await pathFor(route, id, owner), { key, body: await bodyFor(route, tenant) });

  test.each(guarded.map((route) => [route.name, route] as const))(
    '%s is open to the keys it is for, and to no others',
    async (name, route) => {
      const tenant = await world.tenant();
      const statuses = [];
      for (const caller of callers) {
        const key = await keyOf(caller, tenant);
        statuses.push((await call(route, key, await thingFor(route, tenant), tenant)).status);
      }
      expect(statuses).toEqual(byCaller[name] as number[]);
    },
  );

  test.each(routes.filter(({ path }) => path.includes(':')).map((route) => [route.name, route] as const))(
    '%s finds what is the tenant’s own and there, and tells nothing of anything else',
    async (name, route) => {
      const [mine, theirs] = [await world.tenant(), await world.tenant()];
      const where = roomOf(route);
      const foreign = await thingFor(route, theirs);
      const gone = await thingFor(route, mine);
      await world.call('DELETE', `${where}/${gone}`, { key: mine.key });
      const before = await world.call('GET', `${where}?id=${foreign}`, { key: theirs.key });
      expect(before.body.data).toHaveLength(1);
      const ids = [await thingFor(route, mine), foreign, crypto.randomUUID(), gone, '!'];
      const answers = [];
      for (const id of ids)
        answers.push(await call(route, mine.key, id, mine, id === foreign ? theirs : mine));
      expect(answers.map(({ status }) => status)).toEqual(byId[name] as number[]);

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
    'a list of %s shows the tenant’s own alone',
    async (path) => {
      const [mine, theirs] = [await world.tenant(), await world.tenant()];
      const route = guarded.find((each) => each.path === path) as Route;
      const [own, foreign] = [await thingFor(route, mine), await thingFor(route, theirs)];
      const { body } = await world.call('GET', `${path}?id=${own},${foreign}`, { key: mine.key });
      expect(body.data.map(({ id }: { id: string }) => id)).toEqual([own]);
      expect(body.pagination.total_items).toBe(1);
      const all = await world.call('GET', path, { key: mine.key });
      for (const { tenant_id } of all.body.data) expect(tenant_id).toBe(mine.id);
    },
  );

  test('what is made belongs to the tenant of the key, also when a Session makes it', async () => {
    const tenant = await world.tenant();
    const key = await keyOf('session', tenant);
    const { body } = await world.call('POST', '/tokens', { key, body: { data: 'x' } });
    expect(body.tenant_id).toBe(tenant.id);
    const own = await world.call('GET', '/applications/key', { key });
    expect(body.created_by).toBe(own.body.id);
  });

  test('a Session of one tenant cannot be authorized, nor its key judged, by another', async () => {
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
    expect({ allowed, principal, trace }).toEqual({ allowed: false, principal: undefined, trace: [] });
  });

  test('two tenants may give their Tokens the same id', async () => {
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
