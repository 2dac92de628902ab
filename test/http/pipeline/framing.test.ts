import { describe, expect, test } from 'bun:test';
import { rawRequest, sendRaw } from '../../support/raw-http.ts';
import { openTestServer, sqlite } from '../../support/test-server.ts';

const fields = JSON.stringify({ name: 'x', type: 'private', permissions: ['token:read'] });
const length = `Content-Length: ${fields.length}`;
const chunked = 'Transfer-Encoding: chunked';
const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`;
const whole = `${chunk(fields.slice(0, 9))}${chunk(fields.slice(9))}0\r\n\r\n`;

const rejected: [what: string, headers: string[], body: string, status: number][] = [
  ['both a length and chunks', [length, chunked], whole, 400],
  ['two different lengths', [length, 'Content-Length: 3'], fields, 400],
  ['a length with a sign', ['Content-Length: +2'], '{}', 400],
  ['a length below zero', ['Content-Length: -2'], '{}', 400],
  ['a length in hexadecimal', ['Content-Length: 0x2'], '{}', 400],
  ['a huge length', [`Content-Length: ${'9'.repeat(30)}`], '{}', 400],
  ['an unknown coding', ['Transfer-Encoding: xchunked'], whole, 400],
  ['another coding before chunked', ['Transfer-Encoding: gzip, chunked'], whole, 400],
  ['a chunk size that is not a number', [chunked], `zz\r\n${fields}\r\n0\r\n\r\n`, 400],
  ['a huge chunk size', [chunked], `${'f'.repeat(40)}\r\n${fields}`, 400],
  ['a header with a NUL', [length, 'X-Odd: a\u0000b'], fields, 400],
  ['a folded header', [length, 'X-Odd: a\r\n b'], fields, 400],
  ['a header name with a space', [length, 'X Odd: a'], fields, 400],
  ['a space before the colon', [length, 'X-Odd : a'], fields, 400],
  ['an announced body of 2 GB', ['Content-Length: 2000000000'], '', 413],
  ['a header of 40 KB', [length, `X-Odd: ${'a'.repeat(40_000)}`], fields, 431],
  ['a thousand headers', [length, ...Array(1000).fill('X-Odd: a')], fields, 431],
];

describe('framing', async () => {
  const server = await openTestServer(sqlite);
  const key = (await server.tenant()).key;

  const count = async () => (await server.call('GET', '/applications', { key })).body.pagination.total_items;
  const post = (headers: string[], body: string) =>
    rawRequest(
      server.url,
      'POST /applications',
      [`SVC-API-KEY: ${key}`, 'Content-Type: application/json', ...headers],
      body,
    );
  const get = (target: string, headers: string[] = []) =>
    rawRequest(server.url, `GET ${target}`, [`SVC-API-KEY: ${key}`, ...headers]);

  test('a body may have a length or be chunked', async () => {
    expect((await post([length], fields)).status).toBe(201);
    expect((await post([chunked], whole)).status).toBe(201);
  });

  test.each(rejected)(
    '%s is rejected without creating an application',
    async (_what, headers, body, status) => {
      const before = await count();
      expect((await post(headers, body)).status).toBe(status);
      expect(await count()).toBe(before);
    },
  );

  test('a chunked body is read only up to the limit', async () => {
    const before = await count();
    const endless = chunk(' '.repeat(16_384)).repeat(5);
    const { status, body } = await post([chunked], endless);
    expect(status).toBe(413);
    expect(JSON.parse(body).code).toBe('too_large');
    const fits = await post([chunked], `${chunk(' '.repeat(65_536 - fields.length))}${whole}`);
    expect(fits.status).toBe(201);
    expect(await count()).toBe(before + 1);
  });

  test('a body in some small chunks is read, one in too many is not', async () => {
    expect((await post([chunked], `${chunk(' ').repeat(2000)}${whole}`)).status).toBe(201);
    expect((await post([chunked], `${chunk(' ').repeat(3000)}${whole}`)).status).toBe(413);
  });

  test('Expect: 100-continue is answered with 100', async () => {
    const { head, body } = await post([length, 'Expect: 100-continue'], fields);
    expect(head).toStartWith('HTTP/1.1 100 ');
    expect(body).toStartWith('HTTP/1.1 201 ');
  });

  test('a rejected body is not parsed as the next request', async () => {
    const smuggled = `DELETE /applications/key HTTP/1.1\r\nHost: x\r\nSVC-API-KEY: ${key}\r\n\r\n`;
    const head = `POST /applications HTTP/1.1\r\nHost: x\r\nContent-Length: ${smuggled.length}\r\n\r\n`;
    const next = 'GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n';
    const received = await sendRaw(server.url, head + smuggled, next);
    expect(received.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 401', 'HTTP/1.1 200']);
  });

  test('two key headers are rejected, even with the same key', async () => {
    const { status } = await get('/applications', [`SVC-API-KEY: ${key}`]);
    expect(status).toBe(401);
    expect((await get('/applications', ['svc-api-key: x'])).status).toBe(401);
    expect((await get('/applications', ['SVC-API-KEY:'])).status).toBe(401);
  });

  test('white space around a key is ignored', async () => {
    const { status } = await rawRequest(server.url, 'GET /applications', [`svc-api-key:\t ${key} \t`]);
    expect(status).toBe(200);
  });

  test('two Content-Type headers are rejected', async () => {
    const { status } = await post([length, 'Content-Type: application/json'], fields);
    expect(status).toBe(415);
  });

  test('two request id headers are replaced by a new id', async () => {
    const { head } = await get('/livez', ['SVC-REQUEST-ID: a', 'SVC-REQUEST-ID: b']);
    expect(head).toMatch(/SVC-REQUEST-ID: [0-9a-f-]{36}/);
  });

  test.each([
    ['/applications/%6bey', 400],
    ['/applications/key%00', 400],
    ['/applications/%', 400],
    ['/applications/%ff', 400],
    ['/applications/%zz', 400],
    ['/applications/%2e%2e', 400],
    ['/applications/key%2f', 400],
    ['/applications/key;v=1', 400],
    ['/applications/key#x', 400],
    ['/applications/\u00ff', 400],
    ['/applications/key?%', 400],
    ['/applications/key?', 200],
    ['/applications?%6eame=x', 200],
    ['http://elsewhere/applications/key', 200],
    ['/applications/../applications/key', 404],
    ['/applications/./key', 404],
    ['/applications/%2e%2e/key', 404],
    ['/applications%2fkey', 404],
    ['/%61pplications/key', 404],
    ['//applications/key', 404],
    ['/applications\\key', 404],
    ['/applications%00', 404],
    ['*', 400],
    ['applications', 400],
    [`/applications?name=${'a'.repeat(40_000)}`, 431],
    [`/applications/${'a'.repeat(10_000)}`, 400],
  ])('the request target %s gets %d', async (target, status) => {
    expect((await get(target)).status).toBe(status);
  });

  test.each(['', 'a/b?c', 'x?size=1', 'a b', '[::1', 'a:99999', 'user:secret@host', '\u00e9', '../..'])(
    'the Host header %j is ignored',
    async (host) => {
      const headers = [`Host: ${host}`, 'SVC-REQUEST-ID: fixed'];
      const { status, body } = await rawRequest(server.url, 'GET /applications?colour=red', headers);
      expect(status).toBe(401);
      const usual = await rawRequest(server.url, 'GET /applications', ['SVC-REQUEST-ID: fixed']);
      expect(body).toBe(usual.body);
      const found = await get('/applications?size=1', [`Host: ${host}`]);
      expect(JSON.parse(found.body).pagination.page_size).toBe(1);
    },
  );

  test.each(['TRACE', 'CONNECT', 'PROPFIND', 'PURGE', 'QUERY'])('%s gets 405', async (method) => {
    const { status, head } = await rawRequest(server.url, `${method} /applications`, [`SVC-API-KEY: ${key}`]);
    expect(status).toBe(405);
    expect(head).toContain('Allow: POST, GET, HEAD, OPTIONS');
  });

  test.each(['FOO', 'get', 'POSTX', 'G', 'DELETE/'])('the invalid method %s is rejected', async (method) => {
    const received = await sendRaw(
      server.url,
      `${method} /applications HTTP/1.1\r\nHost: x\r\nSVC-API-KEY: ${key}\r\n\r\n`,
    );
    expect(received).not.toContain(' 200 ');
  });
});
