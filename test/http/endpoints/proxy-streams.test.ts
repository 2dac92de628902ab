/** Streams and bodies of any type through `/proxy/NAME/…`, as the libraries of providers send and read them. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import type { TLSSocket } from 'node:tls';
import { noOpenssl } from '../../support/certificates.ts';
import { json, openReceiver, type Receiver, tokenUseRule } from '../../support/destination-receiver.ts';
import { databases, openTestServer, type TestServer, testMasterKey } from '../../support/test-server.ts';

const settings = { SALLYPORT_DESTINATION_NETWORKS: '127.0.0.1', SALLYPORT_MASTER_KEY: testMasterKey };
const secret = 'sk_live_12345678';
const schema = {
  type: 'object',
  properties: { model: { enum: ['small'] }, n: { type: 'integer', maximum: 3 } },
  required: ['model'],
  additionalProperties: false,
};
const requests = [
  { method: 'POST', path: '/v1/chat', reply: 'stream', query: ['v'], headers: ['x-account'] },
  { method: 'POST', path: '/v1/checked', schema, reply: [''] },
  { method: 'POST', path: '/v1/files/*', body: 'any', reply: [''] },
  { method: 'GET', path: '/v1/files/*', reply: 'stream' },
  { method: 'POST', path: '/v1/card', placeholders: [{ at: '/number' }], headers: ['x-note'], reply: [''] },
];
const head = (type = 'text/event-stream', more = '') =>
  `HTTP/1.1 200 OK\r\nContent-Type: ${type}\r\n${more}Transfer-Encoding: chunked\r\n\r\n`;
const chunk = (text: string) => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;

describe.skipIf(noOpenssl).each(databases)('a destination of a library on %s', (_, database) => {
  let server: TestServer;
  let receiver: Receiver;
  let key: string;
  let user: { key: string; id: string };
  let id: string;
  /** The connection of the stream in progress. */
  let provider: TLSSocket;
  beforeAll(async () => {
    receiver = await openReceiver();
    server = await openTestServer(database, settings, undefined, { resolve: async () => ['127.0.0.1'] });
    ({ key } = await server.tenant());
    const { origin, ca } = receiver;
    const headers = { authorization: `Bearer ${secret}` };
    const fields = { name: 'ai', origin, ca, requests, headers, ignored_headers: ['x-stainless-*'] };
    ({ id } = (await server.call('POST', '/destinations', { key, body: fields })).body);
    await server.call('POST', '/tokens', { key, body: { id: 'card', data: '4242424242424242' } });
    user = await caller();
  });
  afterAll(async () => {
    await server.close();
    await receiver.close();
  });
  beforeEach(() => {
    receiver.received.length = 0;
    answer(head());
  });

  const caller = () => server.application(key, { rules: [tokenUseRule('/', [id])] });
  const answer = (start: string) =>
    receiver.answer((socket) => {
      provider = socket;
      socket.write(start);
    });
  const send = (path: string, init: RequestInit = {}, as = user.key) =>
    fetch(`${server.url}/proxy/ai${path}`, {
      method: 'POST',
      ...init,
      headers: { 'SVC-API-KEY': as, ...(init.headers as Record<string, string>) },
    });
  const chat = (as = user.key) => {
    const headers = { 'Content-Type': 'application/json', 'X-Stainless-Lang': 'js' };
    return send('/v1/chat', { body: '{"model":"small"}', headers }, as);
  };
  /** Waits for the second entry, which is written while the connection is closed. */
  const outcome = async (of = id) => {
    for (;;) {
      const { body } = await server.call('GET', `/logs?destination=${of}&size=1`, { key });
      const { operation, reason, use } = body.data[0];
      if (operation !== 'token.use') return [operation, reason, use?.status];
    }
  };
  async function readAll(response: Response): Promise<[string, boolean]> {
    let text = '';
    try {
      for await (const part of response.body as ReadableStream<Uint8Array>)
        text += Buffer.from(part).toString();
      return [text, true];
    } catch {
      return [text, false];
    }
  }

  test('a stream arrives event by event, with its status and type, and without scripts', async () => {
    answer(head().replace('200 OK', '201 Created') + chunk('data: 1\n\n'));
    const response = await chat();
    expect(response.status).toBe(201);
    expect(response.headers.get('content-type')).toBe('text/event-stream');
    expect(response.headers.get('content-security-policy')).toBe('sandbox');
    expect(response.headers.get('svc-destination')).toBe('ai');
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    const next = async () => Buffer.from((await reader.read()).value ?? '').toString();
    expect(await next()).toBe('data: 1\n\n');
    for (const event of ['data: {"a":"\\n"}\n\n', 'data: [DONE]\n\n']) {
      provider.write(chunk(event));
      expect(await next()).toBe(event);
    }
    provider.write('0\r\n\r\n');
    expect((await reader.read()).done).toBe(true);
    expect(await outcome()).toEqual(['token.use.outcome', undefined, 201]);
    expect(receiver.received[0]).toContain(`authorization: Bearer ${secret}\r\n`);
    expect(receiver.received[0]?.toLowerCase()).not.toContain('stainless');
  });

  test('a secret across chunks cuts the connection before its first byte', async () => {
    answer(head() + chunk('data: 1\n\n'));
    const response = await chat();
    const reading = readAll(response);
    for (const part of ['data: sk_l', 'ive_1234', '5678\n\n', 'more']) provider.write(chunk(part));
    const [text, isWhole] = await reading;
    expect(isWhole).toBe(false);
    expect('data: 1\n\ndata: ').toStartWith(text);
    expect(await outcome()).toEqual(['token.use.outcome', 'destination_echoed_data', 200]);
  });

  test.each([
    ['a secret in the first bytes', head() + chunk(`"${secret}"`), 'destination_echoed_data'],
    ['a secret in the content type', head(`text/${secret}`) + chunk('a'), 'destination_echoed_data'],
    [
      'a compressed stream',
      head('text/plain', 'Content-Encoding: gzip\r\n') + chunk('a'),
      'destination_failed',
    ],
    ['no valid reply', 'nothing\r\n', 'destination_failed'],
  ])('%s is a 502 that says that the request was sent', async (_, start, code) => {
    answer(start);
    const response = await chat();
    expect([response.status, await response.json()]).toEqual([
      502,
      expect.objectContaining({ code, sent: true }),
    ]);
    expect((await outcome())[1]).toBe(code);
  });

  test.each([
    ['ends before its length', 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n###'],
    ['ends within a chunk', `${head()}a\r\n###`],
  ])('a stream that %s is cut', async (_, start) => {
    answer(start);
    const response = await chat();
    const reading = readAll(response);
    provider.end();
    expect(await reading).toEqual(['###', false]);
    expect(await outcome()).toEqual(['token.use.outcome', 'destination_failed', 200]);
  });

  test('a stream that fails with its first bytes has a reply, so that libraries do not repeat the request', async () => {
    const start = 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n###';
    receiver.answer((socket) => socket.end(start));
    // The bytes and the end arrive together or one after the other.
    for (let times = 0; times < 10; times++) {
      const response = await chat();
      if (response.status === 200) expect((await readAll(response))[1]).toBe(false);
      else expect([response.status, await response.json()]).toMatchObject([502, { sent: true }]);
    }
  });

  test('a provider that hangs between bytes is cut, and one that hangs before them is a 504', async () => {
    const files = [{ method: 'GET', path: '/slow/:at', reply: 'stream' }];
    const { origin, ca } = receiver;
    const fields = { name: 'slow', origin, ca, requests: files, timeout: 1 };
    const { body: slow } = await server.call('POST', '/destinations', { key, body: fields });
    const rules = [tokenUseRule('/', [slow.id])];
    for (const [start, status, text] of [
      [`${head()}${chunk('data: 1\n\n')}5\r\nda`, 200, 'data: 1\n\nda'],
      [head(), 504, expect.stringContaining('"sent":true')],
    ] as const) {
      answer(start);
      const one = await server.application(key, { rules });
      const url = `${server.url}/proxy/slow/slow/1`;
      const response = await fetch(url, { headers: { 'SVC-API-KEY': one.key } });
      expect([response.status, ...(await readAll(response))]).toEqual([status, text, status !== 200]);
      expect(await outcome(slow.id)).toEqual(['token.use.outcome', 'destination_timeout', 200]);
    }
  });

  test('the end of the key, of the grant and a quarantine cut the stream', async () => {
    for (const end of ['key', 'grant', 'quarantine']) {
      answer(head() + chunk('data: 1\n\n'));
      const one = await caller();
      const reading = readAll(await chat(one.key));
      const path = `/applications/${one.id}`;
      if (end === 'key') await server.call('DELETE', path, { key });
      if (end === 'quarantine') await server.call('POST', `${path}/quarantine`, { key });
      const none = { name: 'none', permissions: ['token:read'], rules: [] };
      if (end === 'grant') await server.call('PUT', path, { key, body: none });
      expect(await reading).toEqual(['data: 1\n\n', false]);
    }
  });

  test('a client that disconnects ends the request to the destination', async () => {
    answer(head() + chunk('data: 1\n\n'));
    const stop = new AbortController();
    const response = await send('/v1/files/a', { method: 'GET', signal: stop.signal });
    const closed = new Promise((resolve) => provider.once('close', resolve));
    await (response.body as ReadableStream).getReader().read();
    stop.abort();
    await closed;
    expect(await outcome()).toEqual(['token.use.outcome', 'client_disconnected', 200]);
  });

  test('a body of any type passes unchanged, below a wide path', async () => {
    const bytes = new Uint8Array(3_000_000).map((_, at) => at * 7);
    receiver.answer((socket) => socket.write(json({ id: 'f' })));
    const headers = { 'Content-Type': 'multipart/form-data; boundary=x', 'Content-Encoding': 'br' };
    const response = await send('/v1/files/a/b', { body: bytes, headers });
    expect([response.status, await response.json()]).toEqual([200, { id: 'f' }]);
    const [first = '', body] = (receiver.received[0] as string)
      .split('\r\n\r\n', 1)
      .concat(
        (receiver.received[0] as string).slice((receiver.received[0] as string).indexOf('\r\n\r\n') + 4),
      );
    expect(first).toStartWith('POST /v1/files/a/b HTTP/1.1\r\n');
    expect(first).toContain('content-type: multipart/form-data; boundary=x\r\ncontent-encoding: br\r\n');
    expect(Buffer.from(body as string, 'latin1').equals(bytes)).toBe(true);
  });

  test('a body is as large as its request allows', async () => {
    const zeros = (bytes: number) => new Uint8Array(bytes);
    const type = { headers: { 'Content-Type': 'application/json' } };
    for (const [path, body] of [
      ['/v1/files/a', zeros(33_554_433)],
      ['/v1/chat', zeros(1_048_577)],
    ] as const)
      expect((await send(path, { body, ...type })).status).toBe(413);
    const number = '{{ token: card }}';
    const card = (text: string, note = '') =>
      send('/v1/card', {
        body: JSON.stringify({ number, text }),
        headers: { ...type.headers, ...(note && { 'X-Note': note }) },
      });
    expect((await card('a'.repeat(65_600))).status).toBe(413);
    expect((await card('a'.repeat(63_000), 'b'.repeat(4000))).status).toBe(413);
    expect(receiver.received).toEqual([]);
  });

  test.each([
    ['a method', '/v1/chat', { method: 'PUT' }, 'the method PUT for this path, only POST'],
    ['a path', '/v2', {}, 'the path /v2'],
    ['a wide path without a last segment', '/v1/files', {}, 'the path /v1/files'],
    ['a parameter', '/v1/chat?w=1', {}, 'the parameter w for this request'],
    [
      'a header',
      '/v1/chat',
      { headers: { 'Stripe-Account': 'acct_1' } },
      'the header stripe-account for this request',
    ],
    ['a missing body', '/v1/checked', {}, 'this request without a body'],
    ['another field', '/v1/checked', { body: '{"model":"small","x":1}' }, '`/x` of the body is not listed'],
    ['another value', '/v1/checked', { body: '{"model":"large"}' }, '`/model` of the body must be one of'],
    [
      'a number above its limit',
      '/v1/checked',
      { body: '{"model":"small","n":4}' },
      '`/n` of the body must be at most 3',
    ],
    [
      'a number as a form',
      '/v1/checked',
      { body: new URLSearchParams('model=small&n=4') },
      '`/n` of the body must be at most 3',
    ],
  ] as [string, string, RequestInit, string][])(
    '%s that is not listed is named',
    async (_, path, init, what) => {
      const headers = typeof init.body === 'string' ? { 'Content-Type': 'application/json' } : {};
      const response = await send(path, { ...init, headers: { ...headers, ...(init.headers as object) } });
      const { code, detail } = (await response.json()) as Record<string, string>;
      expect([response.status, code]).toEqual([400, 'request_not_listed']);
      expect(detail).toContain(what);
      expect(receiver.received).toEqual([]);
    },
  );

  test('a body that meets the schema is sent', async () => {
    receiver.answer((socket) => socket.write(json({})));
    for (const body of [
      new URLSearchParams('model=small&n=3'),
      new Blob(['{"model":"small"}'], { type: 'application/json' }),
    ])
      expect((await send('/v1/checked', { body })).status).toBe(200);
  });

  test('a reply that is not JSON is an error, and not an empty 200', async () => {
    receiver.answer((socket) =>
      socket.write(json('<html>', 'HTTP/1.1 200 OK').replace('application/json', 'text/html')),
    );
    const response = await send('/v1/files/a', { body: 'a' });
    const body = await response.json();
    expect([response.status, body]).toEqual([
      502,
      expect.objectContaining({ code: 'destination_failed', sent: true }),
    ]);
    expect(response.headers.get('x-should-retry')).toBe('false');
  });
});
