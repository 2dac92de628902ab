/** The documentation and the OpenAPI document over HTTP. */
import { describe, expect, test } from 'bun:test';
import { buildDocs } from '../../../docs/site/build.ts';
import { accepts } from '../../../src/http/pipeline/static-file.ts';
import { allRoutes, routes } from '../../../src/http/routes.ts';
import { openTestServer, sqlite } from '../../support/test-server.ts';

const server = await openTestServer(sqlite);

const files = await buildDocs();
const pages = new Map(
  files
    .filter(({ type }) => type.startsWith('text/html'))
    .map(({ path, plain }) => [path, new TextDecoder().decode(plain)]),
);
const idsOn = (html = '') => Array.from(html.matchAll(/ id="([^"]+)"/g), ([, id]) => id as string);

test('pages need no key, and load only files of the service', async () => {
  const { status, headers, body } = await server.call('GET', '/docs');
  expect(status).toBe(200);
  expect(headers.get('content-type')).toBe('text/html; charset=utf-8');
  expect(body).toStartWith('<!doctype html>');
  const policy = headers.get('content-security-policy') ?? '';
  expect(policy).toStartWith("default-src 'none'; ");
  expect(policy).not.toMatch(/unsafe|https?:|\*/);
  expect(headers.get('referrer-policy')).toBe('no-referrer');
  expect(headers.get('cross-origin-opener-policy')).toBe('same-origin');
  for (const html of pages.values()) expect(html).not.toMatch(/ style=| on[a-z]+="|<script>|<style>/);
});

test('the root redirects to the documentation', async () => {
  const response = await fetch(server.url, { redirect: 'manual' });
  expect(response.status).toBe(302);
  expect(response.headers.get('location')).toBe('/docs');
});

test.each(['/docs/nothing', '/docs/reference', '/docs/README', '/docs/..%2fpackage', '/docs/site/build.ts'])(
  '%s is not found',
  async (path) => {
    expect((await server.call('GET', path)).status).toBe(404);
  },
);

test('the type of an error links to its section', async () => {
  const { body } = await server.call('GET', '/applications');
  const [path, anchor] = body.type.split('#');
  const { body: page } = await server.call('GET', path);
  expect(idsOn(page)).toContain(anchor);
});

test('every link and every file of a page exists, and no id is used twice', () => {
  const broken: string[] = [];
  let count = 0;
  for (const [path, html] of pages) {
    const ids = idsOn(html);
    expect([path, ids.filter((id, at) => ids.indexOf(id) !== at)]).toEqual([path, []]);
    for (const [, link = ''] of html.matchAll(/ (?:href|src)="(?!https?:|data:|mailto:)([^"]*)"/g)) {
      const [target, anchor] = link.split('#') as [string, string?];
      const address = target === '' ? path : target;
      const exists =
        address === '/docs' || address.startsWith('/docs/')
          ? files.some((file) => file.path === address)
          : allRoutes.some((route) => route.path === address);
      count++;
      if (!exists || (anchor !== undefined && !idsOn(pages.get(address)).includes(anchor)))
        broken.push(`${path}: ${link}`);
    }
  }
  expect(broken).toEqual([]);
  expect(count).toBeGreaterThan(1000);
});

test('a page describes every operation of the OpenAPI document', async () => {
  const { body: document } = await server.call('GET', '/openapi.json');
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods as object).map(([method, { summary }]) => ({ path, method, summary })),
  );
  const proxied = allRoutes.filter(({ path }) => path.startsWith('/proxy/'));
  expect(operations.length).toBe(routes.length - 1 + proxied.length);
  const page = pages.get('/docs/reference/endpoints') ?? '';
  for (const { path, method, summary } of operations) {
    expect(page).toContain(`>${summary}</a></h3>\n<p><code>${method.toUpperCase()} ${path}</code></p>`);
  }
});

test('all pages and images together are smaller than 2 MB', () => {
  const sizes = files.map(({ plain, brotli }) => (brotli ?? plain).length);
  expect(sizes.reduce((sum, size) => sum + size)).toBeLessThan(2_000_000);
});

describe.each([
  ['/docs', 'text/html; charset=utf-8'],
  ['/openapi.json', 'application/json'],
])('%s', (path, type) => {
  const get = (encoding: string, method = 'GET') =>
    fetch(server.url + path, { method, headers: { 'Accept-Encoding': encoding }, decompress: false });

  test('is compressed for clients that accept it, with the same content', async () => {
    const plain = await get('identity');
    const text = await plain.text();
    expect(plain.headers.get('content-encoding')).toBeNull();
    for (const [accepted, coding, decompress] of [
      ['gzip, deflate', 'gzip', Bun.gunzipSync],
      ['gzip, deflate, br', 'br', (await import('node:zlib')).brotliDecompressSync],
    ] as const) {
      const compressed = await get(accepted);
      expect(compressed.status).toBe(200);
      expect(compressed.headers.get('content-encoding')).toBe(coding);
      expect(compressed.headers.get('content-type')).toBe(type);
      expect(compressed.headers.get('vary')).toBe('Accept-Encoding');
      expect(compressed.headers.get('cache-control')).toBe('no-store');
      const bytes = new Uint8Array(await compressed.arrayBuffer());
      expect(new TextDecoder().decode(decompress(bytes))).toBe(text);
      expect(bytes.length).toBeLessThan(text.length / 2);
    }
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
  expect(accepts(header, 'gzip')).toBe(expected);
});
