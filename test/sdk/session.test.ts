import { afterEach, describe, expect, setSystemTime, test } from 'bun:test';
import { getEventListeners } from 'node:events';
import { applyTransform, guardFetch } from '../../sdk/src/guard.ts';
import {
  AuthenticationError,
  authorizeSession,
  type Resource,
  Sallyport,
  SallyportError,
  startSession,
  TimeoutError,
} from '../../sdk/src/sallyport.ts';
import { openTestServer, sqlite } from '../support/test-server.ts';

describe('SDK sessions and guards:', async () => {
  const server = await openTestServer(sqlite);
  const admin = new Sallyport({ url: server.url, key: (await server.tenant()).key });
  const web = { name: 'web', type: 'public', permissions: ['token:create'] } as const;
  const publicKey = (await admin.applications.create({ ...web, permissions: [...web.permissions] })).key;

  function advance(milliseconds: number): void {
    server.clock.advance(milliseconds);
    setSystemTime(server.clock.now());
  }
  afterEach(() => {
    setSystemTime();
  });

  /** Starts a session whose backend records each nonce that it authorizes. */
  async function startAuthorized(lifetime = 180_000) {
    const nonces: string[] = [];
    const session = await startSession({
      url: server.url,
      publicKey,
      authorize: async (nonce) => {
        nonces.push(nonce);
        const expires_at = new Date(server.clock.now() + lifetime).toISOString();
        await authorizeSession(admin, nonce, { permissions: ['token:read'], expires_at });
      },
    });
    return { session, nonces };
  }

  test('key() returns a key that other services can check, and renews it', async () => {
    advance(0);
    const { session, nonces } = await startAuthorized();
    const first = await session.key();
    const question = { permission: 'token:read' };
    expect((await admin.decide({ ...question, credential: first })).allowed).toBe(true);
    advance(170_000);
    const second = await session.key();
    expect(second).not.toBe(first);
    expect(nonces).toHaveLength(2);
    expect((await admin.decide({ ...question, credential: second })).allowed).toBe(true);
  });

  test('a session is renewed once, shortly before it expires', async () => {
    advance(0);
    const { session, nonces } = await startAuthorized();
    expect(session.expiresAt.getTime()).toBe(server.clock.now() + 180_000);
    advance(159_000);
    await session.client.tokens.list();
    expect(nonces).toHaveLength(1);
    advance(1000);
    await Promise.all([session.client.tokens.list(), session.client.tokens.list()]);
    expect(nonces).toHaveLength(2);
    expect(session.expiresAt.getTime()).toBe(server.clock.now() + 180_000);
  });

  test('a session that the backend shortened is renewed on 401, and the request succeeds', async () => {
    advance(0);
    const { session, nonces } = await startAuthorized(5000);
    advance(5000);
    const pages = await Promise.all([session.client.tokens.list(), session.client.tokens.list()]);
    expect(pages.map(({ data }) => data)).toEqual([[], []]);
    expect(nonces).toHaveLength(2);
  });

  /** Starts a session whose backend authorizes once and then calls `again`. */
  async function startedOnce(again: () => Promise<never>, timeout = 60_000) {
    const asked: string[] = [];
    const session = await startSession({
      url: server.url,
      publicKey,
      timeout,
      authorize: async (nonce) => {
        asked.push(nonce);
        if (asked.length > 1) return again();
        return authorizeSession(admin, nonce, { permissions: ['token:read'] });
      },
    });
    return { session, asked };
  }
  const loggedOut = () => Promise.reject(new Error('logged out'));
  const silent = () => new Promise<never>(() => {});

  test.each([
    ['the clock is correct', true],
    ['the clock is behind', false],
  ])('an expired session that cannot be renewed fails after one attempt when %s', async (_, correct) => {
    advance(0);
    const { session, asked } = await startedOnce(loggedOut);
    if (correct) advance(200_000);
    else server.clock.advance(200_000);
    const error = await session.client.tokens.list().catch((reason) => reason);
    expect(error).toBeInstanceOf(SallyportError);
    expect([error.message, error.cause.message]).toEqual(['the session could not be renewed', 'logged out']);
    expect(asked).toHaveLength(2);
  });

  test.each([
    ['denied', loggedOut, 60_000],
    // The renewal must time out. The other requests must not, even on a busy machine.
    ['never answered', silent, 4000],
  ])(
    'a session whose renewal is %s is used until it expires, without a renewal for every request',
    async (_, again, timeout) => {
      advance(0);
      const { session, asked } = await startedOnce(again, timeout);
      const key = await session.key();
      advance(165_000);
      for (let i = 0; i < 3; i++) expect((await session.client.tokens.list()).data).toEqual([]);
      expect([await session.key(), asked.length]).toEqual([key, 2]);
      advance(15_000);
      expect(await session.client.tokens.list().catch((error) => error)).toBeInstanceOf(SallyportError);
    },
  );

  test('a renewal on 401 is limited by the request timeout', async () => {
    advance(0);
    const { session } = await startedOnce(silent);
    server.clock.advance(200_000);
    const { signal } = new AbortController();
    const call = session.client.tokens.list({}, { signal, timeout: 50, retries: 0 });
    expect(await call.catch((error) => error)).toBeInstanceOf(TimeoutError);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  test('stop() prevents renewals', async () => {
    advance(0);
    const { session, nonces } = await startAuthorized();
    session.stop();
    advance(170_000);
    await session.client.tokens.list();
    advance(10_000);
    expect(await session.client.tokens.list().catch((error) => error)).toBeInstanceOf(AuthenticationError);
    expect(nonces).toHaveLength(1);
  });

  test('startSession fails if the backend denies', async () => {
    const starting = startSession({
      url: server.url,
      publicKey,
      authorize: () => Promise.reject(new Error('denied')),
    });
    await expect(starting).rejects.toThrow('denied');
  });

  test('guardFetch allows, masks and denies by the rules of the session', async () => {
    const rules = [
      {
        priority: 1,
        transform: 'mask' as const,
        permissions: ['invoice:read'],
        conditions: [
          { attribute: 'container' as const, operator: 'starts_with' as const, value: '/customers/42/' },
        ],
      },
    ];
    const { session_key, nonce } = await new Sallyport({ url: server.url, key: publicKey }).sessions.create();
    await admin.sessions.authorize({ nonce, rules });
    const guarded = guardFetch(
      {
        client: admin,
        permission: 'invoice:read',
        resource: ({ path }) => ({ container: `/customers/${path.split('/')[2]}/` }),
        fields: ['iban'],
        mask: (value) => `…${String(value).slice(-4)}`,
      },
      () => Response.json({ invoices: [{ id: 1, iban: 'DE02120300000000202051' }] }),
    );
    const ask = (path: string, key?: string) =>
      guarded(new Request(`http://localhost${path}`, { headers: key ? { 'SVC-API-KEY': key } : {} }));
    expect(await (await ask('/invoices/42', session_key)).json()).toEqual({
      invoices: [{ id: 1, iban: '…2051' }],
    });
    const denied = await ask('/invoices/43', session_key);
    expect(denied.status).toBe(403);
    expect(((await denied.json()) as { detail: string }).detail).toBe(
      'You cannot use `invoice:read` on this resource.',
    );
    expect((await ask('/invoices/42')).status).toBe(401);
    expect((await ask('/invoices/42', 'junk')).status).toBe(401);
  });

  describe('a guard whose resource comes from the request', () => {
    const guarding = (permission: string, resource: Resource, client = admin) =>
      guardFetch({ client, permission, resource: () => resource, fields: [] }, () => Response.json({}));
    const ask = async (guard: ReturnType<typeof guarding>, key = 'junk') => {
      const headers: Record<string, string> = key ? { 'SVC-API-KEY': key } : {};
      const response = await guard(new Request('http://localhost/', { headers }));
      return [response.status, ((await response.json()) as { detail?: string }).detail];
    };

    test.each<[string, Resource, string]>([
      ['has a space', { container: '/customers/a%20b/' }, 'container must be a path such as'],
      ['is too long', { container: `/${'c'.repeat(600)}/` }, 'container must have at most 250 characters'],
      ['is empty', { container: '/customers//' }, 'container must be a path such as'],
      ['is an empty id', { id: '' }, 'id must have 1 to 500 characters'],
    ])('denies an invalid resource that %s', async (_, resource, why) => {
      const { key } = await server.application((await server.tenant()).key, {
        permissions: ['invoice:read'],
      });
      const guard = guarding('invoice:read', resource);
      expect(await ask(guard, key)).toEqual([403, expect.stringContaining(why)]);
      expect((await ask(guard, ''))[0]).toBe(401);
    });

    test('returns 503 when its own configuration is wrong', async () => {
      const wrong = { container: '/a b/' };
      const unknown = { place: '/customers/' } as Resource;
      const failed = [503, 'Access could not be checked (validation_failed).'];
      expect(await ask(guarding('Invoice:read', wrong))).toEqual(failed);
      expect(await ask(guarding('invoice:read', unknown))).toEqual(failed);
      const keyless = new Sallyport({ url: server.url, key: 'junk' });
      expect((await ask(guarding('invoice:read', wrong, keyless)))[0]).toBe(503);
    });
  });

  test('applyTransform removes or masks the named fields at any depth', () => {
    const json = { data: 'secret', list: [{ data: { deep: 1 }, kept: true }] };
    const under = (transform: 'redact' | 'mask' | 'reveal') =>
      applyTransform<unknown>(json, { transform }, { fields: ['data'], mask: () => 'X' });
    expect(under('reveal')).toEqual(json);
    expect(under('redact')).toEqual({ list: [{ kept: true }] });
    expect(under('mask')).toEqual({ data: 'X', list: [{ data: 'X', kept: true }] });
  });
});
