import { afterAll, afterEach, beforeAll, describe, expect, setSystemTime, test } from 'bun:test';
import { check, type GuardOptions, guardFetch } from '../../sdk/src/guard.ts';
import {
  AuthenticationError,
  authorizeSession,
  type ManagedSession,
  Sallyport,
  SallyportError,
  startSession,
} from '../../sdk/src/sallyport.ts';
import { openTestServer, sqlite } from '../support/test-server.ts';

describe('SDK with bound sessions:', async () => {
  const server = await openTestServer(sqlite, { SALLYPORT_SESSION_TTL: '600' });
  const admin = new Sallyport({ url: server.url, key: (await server.tenant()).key });
  const web = { name: 'web', type: 'public', require_bound_sessions: true } as const;
  const publicKey = (await admin.applications.create({ ...web, permissions: ['token:create'] })).key;
  afterEach(() => {
    setSystemTime();
  });

  function advance(milliseconds: number): void {
    server.clock.advance(milliseconds);
    setSystemTime(server.clock.now());
  }

  /** Records each request to the service as METHOD PATH STATUS. */
  async function start(fetch: typeof globalThis.fetch = globalThis.fetch) {
    const sent: string[] = [];
    const recording = async (input: string | Request, init?: RequestInit) => {
      const response = await fetch(input, init);
      const { method, url } = typeof input === 'string' ? { url: input, ...init } : input;
      sent.push(`${method} ${new URL(url).pathname} ${response.status}`);
      return response;
    };
    const session = await startSession({
      url: server.url,
      publicKey,
      bind: true,
      fetch: recording as typeof globalThis.fetch,
      authorize: (nonce) => authorizeSession(admin, nonce, { permissions: ['token:read', 'invoice:read'] }),
    });
    return { session, sent };
  }

  test('a bound session works without a challenge, and its key alone does not', async () => {
    advance(0);
    const { session, sent } = await start();
    expect(session.bound).toBe(true);
    await session.client.tokens.list({ size: 5, type: 'card' });
    await Promise.all([session.client.tokens.list(), session.client.tokens.list()]);
    expect(sent).toEqual(['POST /sessions 201', ...Array(3).fill('GET /tokens 200')]);
    const thief = new Sallyport({ url: server.url, key: await session.key() });
    await expect(thief.tokens.list()).rejects.toThrow(AuthenticationError);
  });

  test('after a pause, the request is sent once more with the new nonce', async () => {
    advance(0);
    const { session, sent } = await start();
    advance(300_000);
    await session.client.tokens.list();
    await session.client.tokens.list();
    expect(sent.slice(1)).toEqual(['GET /tokens 401', 'GET /tokens 200', 'GET /tokens 200']);
  });

  test('nonces are learned from responses, so that a busy session gets no challenge', async () => {
    advance(0);
    const { session, sent } = await start();
    for (let minute = 0; minute < 8; minute++) {
      await session.client.tokens.list();
      advance(61_000);
    }
    expect(sent.filter((line) => line.endsWith('401'))).toEqual([]);
  });

  test('the session is renewed with the same key, also after it was ended', async () => {
    advance(0);
    const { session, sent } = await start();
    const first = await session.key();
    for (const { id } of (await admin.sessions.list()).data) await admin.sessions.end(id);
    expect((await session.client.tokens.list()).data).toEqual([]);
    expect(await session.key()).not.toBe(first);
    expect(sent.slice(1)).toEqual(['GET /tokens 401', 'POST /sessions 201', 'GET /tokens 200']);
  });

  test('a proof that is refused twice is an error, without a renewal', async () => {
    advance(0);
    const spoil = (async (input: string, init: RequestInit & { headers: Record<string, string> }) => {
      const isCreate = input.endsWith('/sessions');
      const headers = isCreate ? init.headers : { ...init.headers, DPoP: 'spoiled' };
      return fetch(input, { ...init, headers });
    }) as typeof globalThis.fetch;
    const { session, sent } = await start(spoil);
    await expect(session.client.tokens.list()).rejects.toThrow(AuthenticationError);
    expect(sent.slice(1)).toEqual(['GET /tokens 401', 'GET /tokens 401']);
  });

  test('startSession fails if the service does not bind the session', async () => {
    const stripped = (async (input: string, init: RequestInit & { headers: Record<string, string> }) => {
      const { DPoP: _, ...headers } = init.headers;
      return fetch(input, { ...init, headers });
    }) as typeof globalThis.fetch;
    const open = await admin.applications.create({ name: 'x', type: 'public', permissions: ['a:b'] });
    const starting = startSession({
      url: server.url,
      publicKey: open.key,
      bind: true,
      fetch: stripped,
      authorize: async () => {},
    });
    await expect(starting).rejects.toThrow(new SallyportError('the service did not bind the session'));
  });

  test('outside a browser, sessions are not bound by default', async () => {
    const { key } = await admin.applications.create({ name: 'x', type: 'public', permissions: ['a:b'] });
    const session = await startSession({ url: server.url, publicKey: key, authorize: async () => {} });
    expect(session.bound).toBe(false);
  });

  describe('a guarded service', () => {
    let session: ManagedSession;
    let shop: Bun.Server<undefined>;
    let received: Request[];
    const guard = (changes: Partial<GuardOptions> = {}) => ({
      client: admin,
      permission: 'invoice:read',
      fields: [],
      ...changes,
    });
    const answer = (request: Request) => request.text().then((text) => Response.json({ text }));
    beforeAll(async () => {
      const single = guardFetch(guard(), answer);
      const twice = guardFetch(guard(), guardFetch(guard({ permission: 'token:read' }), answer));
      const proxied = guardFetch(guard({ publicUrl: 'https://shop.example/' }), answer);
      shop = Bun.serve({
        port: 0,
        hostname: '127.0.0.1',
        fetch: (request) => {
          received.push(request.clone() as Request);
          const { pathname } = new URL(request.url);
          return pathname === '/twice'
            ? twice(request)
            : pathname === '/proxied'
              ? proxied(request)
              : single(request);
        },
      });
    });
    afterAll(() => shop.stop(true));

    async function visit(path: string, init?: RequestInit): Promise<[number, unknown]> {
      const response = await session.fetch(new URL(path, shop.url), init);
      return [response.status, await response.json()];
    }

    test('accepts the proofs of session.fetch, and asks the client for a proof with a new nonce', async () => {
      advance(0);
      received = [];
      ({ session } = await start());
      expect(await visit('/?page=2', { method: 'POST', body: 'hello' })).toEqual([200, { text: 'hello' }]);
      expect(received).toHaveLength(1);
      advance(150_000);
      expect(await visit('/', { method: 'POST', body: 'again' })).toEqual([200, { text: 'again' }]);
      expect(received).toHaveLength(3);
    });

    test('gives the client a new nonce with a response', async () => {
      advance(61_000);
      const response = await session.fetch(shop.url);
      expect([response.status, response.headers.get('dpop-nonce')]).toEqual([200, expect.any(String)]);
    });

    test('with several guards accepts one proof for one request', async () => {
      expect((await visit('/twice'))[0]).toBe(200);
    });

    test('refuses a stolen key, a stolen proof, and a proof for another URL', async () => {
      received = [];
      await session.fetch(shop.url);
      const headers = new Headers((received[0] as Request).headers);
      const replayed = await fetch(shop.url, { headers });
      expect([replayed.status, replayed.headers.get('www-authenticate')]).toEqual([
        401,
        'DPoP error="invalid_dpop_proof"',
      ]);
      headers.delete('dpop');
      expect((await fetch(shop.url, { headers })).status).toBe(401);
      expect((await visit('/proxied'))[0]).toBe(401);
    });

    test.each([
      ['/harmless?a=/../\\#', '/', 200],
      ['/secret', '/harmless?/secret', 401],
      ['/secret', '/harmless#/secret', 401],
      ['/harmless#/secret', '/harmless#/secret', 401],
      ['/secret/../harmless', '/secret/../harmless', 401],
      ['/secret/%2E./harmless', '/secret/%2E./harmless', 401],
      ['/secret\\..\\harmless', '/secret\\..\\harmless', 401],
    ])(
      'compares a proof for /harmless with the path %j, if the URL ends with %j',
      async (path, end, status) => {
        let proven = new Request(shop.url);
        const keep = async (input: string | Request, init?: RequestInit) => {
          if (typeof input === 'string') return fetch(input, init);
          proven = input;
          return new Response();
        };
        await (await start(keep as typeof fetch)).session.fetch(new URL('/harmless', shop.url));
        const header = (name: string) => proven.headers.get(name) ?? undefined;
        const url = shop.url.origin + end;
        const request = { method: 'GET', path, header, params: {}, url, original: {} };
        const result = await check(guard(), request);
        expect(result.allowed ? 200 : result.status).toBe(status);
      },
    );
  });
});
