/** When a page renews its session: by the expiry that its backend granted, and once after a 401 of Sallyport. */
import { afterAll, afterEach, beforeAll, describe, expect, setSystemTime, test } from 'bun:test';
import { guardFetch } from '../../sdk/src/guard.ts';
import { authorizeSession, Sallyport, SallyportError, startSession } from '../../sdk/src/sallyport.ts';
import { openTestServer, sqlite } from '../support/test-server.ts';

describe('an SDK session', async () => {
  const server = await openTestServer(sqlite);
  const admin = new Sallyport({ url: server.url, key: (await server.tenant()).key });
  const publicKey = (await admin.applications.create({ name: 'web', type: 'public', permissions: ['a:b'] }))
    .key;
  afterEach(() => {
    setSystemTime();
  });

  function advance(milliseconds: number): void {
    server.clock.advance(milliseconds);
    setSystemTime(server.clock.now());
  }

  type Authorized = Awaited<ReturnType<typeof authorizeSession>>;

  /** Starts a session whose backend grants this lifetime. `answer` is what the page gets from its backend. */
  async function start(lifetime: number, answer: (authorized: Authorized) => unknown = () => undefined) {
    advance(0);
    let authorizations = 0;
    const session = await startSession({
      url: server.url,
      publicKey,
      authorize: async (nonce) => {
        authorizations++;
        const expires_at = new Date(server.clock.now() + lifetime).toISOString();
        return answer(
          await authorizeSession(admin, nonce, { permissions: ['token:read', 'invoice:read'], expires_at }),
        );
      },
    });
    return { session, authorizations: () => authorizations };
  }

  const asHeader = ({ expiresAt }: Authorized) =>
    new Response(null, { status: 204, headers: { 'SVC-SESSION-EXPIRES-AT': expiresAt } });

  describe.each<[string, (authorized: Authorized) => unknown]>([
    ['the result of authorizeSession', (authorized) => authorized],
    ['a Date', ({ expiresAt }) => ({ expiresAt: new Date(expiresAt) })],
    ['the response of the backend with the header', asHeader],
  ])('whose authorize function returns %s', (_, answer) => {
    test.each([
      ['shorter', 60_000],
      ['longer', 3_600_000],
    ])(
      'is renewed shortly before the granted expiry, if that is %s than the default',
      async (_what, lifetime) => {
        const { session, authorizations } = await start(lifetime, answer);
        expect(session.expiresAt.getTime()).toBe(server.clock.now() + lifetime);
        advance(lifetime - 21_000);
        await session.client.tokens.list();
        expect(authorizations()).toBe(1);
        advance(1000);
        await session.client.tokens.list();
        expect(authorizations()).toBe(2);
      },
    );
  });

  test.each([
    ['nothing', undefined],
    ['a response without the header', new Response(null, { status: 204 })],
    ['another value', { ok: true }],
  ])('whose authorize function returns %s has the default expiry', async (_, answer) => {
    const { session } = await start(60_000, () => answer);
    expect(session.expiresAt.getTime()).toBe(server.clock.now() + 180_000);
  });

  test.each([
    [
      new Response(null, { status: 403 }),
      'the session was not authorized: your backend answered with status 403',
    ],
    [Response.redirect('https://shop.example/login'), 'your backend answered with status 302'],
    [{ expiresAt: 1_900_000_000 }, 'is not a Date or an ISO 8601 date: 1900000000'],
    [{ expiresAt: new Date(1_900_000_000) }, 'is not a Date or an ISO 8601 date: Thu Jan 22 1970'],
    [{ expiresAt: 'soon' }, 'the expiry of the session is not a Date or an ISO 8601 date: soon'],
  ])('does not start if the authorize function returns a failure: %#', async (answer, message) => {
    const starting = start(60_000, () => answer).catch((error: unknown) => error);
    expect(await starting).toBeInstanceOf(SallyportError);
    expect(((await starting) as Error).message).toContain(message);
  });

  describe('and a service of its own:', () => {
    let shop: Bun.Server<undefined>;
    let guarded: (request: Request) => Response | Promise<Response>;
    let reply: typeof guarded;
    /** METHOD BODY of each request. */
    let received: string[];
    beforeAll(() => {
      const options = { client: admin, permission: 'invoice:read', fields: [] };
      guarded = guardFetch(options, () => Response.json('seen'));
      shop = Bun.serve({
        port: 0,
        hostname: '127.0.0.1',
        fetch: async (request) => {
          received.push(`${request.method} ${await request.clone().text()}`);
          return reply(request);
        },
      });
    });
    afterAll(() => shop.stop(true));

    test('fetch() renews an ended session once, for all concurrent requests, and repeats their bodies', async () => {
      [received, reply] = [[], guarded];
      const { session, authorizations } = await start(5000);
      advance(5000);
      const streamed = new Response('b').body as ReadableStream;
      const responses = await Promise.all([
        session.fetch(shop.url, { method: 'POST', body: 'a' }),
        session.fetch(
          new Request(shop.url, { method: 'POST', body: streamed, duplex: 'half' } as RequestInit),
        ),
        session.fetch(shop.url),
      ]);
      expect(responses.map(({ status }) => status)).toEqual([200, 200, 200]);
      expect(await Promise.all(responses.map((response) => response.json()))).toEqual(Array(3).fill('seen'));
      expect(received.toSorted()).toEqual(['GET ', 'GET ', 'POST a', 'POST a', 'POST b', 'POST b']);
      expect(authorizations()).toBe(2);
    });

    const ours = { 'WWW-Authenticate': 'ApiKey header="SVC-API-KEY"' };
    const problem = { 'Content-Type': 'application/problem+json' };
    test.each<[string, Record<string, string>, string, number]>([
      ['renews and repeats once if the new key is rejected, too', ours, 'no', 2],
      ['renews if a gateway removed WWW-Authenticate', problem, '{"code":"unauthenticated"}', 2],
      ['does not renew on another problem', problem, '{"code":"signed_out"}', 1],
      ['does not renew on a problem that is not JSON', problem, 'no', 1],
      ['does not renew on the 401 of another server', { 'WWW-Authenticate': 'Basic realm="shop"' }, 'no', 1],
      ['does not renew on the 401 of a destination', { ...ours, 'SVC-DESTINATION': 'psp' }, 'no', 1],
    ])('fetch() %s', async (_, headers, body, requests) => {
      received = [];
      reply = () => new Response(body, { status: 401, headers });
      const { session, authorizations } = await start(180_000);
      const response = await session.fetch(shop.url);
      expect([response.status, await response.text()]).toEqual([401, body]);
      expect([received.length, authorizations()]).toEqual([requests, requests]);
    });

    test('fetch() rejects if the session cannot be renewed, and does not renew after stop()', async () => {
      [received, reply] = [[], guarded];
      let denied = false;
      const refuse = () => (denied ? new Response(null, { status: 401 }) : undefined);
      const { session, authorizations } = await start(5000, refuse);
      advance(5000);
      denied = true;
      const error = await session.fetch(shop.url).catch((reason) => reason);
      expect([error.message, error.cause.message]).toEqual([
        'the session could not be renewed',
        'the session was not authorized: your backend answered with status 401',
      ]);
      session.stop();
      expect((await session.fetch(shop.url)).status).toBe(401);
      expect(authorizations()).toBe(2);
    });
  });
});
