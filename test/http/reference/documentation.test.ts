/** The OpenAPI document and the reference page over HTTP. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { hash } from 'node:crypto';
import { acceptsGzip } from '../../../src/http/reference/documentation.ts';
import { allRoutes, routes } from '../../../src/http/routes.ts';
import { type ApiResponse, databases, openTestServer, type TestServer } from '../../support/test-server.ts';

let server: TestServer;
let docs: ApiResponse;
beforeAll(async () => {
  server = await openTestServer(databases[0]?.[1] ?? '');
  docs = await server.call('GET', '/docs');
});
afterAll(() => server.close());

test('the page needs no key', () => {
  expect(docs.status).toBe(200);
  expect(docs.headers.get('content-type')).toBe('text/html; charset=utf-8');
  expect(docs.body).toStartWith('<!doctype html>');
});

test('the root redirects to the page', async () => {
  const response = await fetch(server.url, { redirect: 'manual' });
  expect(response.status).toBe(302);
  expect(response.headers.get('location')).toBe('/docs');
});

test('the type of an error links to its entry on the page', async () => {
  const { body } = await server.call('GET', '/applications');
  const [path, anchor] = body.type.split('#');
  const { body: page } = await server.call('GET', path);
  expect(page).toContain(` id="${anchor}"`);
});

test('the content security policy allows only the inline style and script, by hash', () => {
  const policy = docs.headers.get('content-security-policy') ?? '';
  const allowed = [...policy.matchAll(/'(sha256-[^']+)'/g)].map((match) => match[1]);
  const inline = [...docs.body.matchAll(/<(style|script)>(.*?)<\/\1>/gs)].map((match) => match[2] as string);
  expect(inline).toHaveLength(2);
  expect(allowed).toEqual(inline.map((text) => `sha256-${hash('sha256', text, 'base64')}`));
  expect(policy).toStartWith("default-src 'none'; ");
  expect(policy).not.toMatch(/unsafe|https?:|\*/);
  expect(docs.body).not.toMatch(/ style=| on[a-z]+=/);
});

test('the page describes every operation of the document', async () => {
  const { body: document } = await server.call('GET', '/openapi.json');
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods as object).map(([method, { operationId }]) => ({ path, method, operationId })),
  );
  const proxied = allRoutes.filter(({ path }) => path.startsWith('/proxy/'));
  expect(operations.length).toBe(routes.length - 2 + proxied.length);
  for (const { path, method, operationId } of operations) {
    expect(docs.body).toContain(`<article class="operation" id="${operationId}"`);
    const label = `<span class="method ${method}">${method.toUpperCase()}</span> <code>${path}</code>`;
    expect(docs.body).toContain(label);
  }
});

describe.each([
  ['/docs', 'text/html; charset=utf-8'],
  ['/openapi.json', 'application/json'],
])('%s', (path, type) => {
  const get = (encoding: string, method = 'GET') =>
    fetch(server.url + path, { method, headers: { 'Accept-Encoding': encoding }, decompress: false });

  test('is compressed for clients that accept gzip, with the same content', async () => {
    const [plain, compressed] = await Promise.all([get('identity'), get('gzip, deflate, br')]);
    expect(plain.headers.get('content-encoding')).toBeNull();
    expect(compressed.headers.get('content-encoding')).toBe('gzip');
    for (const { status, headers } of [plain, compressed]) {
      expect(status).toBe(200);
      expect(headers.get('content-type')).toBe(type);
      expect(headers.get('vary')).toBe('Accept-Encoding');
      expect(headers.get('cache-control')).toBe('no-store');
    }
    const text = await plain.text();
    const bytes = new Uint8Array(await compressed.arrayBuffer());
    expect(new TextDecoder().decode(Bun.gunzipSync(bytes))).toBe(text);
    expect(bytes.length).toBeLessThan(text.length / 4);
  });

  test('has the same headers and no body for HEAD', async () => {
    const [get_, head] = await Promise.all([get('gzip'), get('gzip', 'HEAD')]);
    expect(head.status).toBe(200);
    for (const name of ['content-type', 'content-encoding', 'content-length', 'vary'])
      expect(head.headers.get(name)).toBe(get_.headers.get(name));
    expect(await head.text()).toBe('');
  });
});

test.each([
  ['gzip', true],
  ['GZIP', true],
  ['x-gzip', true],
  ['br, gzip;q=0.5', true],
  ['*', true],
  ['*;q=0.1, br', true],
  [null, false],
  ['', false],
  ['br', false],
  ['identity', false],
  ['gzip;q=0', false],
  ['gzip ; q=0.0, *', false],
  ['*;q=0', false],
  ['gzipped', false],
])('Accept-Encoding %p accepts gzip: %p', (header, expected) => {
  expect(acceptsGzip(header)).toBe(expected);
});
