import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { isRepeatable, type Route } from '../../src/http/route.ts';
import { routes } from '../../src/http/routes.ts';
import { refuseRows, rowsIn } from '../support/database.ts';
import { type CallOptions, databases, openWorld, type World } from '../support/world.ts';

interface Ready {
  readonly path?: string;
  readonly key_id?: string;
  readonly options: CallOptions;
}

const grants = { permissions: ['mine:x'] };

/** By the name of the route: a request that would change something. */
const ready: Record<string, (world: World, key: string) => Promise<Ready>> = {
  createApplication: async (_, key) => ({
    options: { key, body: { name: 'x', type: 'private', ...grants } },
  }),
  updateApplication: async (world, key) => ({
    path: (await world.application(key)).id,
    options: { key, body: { name: 'y', ...grants } },
  }),
  regenerateKey: async (world, key) => ({ path: (await world.application(key)).id, options: { key } }),
  createKey: async (world, key) => ({ path: (await world.application(key)).id, options: { key } }),
  deleteKey: async (world, key) => {
    const { id } = await world.application(key);
    const { data } = (await world.call('GET', `/applications/${id}/keys`, { key })).body;
    return { path: id, key_id: data[0].id, options: { key } };
  },
  deleteApplication: async (world, key) => ({ path: (await world.application(key)).id, options: { key } }),
  createSession: async (world, key) => ({
    options: { key: (await world.application(key, { type: 'public' })).key },
  }),
  authorizeSession: async (world, key) => {
    const { key: web } = await world.application(key, { type: 'public' });
    const { nonce } = (await world.call('POST', '/sessions', { key: web })).body;
    return { options: { key, body: { nonce, ...grants } } };
  },
  endSession: async (world, key) => {
    const { key: web } = await world.application(key, { type: 'public' });
    await world.call('POST', '/sessions', { key: web });
    const { data } = (await world.call('GET', '/sessions', { key })).body;
    return { path: data[0].id, options: { key } };
  },
  createToken: async (_, key) => ({ options: { key, body: { data: 'x' } } }),
  updateToken: async (world, key) => ({
    path: await token(world, key),
    options: { key, body: { data: 'y' } },
  }),
  deleteToken: async (world, key) => ({ path: await token(world, key), options: { key } }),
};

async function token(world: World, key: string): Promise<string> {
  return (await world.call('POST', '/tokens', { key, body: { data: 'x' } })).body.id;
}

const changing = routes.filter(({ kind }) => kind === 'change');

test('every route that changes something has its row here', () => {
  expect(Object.keys(ready).sort()).toEqual(changing.map(({ name }) => name).sort());
});

describe.each(databases)('when the audit log cannot be written on %s', (_, database) => {
  let world: World;
  beforeAll(async () => {
    world = await openWorld(database);
  });
  afterAll(() => world.close());

  /** What the same request gets while no audit row can be written, and afterwards. */
  async function refusedThenDone(route: Route, headers: Record<string, string>) {
    const { key } = await world.tenant();
    await token(world, key);
    const {
      path = '',
      key_id = '',
      options,
    } = await (ready[route.name] as (typeof ready)[string])(world, key);
    const send = () =>
      world.call(route.method, route.path.replace(':id', path).replace(':key_id', key_id), {
        ...options,
        headers,
      });
    await world.flush();
    const { databaseUrl } = world.config;
    const before = await rowsIn(databaseUrl);
    const allow = await refuseRows(databaseUrl, 'audit');
    const refused = await send();
    await allow();
    expect(await rowsIn(databaseUrl)).toEqual(before);
    return { refused, done: await send() };
  }

  test.each(changing.map((route) => [route.name, route] as const))(
    '%s changes nothing, releases no secret, and can be tried again',
    async (_name, route) => {
      const names = isRepeatable(route) ? [{}, { 'Idempotency-Key': crypto.randomUUID() }] : [{}];
      for (const headers of names) {
        const { refused, done } = await refusedThenDone(route, headers as Record<string, string>);
        expect(refused).toMatchObject({ status: 503, body: { code: 'unavailable' } });
        expect(JSON.stringify(refused.body)).not.toContain('slp_');
        expect(done.status).toBeLessThan(300);
        expect(done.headers.get('idempotency-replayed')).toBeNull();
      }
    },
  );

  test('a refusal is still a refusal, and the log of the service tells that it is not on record', async () => {
    const allow = await refuseRows(world.config.databaseUrl, 'audit');
    expect((await world.call('GET', '/applications')).status).toBe(401);
    await world.flush();
    await allow();
    expect(world.logged.join('\n')).toContain('refusals could not be written to the audit log');
  });
});
