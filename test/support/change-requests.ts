/** For every route that changes something, a request that would. */
import type { CallOptions, TestServer } from './test-server.ts';

export interface ChangeRequest {
  readonly path?: string;
  readonly key_id?: string;
  readonly options: CallOptions;
}

const grants = { permissions: ['mine:x'] };

/** By the name of the route: a request that would change something. */
export const changeRequests: Record<string, (world: TestServer, key: string) => Promise<ChangeRequest>> = {
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
    const { data } = (await ask(world, 'GET', `/applications/${id}/keys`, { key })).body;
    return { path: id, key_id: data[0].id, options: { key } };
  },
  deleteApplication: async (world, key) => ({ path: (await world.application(key)).id, options: { key } }),
  createSession: async (world, key) => ({
    options: { key: (await world.application(key, { type: 'public' })).key },
  }),
  authorizeSession: async (world, key) => {
    const { key: web } = await world.application(key, { type: 'public' });
    const { nonce } = (await ask(world, 'POST', '/sessions', { key: web })).body;
    return { options: { key, body: { nonce, ...grants } } };
  },
  endSession: async (world, key) => {
    const { key: web } = await world.application(key, { type: 'public' });
    await ask(world, 'POST', '/sessions', { key: web });
    const { data } = (await ask(world, 'GET', '/sessions', { key })).body;
    return { path: data[0].id, options: { key } };
  },
  createToken: async (_, key) => ({ options: { key, body: { data: 'x' } } }),
  updateToken: async (world, key) => ({
    path: await createToken(world, key),
    options: { key, body: { data: 'y' } },
  }),
  deleteToken: async (world, key) => ({ path: await createToken(world, key), options: { key } }),
};

/** The id of a new Token. */
export async function createToken(world: TestServer, key: string): Promise<string> {
  return (await ask(world, 'POST', '/tokens', { key, body: { data: 'x' } })).body.id;
}

function ask(world: TestServer, ...request: Parameters<TestServer['call']>) {
  return world.call(...request);
}
