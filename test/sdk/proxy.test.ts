/** `client.proxy(name).fetch`: the `fetch` for SDKs of a destination's API, against the service and a real TLS server. */
import { beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { type AddressInfo, createServer } from 'node:net';
import {
  AuthenticationError,
  ConnectionError,
  errorIn,
  NotFoundError,
  PermissionError,
  type ProblemError,
  Sallyport,
  ValidationError,
} from '../../sdk/src/sallyport.ts';
import { noOpenssl } from '../support/certificates.ts';
import { json, openReceiver, type Receiver } from '../support/destination-receiver.ts';
import { openTestServer, sqlite, type TestServer, testMasterKey } from '../support/test-server.ts';

const number = '4242424242424242';
const card = '{{ token: card-1 }}';
const requests = [
  {
    method: 'POST' as const,
    path: '/v1/charges',
    placeholders: [
      { at: 'form:card[number]', from: '/number' },
      { at: '/card', from: '/number' },
    ],
    headers: ['stripe-version'],
    reply: ['/id'],
  },
  { method: 'GET' as const, path: '/v1/charges/:id', query: ['expand'], reply: ['/id'] },
];

describe.skipIf(noOpenssl)('proxy of the SDK:', () => {
  let server: TestServer;
  let receiver: Receiver;
  let admin: Sallyport;
  let key: string;
  /** The requests that the client sent to the service. */
  const sent: string[] = [];
  beforeAll(async () => {
    receiver = await openReceiver();
    const settings = { SALLYPORT_DESTINATION_NETWORKS: '127.0.0.1', SALLYPORT_MASTER_KEY: testMasterKey };
    server = await openTestServer(sqlite, settings, undefined, { resolve: async () => ['127.0.0.1'] });
    admin = new Sallyport({ url: server.url, key: (await server.tenant()).key });
    const { origin, ca } = receiver;
    const headers = { authorization: 'Bearer sk_live_12345678' };
    const { id } = await admin.destinations.create({ name: 'payments', origin, ca, requests, headers });
    const place = { priority: 1, container: '/cards/', transform: 'redact' as const };
    const rules = [{ ...place, destinations: [id], permissions: ['token:use'] }];
    ({ key } = await admin.applications.create({
      name: 'shop',
      type: 'private',
      permissions: ['mine:x'],
      rules,
    }));
    await admin.tokens.create({ id: 'card-1', container: '/cards/', data: { number } });
    await admin.tokens.create({ id: 'other', container: '/other/', data: { number } });
  });
  beforeEach(() => {
    sent.length = 0;
    receiver.received.length = 0;
    receiver.answer((socket) => socket.write(json({ id: 'ch_1', secret: 'hidden' })));
  });

  const fetch = (url: string | URL | Request, init?: RequestInit) => {
    sent.push(String(url));
    return globalThis.fetch(url, init);
  };
  const client = (given = key) =>
    new Sallyport({ url: server.url, key: given, fetch: fetch as typeof globalThis.fetch });
  const payments = (given?: string) =>
    client(given).proxy('payments', { purpose: 'order 7', requestId: 'req-7' });
  const thrown = (promise: Promise<unknown>) =>
    promise.then(
      () => undefined,
      (error) => error,
    );

  // The SDKs of Stripe and OpenAI send a URL with plain headers and a text; others send a Request or a relative path.
  const body = new URLSearchParams({ 'card[number]': card, amount: '5' }).toString();
  const head = {
    Authorization: 'Bearer ignored',
    'Content-Type': 'application/x-www-form-urlencoded',
    'Content-Length': String(body.length),
    'Stripe-Version': '2026-01-01',
    'Idempotency-Key': 'i-1',
    'SVC-API-KEY': 'ignored',
  };
  const init = { method: 'POST', headers: head, body };
  const url = 'https://api.payments.example/v1/charges';
  test.each([
    ['a URL as text', url, init],
    ['a URL', new URL(url), { ...init, headers: new Headers(head) }],
    ['a path', '/v1/charges', init],
    ['a Request', new Request(url, init), undefined],
    ['a path with dot segments', '/../../v1/x/../charges', init],
  ])(
    '%s is sent to the destination, with the data and the headers that it lists',
    async (_, input, given) => {
      const response = await payments().fetch(input instanceof Request ? input.clone() : input, given);
      expect([response.status, await response.json()]).toEqual([200, { id: 'ch_1' }]);
      const [request = ''] = receiver.received;
      expect(request).toStartWith('POST /v1/charges HTTP/1.1\r\n');
      expect(request).toEndWith(`card%5Bnumber%5D=${number}&amount=5`);
      for (const line of [
        'Bearer sk_live_12345678',
        'idempotency-key: i-1',
        'stripe-version: 2026-01-01',
        'req-7',
      ])
        expect(request).toContain(line);
      for (const hidden of [key, 'ignored']) expect(request).not.toContain(hidden);
      expect(sent).toEqual([`${server.url}/proxy/payments/v1/charges`]);
      const [entry] = (await admin.logs.list({ operation: 'token.use', size: 1 })).data;
      expect(entry).toMatchObject({ purpose: 'order 7', request_id: 'req-7' });
    },
  );

  test('a GET has a query and no body', async () => {
    expect((await payments().fetch('/v1/charges/7?expand=customer')).status).toBe(200);
    expect(receiver.received[0]).toStartWith('GET /v1/charges/7?expand=customer HTTP/1.1\r\n');
  });

  test('a 401 of the destination and problems of the service are responses, which `errorIn` tells apart', async () => {
    receiver.answer((socket) => socket.write(json({ id: 'no' }, 'HTTP/1.1 401 Unauthorized')));
    const refused = await payments().fetch('/v1/charges/7');
    expect([refused.status, await errorIn(refused), await refused.json()]).toEqual([
      401,
      undefined,
      { id: 'no' },
    ]);
    const wrong = [
      [() => payments().fetch('/v1/refunds'), ValidationError, 'request_not_listed'],
      [
        () => payments().fetch('/v1/charges', { ...init, body: body.replace('card-1', 'other') }),
        PermissionError,
        'permission_missing',
      ],
      [() => client().proxy('unknown').fetch('/v1/charges/7'), NotFoundError, 'not_found'],
      [() => payments('slp_prv_wrong').fetch('/v1/charges/7'), AuthenticationError, 'unauthenticated'],
    ] as const;
    for (const [send, type, code] of wrong) {
      const response = await send();
      const error = (await errorIn(response)) as ProblemError;
      expect(error).toBeInstanceOf(type);
      expect([error.code, response.status]).toEqual([code, error.status]);
      expect(await response.json()).toMatchObject({ code, error: { code } });
    }
    expect(receiver.received.length).toBe(1);
  });

  test('a request is sent once, also if it fails', async () => {
    receiver.answer((socket) => socket.destroy());
    const failed = await errorIn(await payments().fetch('/v1/charges', init));
    expect(failed).toMatchObject({ code: 'destination_failed', problem: { sent: true } });
    expect([sent.length, receiver.received.length]).toEqual([1, 1]);
  });

  test('without a reply of the service, a request that may have been sent is a problem, and others throw', async () => {
    const through = (url: string) =>
      new Sallyport({ url, key, fetch: fetch as typeof globalThis.fetch }).proxy('payments');
    expect(await thrown(through('http://127.0.0.1:1').fetch('/v1/charges', init))).toBeInstanceOf(
      ConnectionError,
    );
    const busy = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: () => new Response('busy', { status: 503 }),
    });
    const silent = createServer((socket) => socket.on('data', () => socket.destroy()).on('error', () => {}));
    await new Promise<void>((listening) => silent.listen(0, '127.0.0.1', listening));
    const { port } = silent.address() as AddressInfo;
    for (const url of [busy.url.href, `http://127.0.0.1:${port}`]) {
      const response = await through(url).fetch('/v1/charges', init);
      expect([response.status, response.headers.get('x-should-retry')]).toEqual([502, 'false']);
      expect(await errorIn(response)).toMatchObject({ code: 'destination_failed', problem: { sent: true } });
    }
    expect(sent.length).toBe(3);
    await busy.stop(true);
    silent.close();
  });

  test('methods that no destination takes, and names and URLs of other paths, are rejected before sending', async () => {
    for (const method of ['HEAD', 'OPTIONS'])
      expect((await thrown(payments().fetch('/v1/charges', { method }))).message).toBe(
        `a destination takes GET, POST, PUT, PATCH, DELETE, not ${method}`,
      );
    expect(sent).toEqual([]);
    for (const name of ['', '.', '..']) expect(() => client().proxy(name)).toThrow('`name` must be');
    for (const input of ['a:b', 'file:///x'])
      expect((await thrown(payments().fetch(input))).message).toBe(
        'a destination needs a path or an HTTPS URL',
      );
    const aborted = await thrown(
      payments().fetch('/v1/charges/7', { signal: AbortSignal.abort(new Error('stop')) }),
    );
    expect(aborted.message).toBe('stop');
    expect(receiver.received).toEqual([]);
  });
});
