import { describe, expect, test } from 'bun:test';
import { methodsOf } from '../../docs/sdk-methods.ts';
import {
  AuthenticationError,
  ConflictError,
  ConnectionError,
  etagOf,
  NotFoundError,
  PermissionError,
  Sallyport,
  startSession,
  ValidationError,
  workloadKey,
} from '../../sdk/src/sallyport.ts';
import { allRoutes } from '../../src/http/routes.ts';
import { openTestServer, sqlite } from '../support/test-server.ts';

/** Endpoints without a method: load balancers, AuthZEN clients and browsers call them. */
const withoutMethod = [
  'live',
  ...[
    'evaluate',
    'evaluateAll',
    'searchSubjects',
    'searchResources',
    'searchActions',
    'getAuthZenConfiguration',
  ],
  ...['getHome', 'getDocs', 'getDocsPage', 'getOpenApi', 'getConsole', 'getConsoleFile', 'openLink'],
  ...['getConsoleSession', 'beginSignIn', 'finishSignIn', 'signOut', 'logOutByProvider'],
  'exchangeToken', // workloadKey
  ...['proxyGet', 'proxyPost', 'proxyPut', 'proxyPatch', 'proxyDelete'],
];

test('every endpoint has a method in the SDK client', async () => {
  const sent = new Set<string>();
  const fetch = async (url: string | URL | Request, { method }: RequestInit = {}) => {
    sent.add(`${method} ${new URL(String(url)).pathname}`);
    return Response.json({ pagination: {}, data: [] });
  };
  const client = new Sallyport({ url: 'http://127.0.0.1', fetch: fetch as typeof globalThis.fetch });
  for (const { call } of methodsOf(client)) {
    const result = call('id', 'id');
    await (isIterator(result) ? result.next() : result);
  }
  const uncalled = allRoutes.filter(
    ({ method, path }) => !sent.has(`${method} ${path.replace(/:\w+/g, 'id')}`),
  );
  expect(uncalled.map(({ name }) => name).sort()).toEqual(withoutMethod.sort());
});

function isIterator(result: unknown): result is AsyncGenerator {
  return typeof result === 'object' && result !== null && Symbol.asyncIterator in result;
}

describe('SDK client:', async () => {
  const server = await openTestServer(sqlite);

  const connect = async () => new Sallyport({ url: server.url, key: (await server.tenant()).key });
  const thrown = (promise: Promise<unknown>) =>
    promise.then(
      () => undefined,
      (error) => error,
    );

  test('applications can be created, read, updated, regenerated and deleted', async () => {
    const admin = await connect();
    const created = await admin.applications.create({
      name: 'one',
      type: 'private',
      permissions: ['application:read'],
    });
    const client = new Sallyport({ url: server.url, key: created.key });
    expect((await client.applications.current()).id).toBe(created.id);
    expect((await admin.applications.get(created.id)).name).toBe('one');
    const updated = await admin.applications.update(created.id, { name: 'two', permissions: ['token:read'] });
    expect(updated.name).toBe('two');
    const { key } = await admin.applications.regenerate(created.id);
    expect(key).not.toBe(created.key);
    expect(await thrown(client.applications.current())).toBeInstanceOf(AuthenticationError);
    expect(await admin.applications.delete(created.id)).toBeUndefined();
    expect(await thrown(admin.applications.get(created.id))).toBeInstanceOf(NotFoundError);
  });

  test('a change with the ETag of an older version throws and changes nothing', async () => {
    const admin = await connect();
    const { id } = await admin.applications.create({ name: 'x', type: 'private', permissions: ['mine:x'] });
    const read = await admin.applications.get(id);
    const body = { name: 'mine', permissions: ['mine:x'] };
    const ifMatch = etagOf(read);
    const updated = await admin.applications.update(id, body, { ifMatch });
    expect(etagOf(updated)).not.toBe(ifMatch);
    const stale = [
      admin.applications.update(id, { ...body, name: 'again' }, { ifMatch }),
      admin.applications.preview(id, body, {}, { ifMatch }),
      admin.applications.regenerate(id, {}, { ifMatch }),
      admin.applications.quarantine(id, { ifMatch }),
      admin.applications.release(id, { ifMatch }),
      admin.applications.delete(id, { ifMatch }),
    ];
    for (const error of await Promise.all(stale.map(thrown))) {
      expect(error).toBeInstanceOf(ConflictError);
      expect(error).toMatchObject({ status: 412, code: 'changed_meanwhile' });
    }
    expect(etagOf(await admin.applications.get(id))).toBe(etagOf(updated));
    const token = await admin.tokens.create({ data: 'x' });
    const patched = await admin.tokens.update(token.id, { type: 'card' }, { ifMatch: etagOf(token) });
    const old = { ifMatch: etagOf(token) };
    expect(await thrown(admin.tokens.update(token.id, { type: 'x' }, old))).toBeInstanceOf(ConflictError);
    expect(await thrown(admin.tokens.delete(token.id, old))).toBeInstanceOf(ConflictError);
    await admin.tokens.delete(token.id, { ifMatch: etagOf(patched) });
    expect(etagOf({ ...read })).toBeUndefined();
  });

  test('tenant() returns the tenant of the key', async () => {
    expect(await (await connect()).tenant()).toMatchObject({ name: 'test', applications: 1 });
  });

  test('a key can be added before the old one is deleted', async () => {
    const admin = await connect();
    const created = await admin.applications.create({
      name: 'x',
      type: 'private',
      permissions: ['application:read'],
    });
    const added = await admin.applications.createKey(created.id);
    const [newer, older] = await admin.applications.keys(created.id);
    expect(newer?.ending).toBe(added.key.slice(-4));
    const [before, after] = [created.key, added.key].map((key) => new Sallyport({ url: server.url, key }));
    expect((await before!.applications.current()).id).toBe(created.id);
    expect(await admin.applications.deleteKey(created.id, older!.id)).toBeUndefined();
    expect(await thrown(before!.applications.current())).toBeInstanceOf(AuthenticationError);
    expect((await after!.applications.current()).id).toBe(created.id);
  });

  test.each(['', '.', '..', undefined as unknown as string])(
    'the id %j is rejected before a request is sent',
    async (id) => {
      const admin = await connect();
      const created = await admin.applications.create({
        name: 'x',
        type: 'private',
        permissions: ['mine:x'],
      });
      for (const call of [
        admin.applications.deleteKey(created.id, id),
        admin.applications.get(id),
        admin.tokens.get(id),
        admin.sessions.end(id),
      ])
        expect(await thrown(call)).toMatchObject({
          message: expect.stringContaining('must be a non-empty string'),
        });
      expect((await admin.applications.get(created.id)).id).toBe(created.id);
    },
  );

  test('all() fetches every page', async () => {
    const admin = await connect();
    for (let i = 0; i < 7; i++)
      await admin.tokens.create({ id: `t-${i}`, data: i, metadata: { even: String(i % 2 === 0) } });
    const ids: string[] = [];
    for await (const { id } of admin.tokens.all({ size: 2 })) ids.push(id);
    expect(ids).toEqual(['t-6', 't-5', 't-4', 't-3', 't-2', 't-1', 't-0']);
    const { data } = await admin.tokens.list({ metadata: { even: 'true' }, id: ['t-0', 't-1'] });
    expect(data.map(({ id }) => id)).toEqual(['t-0']);
    const logged: string[] = [];
    for await (const { operation } of admin.logs.all({ size: 3 })) logged.push(operation);
    expect(logged).toEqual(Array(7).fill('token.create'));
  });

  test('sessions can be created, authorized and ended, and decisions requested', async () => {
    const admin = await connect();
    const web = await admin.applications.create({
      name: 'web',
      type: 'public',
      permissions: ['token:create'],
    });
    const created = await new Sallyport({ url: server.url, key: web.key }).sessions.create();
    const { session_key, nonce, expires_at } = created;
    const browser = new Sallyport({ url: server.url, key: session_key });
    expect(await thrown(browser.tokens.list())).toBeInstanceOf(PermissionError);
    const grant = { permissions: ['token:read'], subject: 'user:42' };
    const authorized = await admin.sessions.authorize({ nonce, ...grant });
    const { data } = await admin.sessions.list({ subject: 'user:42' });
    expect(authorized).toEqual({ id: data[0]?.id as string, expiresAt: expires_at });
    expect((await browser.tokens.list()).data).toEqual([]);
    expect(await thrown(admin.sessions.authorize({ nonce, permissions: ['token:read'] }))).toBeInstanceOf(
      ConflictError,
    );
    const question = { credential: session_key, permission: 'token:read' };
    expect((await admin.decide({ ...question, resource: { container: '/a/' } })).allowed).toBe(true);
    expect((await admin.decideAll({ ...question, resources: [{}, { id: 'x1' }] })).decisions).toHaveLength(2);
    expect((await admin.permissions()).map(({ name }) => name)).toContain('token:read');
    await admin.sessions.endAll({ subject: 'user:42' });
    expect((await admin.decide(question)).allowed).toBe(false);
  });

  test('errors are typed and carry the problem document', async () => {
    const admin = await connect();
    const error = await thrown(admin.applications.create({ name: '', type: 'private' }));
    expect(error).toBeInstanceOf(ValidationError);
    expect(error.errors).toHaveProperty('name');
    expect(error.message).toStartWith('Invalid request: name ');
    expect(error.requestId).toBe(error.problem.request_id);
    expect(error.status).toBe(400);
    const missing = await thrown(admin.tokens.get('none', { requestId: 'find-me' }));
    expect(missing.requestId).toBe('find-me');
  });

  test.each([
    [undefined],
    ['127.0.0.1:8080'],
    ['localhost:8080'],
    ['/api'],
    ['http://user:pass@127.0.0.1'],
    ['http://127.0.0.1/?a=b'],
  ])('%p is rejected as URL when the client is created', (url) => {
    expect(() => new Sallyport({ url })).toThrow('`url` must be the URL of the service');
    const options = { url: url as string, clientId: 'x', token: () => 'jwt' };
    expect(() => workloadKey(options)).toThrow('`url` must be the URL of the service');
  });

  test.each([[undefined], ['']])('an empty key (%p) is rejected when the client is created', async (key) => {
    expect(() => new Sallyport({ url: server.url, key })).toThrow('`key` is empty');
    const options = { url: server.url, publicKey: key as string, authorize: async () => {} };
    expect((await thrown(startSession(options))).message).toBe('`publicKey` is empty');
  });

  test('other wrong options are rejected before a request is sent', async () => {
    expect(() => new Sallyport(undefined as never)).toThrow('`url` must be the URL of the service');
    const url = 'http://127.0.0.1:9';
    expect(() => new Sallyport({ url, key: 'Bearer slp_x' })).toThrow('`key` must be only the key');
    const unset = new Sallyport({ url, key: () => undefined as never });
    expect((await thrown(unset.tenant())).message).toBe('the result of `key` is empty');
    const options = { url, publicKey: 'x', clientId: 'x', token: 'jwt', authorize: undefined };
    expect(() => workloadKey(options as never)).toThrow('`token` must be a function');
    expect((await thrown(startSession(options as never))).message).toBe('`authorize` must be a function');
  });

  test('a web page of another server is not reported as an unreachable service', async () => {
    const page = async (_: string | URL | Request) =>
      new Response('<!doctype html>', { headers: { 'Content-Type': 'text/html' } });
    const client = new Sallyport({ url: server.url, fetch: page as typeof globalThis.fetch, retries: 0 });
    const error = await thrown(client.ready());
    expect(error).toBeInstanceOf(ConnectionError);
    expect(error.message).toBe('unexpected response with status 200: not a Sallyport service');
  });
});
