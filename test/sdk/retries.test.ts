import { describe, expect, test } from 'bun:test';
import { getEventListeners } from 'node:events';
import {
  ConnectionError,
  NotFoundError,
  RateLimitError,
  Sallyport,
  TimeoutError,
} from '../../sdk/src/sallyport.ts';
import { openTestServer, sqlite } from '../support/test-server.ts';

describe('SDK timeouts and retries:', async () => {
  const server = await openTestServer(sqlite);

  const thrown = (promise: Promise<unknown>) =>
    promise.then(
      () => undefined,
      (error) => error,
    );

  test('a slow response, an aborted signal and an unreachable service each have their own error', async () => {
    const silent = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: () => new Promise<Response>(() => {}),
    });
    const client = new Sallyport({ url: `http://127.0.0.1:${silent.port}`, timeout: 20, retries: 0 });
    expect(await thrown(client.permissions())).toBeInstanceOf(TimeoutError);
    const signal = AbortSignal.abort(new Error('cancelled'));
    expect((await thrown(client.permissions({ signal }))).message).toBe('cancelled');
    await silent.stop(true);
    const unreachable = new Sallyport({ url: `http://127.0.0.1:${silent.port}`, retries: 0 });
    expect(await thrown(unreachable.permissions())).toBeInstanceOf(ConnectionError);
  });

  test('the key function is limited by the timeout and the signal', async () => {
    const never = () => new Promise<string>(() => {});
    const keyless = new Sallyport({ url: server.url, key: never, timeout: 20 });
    expect(await thrown(keyless.tenant())).toMatchObject({
      name: 'TimeoutError',
      message: 'no key within 20 ms',
    });
    const signal = AbortSignal.timeout(20);
    const error = await thrown(keyless.tenant({ timeout: 15_000, signal }));
    expect(error).toBe(signal.reason);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  test('redirects are not followed, so that the key is not sent to another URL', async () => {
    const requests: string[] = [];
    const redirecting = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: (request) => {
        requests.push(new URL(request.url).pathname);
        return Response.redirect('/elsewhere', 307);
      },
    });
    const client = new Sallyport({ url: `http://127.0.0.1:${redirecting.port}`, key: 'secret', retries: 0 });
    const error = await thrown(client.applications.current());
    await redirecting.stop(true);
    expect(error).toBeInstanceOf(ConnectionError);
    expect(requests).toEqual(['/applications/key']);
  });

  /** A proxy that forwards every request but loses the first responses. */
  function losingProxy(responses: number) {
    let lost = 0;
    return Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: async (request) => {
        const { pathname, search } = new URL(request.url);
        const response = await fetch(server.url + pathname + search, {
          method: request.method,
          headers: request.headers,
          ...(request.method !== 'GET' && { body: await request.text() }),
        });
        if (lost++ < responses) return new Response('bad gateway', { status: 502 });
        return response;
      },
    });
  }

  /** A proxy that answers the first request with 429 and `Retry-After`. */
  function rateLimitedProxy(seconds: number) {
    const requests: number[] = [];
    const proxy = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: (request) => {
        requests.push(performance.now());
        if (requests.length > 1)
          return fetch(server.url + new URL(request.url).pathname, { headers: request.headers });
        const problem = { code: 'too_many_requests', status: 429, detail: 'later', request_id: 'x' };
        return Response.json(problem, { status: 429, headers: { 'Retry-After': String(seconds) } });
      },
    });
    return { proxy, requests, client: new Sallyport({ url: `http://127.0.0.1:${proxy.port}` }) };
  }

  test('a list with more filters than fit into a URL fails without a retry, and the error says why', async () => {
    const { key } = await server.tenant();
    const client = new Sallyport({ url: server.url, key });
    const id = Array.from({ length: 100 }, (_, at) => `${at}-`.padEnd(200, 'x'));
    expect(await thrown(client.tokens.list({ id }))).toMatchObject({
      name: 'SallyportError',
      message: 'the URL and headers are too long: send fewer filters',
    });
  });

  test('a retry waits for the time in Retry-After', async () => {
    const { proxy, requests, client } = rateLimitedProxy(1);
    expect((await client.permissions()).length).toBeGreaterThan(5);
    await proxy.stop(true);
    expect((requests[1] as number) - (requests[0] as number)).toBeGreaterThanOrEqual(990);
  });

  test('a retry leaves no listener on the signal', async () => {
    const { proxy, client } = rateLimitedProxy(0);
    const { signal } = new AbortController();
    await client.permissions({ signal });
    await proxy.stop(true);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  test('the signal interrupts the wait before a retry', async () => {
    const { proxy, client } = rateLimitedProxy(20);
    const call = thrown(client.permissions({ signal: AbortSignal.timeout(50) }));
    expect(await call).toMatchObject({ name: 'TimeoutError' });
    await proxy.stop(true);
  });

  test('a Retry-After above 30 seconds is not waited for but reported', async () => {
    const { proxy, requests, client } = rateLimitedProxy(31);
    const error = await thrown(client.permissions());
    await proxy.stop(true);
    expect(error).toBeInstanceOf(RateLimitError);
    expect([error.retryAfter, requests.length]).toEqual([31_000, 1]);
  });

  test('a full disk is reported without a retry, because a retry would only wait', async () => {
    let requests = 0;
    const headers = { 'Content-Type': 'application/problem+json', 'Retry-After': '1' };
    const full = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: () => {
        requests += 1;
        return Response.json({ status: 503, code: 'disk_full' }, { status: 503, headers });
      },
    });
    const client = new Sallyport({ url: `http://127.0.0.1:${full.port}`, key: 'slp_mgt_x' });
    const error = await thrown(client.tenant());
    await full.stop(true);
    expect([error.code, requests]).toEqual(['disk_full', 1]);
  });

  test('a change whose response was lost is retried and happens once', async () => {
    const { key } = await server.tenant();
    const proxy = losingProxy(1);
    const admin = new Sallyport({ url: `http://127.0.0.1:${proxy.port}`, key });
    const created = await admin.applications.create({
      name: 'once',
      type: 'private',
      permissions: ['token:read'],
    });
    await proxy.stop(true);
    const direct = new Sallyport({ url: server.url, key });
    const { pagination, data } = await direct.applications.list({ name: 'once' });
    expect(pagination.total_items).toBe(1);
    expect(data[0]?.id).toBe(created.id);
  });

  test('a DELETE whose response was lost counts as done when the retry gets 404', async () => {
    const { key } = await server.tenant();
    const direct = new Sallyport({ url: server.url, key });
    const { id } = await direct.tokens.create({ data: 'x' });
    const proxy = losingProxy(1);
    const admin = new Sallyport({ url: `http://127.0.0.1:${proxy.port}`, key });
    expect(await admin.tokens.delete(id)).toBeUndefined();
    await proxy.stop(true);
    expect(await thrown(direct.tokens.get(id))).toBeInstanceOf(NotFoundError);
  });

  test('a DELETE that gets 404 at the first attempt fails, and so does a retried GET', async () => {
    const { key } = await server.tenant();
    const direct = new Sallyport({ url: server.url, key });
    expect(await thrown(direct.tokens.delete('missing'))).toBeInstanceOf(NotFoundError);
    const proxy = losingProxy(1);
    const reader = new Sallyport({ url: `http://127.0.0.1:${proxy.port}`, key });
    expect(await thrown(reader.tokens.get('missing'))).toBeInstanceOf(NotFoundError);
    await proxy.stop(true);
  });

  test('a retried DELETE of an unknown path fails', async () => {
    const { key } = await server.tenant();
    const proxy = losingProxy(1);
    const client = new Sallyport({ url: `http://127.0.0.1:${proxy.port}/elsewhere`, key });
    expect(await thrown(client.tokens.delete('missing'))).toMatchObject({ code: 'path_unknown' });
    await proxy.stop(true);
  });

  test('Idempotency-Key is sent with changes that the service can replay, and with no other request', async () => {
    const sentKey: boolean[] = [];
    const client = new Sallyport({
      url: 'http://127.0.0.1:9',
      fetch: (async (_: string, { headers }: { headers: Record<string, string> }) => {
        sentKey.push(headers['Idempotency-Key'] !== undefined);
        return Response.json({});
      }) as unknown as typeof fetch,
    });
    await client.tokens.create({ data: 1 });
    await client.tokens.update('some', { data: 2 });
    await client.applications.regenerate('some');
    await client.sessions.authorize({ nonce: 'n' });
    expect(sentKey).toEqual([true, true, true, true]);
    sentKey.length = 0;
    await client.tokens.list();
    await client.tokens.delete('some');
    await client.sessions.create();
    await client.decide({ credential: 'c', permission: 'p:q' });
    expect(sentKey).toEqual([false, false, false, false]);
  });
});
