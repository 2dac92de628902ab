import { afterAll, afterEach, beforeAll, describe, expect, setSystemTime, test } from 'bun:test';
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
import { databases, openTestServer, type TestServer } from '../support/test-server.ts';

const [[, sqlite]] = databases as [(typeof databases)[0]];

describe('a Session by the SDK', () => {
  let world: TestServer;
  let admin: Sallyport;
  let publicKey: string;
  beforeAll(async () => {
    world = await openTestServer(sqlite);
    admin = new Sallyport({ url: world.url, key: (await world.tenant()).key });
    const web = { name: 'web', type: 'public', permissions: ['token:create'] } as const;
    publicKey = (await admin.applications.create({ ...web, permissions: [...web.permissions] })).key;
  });
  afterAll(() => world.close());

  function advance(milliseconds: number): void {
    world.clock.advance(milliseconds);
    setSystemTime(world.clock.now());
  }
  afterEach(() => {
    setSystemTime();
  });

  /** One whose backend counts how often it is asked. */
  async function started(lifetime = 180_000) {
    const nonces: string[] = [];
    const session = await startSession({
      url: world.url,
      publicKey,
      authorize: async (nonce) => {
        nonces.push(nonce);
        const expires_at = new Date(world.clock.now() + lifetime).toISOString();
        await authorizeSession(admin, nonce, { permissions: ['token:read'], expires_at });
      },
    });
    return { session, nonces };
  }

  test('gives its key to services that ask about it, renewed in time', async () => {
    advance(0);
    const { session, nonces } = await started();
    const first = await session.key();
    const asked = { permission: 'token:read' };
    expect((await admin.decide({ ...asked, credential: first })).allowed).toBe(true);
    advance(170_000);
    const second = await session.key();
    expect(second).not.toBe(first);
    expect(nonces).toHaveLength(2);
    expect((await admin.decide({ ...asked, credential: second })).allowed).toBe(true);
  });

  test('is started by the browser, authorized by the backend, and replaced before it ends', async () => {
    advance(0);
    const { session, nonces } = await started();
    expect(session.expiresAt.getTime()).toBe(world.clock.now() + 180_000);
    advance(159_000);
    await session.client.tokens.list();
    expect(nonces).toHaveLength(1);
    advance(1000);
    await Promise.all([session.client.tokens.list(), session.client.tokens.list()]);
    expect(nonces).toHaveLength(2);
    expect(session.expiresAt.getTime()).toBe(world.clock.now() + 180_000);
  });

  test('is replaced when the backend has made it shorter, and the request that found out goes through', async () => {
    advance(0);
    const { session, nonces } = await started(5000);
    advance(5000);
    const made = await Promise.all([session.client.tokens.list(), session.client.tokens.list()]);
    expect(made.map(({ data }) => data)).toEqual([[], []]);
    expect(nonces).toHaveLength(2);
  });

  /** One whose backend lets it in once, and then does as it is told. */
  async function startedOnce(again: () => Promise<never>, timeout = 60_000) {
    const asked: string[] = [];
    const session = await startSession({
      url: world.url,
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
    ['by a clock that says so', true],
    ['by a clock that is behind', false],
  ])('that is over %s and not let in again says so, and asks once', async (_, told) => {
    advance(0);
    const { session, asked } = await startedOnce(loggedOut);
    if (told) advance(200_000);
    else world.clock.advance(200_000);
    const error = await session.client.tokens.list().catch((one) => one);
    expect(error).toBeInstanceOf(SallyportError);
    expect([error.message, error.cause.message]).toEqual(['the Session could not be renewed', 'logged out']);
    expect(asked).toHaveLength(2);
  });

  test.each([
    ['refused', loggedOut, 60_000],
    // The renewal must time out. The other requests must not, also on a busy machine.
    ['never answered', silent, 4000],
  ])(
    'whose renewal is %s goes on with its key until that ends, and is not renewed at every request',
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

  test('that turns out to be over does not wait for its backend longer than for an answer', async () => {
    advance(0);
    const { session } = await startedOnce(silent);
    world.clock.advance(200_000);
    const { signal } = new AbortController();
    const call = session.client.tokens.list({}, { signal, timeout: 50, retries: 0 });
    expect(await call.catch((error) => error)).toBeInstanceOf(TimeoutError);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  test('is not replaced after it was told to stop', async () => {
    advance(0);
    const { session, nonces } = await started();
    session.stop();
    advance(170_000);
    await session.client.tokens.list();
    advance(10_000);
    expect(await session.client.tokens.list().catch((error) => error)).toBeInstanceOf(AuthenticationError);
    expect(nonces).toHaveLength(1);
  });

  test('is refused to a browser whose backend says no', async () => {
    const refusing = startSession({
      url: world.url,
      publicKey,
      authorize: () => Promise.reject(new Error('no')),
    });
    expect(refusing).rejects.toThrow('no');
  });

  test('opens a route of your own as far as its rules go', async () => {
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
    const { session_key, nonce } = await new Sallyport({ url: world.url, key: publicKey }).sessions.create();
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
    const refused = await ask('/invoices/43', session_key);
    expect(refused.status).toBe(403);
    expect(((await refused.json()) as { detail: string }).detail).toBe(
      'You cannot use `invoice:read` on this resource.',
    );
    expect((await ask('/invoices/42')).status).toBe(401);
    expect((await ask('/invoices/42', 'junk')).status).toBe(401);
  });

  describe('whose guard asks about what a request names', () => {
    const guarding = (permission: string, resource: Resource, client = admin) =>
      guardFetch({ client, permission, resource: () => resource, fields: [] }, () => Response.json({}));
    const ask = async (guard: ReturnType<typeof guarding>, key = 'junk') => {
      const headers: Record<string, string> = key ? { 'SVC-API-KEY': key } : {};
      const answer = await guard(new Request('http://localhost/', { headers }));
      return [answer.status, ((await answer.json()) as { detail?: string }).detail];
    };

    test.each<[string, Resource, string]>([
      ['has a space', { container: '/customers/a%20b/' }, 'container must be a path such as'],
      ['is too long', { container: `/${'c'.repeat(600)}/` }, 'container must have at most 250 characters'],
      ['is empty', { container: '/customers//' }, 'container must be a path such as'],
      ['is an empty id', { id: '' }, 'id must have 1 to 500 characters'],
    ])('refuses what can be nowhere, where it %s', async (_, resource, why) => {
      const { key } = await world.application((await world.tenant()).key, { permissions: ['invoice:read'] });
      const guard = guarding('invoice:read', resource);
      expect(await ask(guard, key)).toEqual([403, expect.stringContaining(why)]);
      expect((await ask(guard, ''))[0]).toBe(401);
    });

    test('says that it cannot ask where the fault is its own', async () => {
      const wrong = { container: '/a b/' };
      const unknown = { place: '/customers/' } as Resource;
      const failed = [503, 'The decision could not be made (validation_failed).'];
      expect(await ask(guarding('invoice', wrong))).toEqual(failed);
      expect(await ask(guarding('invoice:read', unknown))).toEqual(failed);
      const keyless = new Sallyport({ url: world.url, key: 'junk' });
      expect((await ask(guarding('invoice:read', wrong, keyless)))[0]).toBe(503);
    });
  });

  test('leaves of JSON what the decision leaves', () => {
    const json = { data: 'secret', list: [{ data: { deep: 1 }, kept: true }] };
    const under = (transform: 'redact' | 'mask' | 'reveal') =>
      applyTransform<unknown>(json, { transform }, { fields: ['data'], mask: () => 'X' });
    expect(under('reveal')).toEqual(json);
    expect(under('redact')).toEqual({ list: [{ kept: true }] });
    expect(under('mask')).toEqual({ data: 'X', list: [{ data: 'X', kept: true }] });
  });
});
