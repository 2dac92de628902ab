/** A valid request for every route that changes data. */
import type { CallOptions, TestServer } from './test-server.ts';

export interface ChangeRequest {
  /** Replaces `:id` in the path of the route. */
  readonly id?: string;
  readonly key_id?: string;
  readonly options: CallOptions;
}

const grants = { permissions: ['mine:x'] };

/** By route name. */
export const changeRequests: Record<string, (server: TestServer, key: string) => Promise<ChangeRequest>> = {
  createApplication: async (_, key) => ({
    options: { key, body: { name: 'x', type: 'private', ...grants } },
  }),
  updateApplication: async (server, key) => ({
    id: (await server.application(key)).id,
    options: { key, body: { name: 'y', ...grants } },
  }),
  regenerateKey: async (server, key) => ({ id: (await server.application(key)).id, options: { key } }),
  createKey: async (server, key) => ({ id: (await server.application(key)).id, options: { key } }),
  deleteKey: async (server, key) => {
    const { id } = await server.application(key);
    const { data } = (await ask(server, 'GET', `/applications/${id}/keys`, { key })).body;
    return { id, key_id: data[0].id, options: { key } };
  },
  deleteApplication: async (server, key) => ({ id: (await server.application(key)).id, options: { key } }),
  quarantineApplication: async (server, key) => ({
    id: (await server.application(key)).id,
    options: { key },
  }),
  releaseApplication: async (server, key) => ({ id: (await server.application(key)).id, options: { key } }),
  createSession: async (server, key) => ({
    options: { key: (await server.application(key, { type: 'public' })).key },
  }),
  authorizeSession: async (server, key) => {
    const { key: web } = await server.application(key, { type: 'public' });
    const { nonce } = (await ask(server, 'POST', '/sessions', { key: web })).body;
    return { options: { key, body: { nonce, ...grants } } };
  },
  endSession: oneSession,
  quarantineSession: oneSession,
  releaseSession: oneSession,
  createToken: async (_, key) => ({ options: { key, body: { data: 'x' } } }),
  updateToken: async (server, key) => ({
    id: await createToken(server, key),
    options: { key, body: { data: 'y' } },
  }),
  deleteToken: async (server, key) => ({ id: await createToken(server, key), options: { key } }),
};

async function oneSession(server: TestServer, key: string): Promise<ChangeRequest> {
  const { key: web } = await server.application(key, { type: 'public' });
  await ask(server, 'POST', '/sessions', { key: web });
  const { data } = (await ask(server, 'GET', '/sessions', { key })).body;
  return { id: data[0].id, options: { key } };
}

/** Returns the id of a new token. */
export async function createToken(server: TestServer, key: string): Promise<string> {
  return (await ask(server, 'POST', '/tokens', { key, body: { data: 'x' } })).body.id;
}

function ask(server: TestServer, ...request: Parameters<TestServer['call']>) {
  return server.call(...request);
}
