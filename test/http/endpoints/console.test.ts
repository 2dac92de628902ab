/** How the service serves the console. */
import { describe, expect, test } from 'bun:test';
import { dirname, join } from 'node:path';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { buildConsole } from '../../../console/build.ts';
import type { StaticFile } from '../../../src/http/pipeline/static-file.ts';
import { rawRequest, sendRaw } from '../../support/raw-http.ts';
import { openTestServer, sqlite } from '../../support/test-server.ts';

const [server, files] = await Promise.all([openTestServer(sqlite), buildConsole()]);
const html = await (await get('/console')).text();

function get(path: string, encoding = 'identity'): Promise<Response> {
  return fetch(server.url + path, { headers: { 'Accept-Encoding': encoding }, decompress: false });
}

const textOf = ({ plain }: StaticFile) => new TextDecoder().decode(plain);

describe('the console', () => {
  test('is served without a key, with and without a trailing slash', async () => {
    expect(html).toStartWith('<!doctype html>');
    expect(await (await get('/console/')).text()).toBe(html);
    const response = await get('/console');
    const { headers } = response;
    expect(await response.text()).toBe(html);
    expect(headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(headers.get('cache-control')).toBe('no-store');
  });

  test('is served with any Host header, and without one', async () => {
    expect((await rawRequest(server.url, 'GET /console', ['Host: a b'])).status).toBe(200);
    expect(await sendRaw(server.url, 'GET /console HTTP/1.0\r\n\r\n')).toStartWith('HTTP/1.1 200');
  });

  test('forbids inline code, other origins and framing', async () => {
    const { headers } = await get('/console');
    const policy = headers.get('content-security-policy') ?? '';
    expect(headers.get('referrer-policy')).toBe('no-referrer');
    expect(headers.get('cross-origin-opener-policy')).toBe('same-origin');
    expect(policy).not.toContain('unsafe');
    expect(policy.split('; ')).toContainValues([
      "default-src 'none'",
      "script-src 'self'",
      "style-src 'self'",
      "frame-ancestors 'none'",
      "require-trusted-types-for 'script'",
    ]);
    expect(html).not.toMatch(/<style|<script(?! type="module" src="\/console\/)|\son\w+=|https?:/);
  });

  test('refers only to existing files, with their types and immutable caching', async () => {
    const named = [...html.matchAll(/"(\/console\/[^"]+)"/g)].map((match) => match[1] as string);
    expect(named).toHaveLength(3);
    for (const path of named) {
      const response = await get(path);
      const { headers } = response;
      expect((await response.text()).length).toBeGreaterThan(1000);
      expect(headers.get('content-type')).toMatch(path.endsWith('.css') ? /^text\/css/ : /^text\/javascript/);
      expect(headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
    }
  });

  test('serves no other files', async () => {
    const paths = ['/console/main.js', '/console/..%2fpackage.json', '/console/a/b', '/console/console'];
    for (const path of paths) expect((await get(path)).status).toBe(404);
    expect((await fetch(`${server.url}/console`, { method: 'POST' })).status).toBe(405);
  });

  test('is compressed as the browser accepts', async () => {
    const script = /\/console\/main-\w+\.js/.exec(html)?.[0] as string;
    const plain = await (await get(script)).text();
    const zipped = await get(script, 'gzip, deflate');
    const pressed = await get(script, 'gzip, deflate, br');
    expect(zipped.headers.get('content-encoding')).toBe('gzip');
    expect(pressed.headers.get('content-encoding')).toBe('br');
    expect(gunzipSync(await zipped.arrayBuffer()).toString() === plain).toBe(true);
    expect(brotliDecompressSync(await pressed.arrayBuffer()).toString() === plain).toBe(true);
  });

  test('loads at most 130 kB of compressed script before the sign-in form', () => {
    const first = new Set(files.filter(({ path }) => path.endsWith('.js') && html.includes(`"${path}"`)));
    for (const file of first) {
      for (const [, path] of textOf(file).matchAll(/(?:from|import)\s*"(\/console\/[^"]+\.js)"/g)) {
        first.add(files.find((other) => other.path === path) as StaticFile);
      }
    }
    const size = [...first].reduce((sum, { gzip }) => sum + (gzip?.length ?? 0), 0);
    expect(size).toBeGreaterThan(50_000);
    expect(size).toBeLessThan(130_000);
  });

  test('has at most 287 kB of compressed script in total', () => {
    const scripts = files.filter(({ path }) => path.endsWith('.js'));
    const size = scripts.reduce((sum, { brotli }) => sum + (brotli?.length ?? 0), 0);
    expect(scripts.length).toBeGreaterThan(5);
    expect(size).toBeLessThan(287_000);
  });

  test('uses only functions that browsers have', () => {
    expect(files.flatMap((file) => textOf(file).match(/.{0,40}\b(?:Buffer|Bun)\b.{0,40}/g) ?? [])).toEqual(
      [],
    );
  });

  test('builds reproducibly', async () => {
    const again = await buildConsole();
    expect(again.map(({ path }) => path)).toEqual(files.map(({ path }) => path));
  });
});

describe('the console link of the first start', () => {
  const take = (code: unknown) => server.call('POST', '/console/link', { body: { code } });

  test('returns the management key once', async () => {
    const code = server.app.link?.reveal();
    expect((await take(`slp_non_${'x'.repeat(55)}`)).status).toBe(404);
    const { status, body } = await take(code);
    expect(status).toBe(200);
    expect((await server.call('GET', '/applications/key', { key: body.key })).status).toBe(200);
    expect((await take(code)).status).toBe(404);
    expect(server.logged.join()).not.toContain(code as string);
  });

  test('expires after ten minutes', async () => {
    const other = await openTestServer(sqlite);
    const open = () => other.call('POST', '/console/link', { body: { code: other.app.link?.reveal() } });
    other.clock.advance(600_000);
    expect((await open()).status).toBe(404);
  });

  test('does not exist if the start created no key', async () => {
    const again = await openTestServer(server.config.databaseUrl, {
      SALLYPORT_MANAGEMENT_KEY_FILE: server.config.managementKeyFile,
      SALLYPORT_MASTER_KEY_FILE: join(dirname(server.config.managementKeyFile), 'master.key'),
      SALLYPORT_MASTER_KEY: '',
    });
    expect(again.app.link).toBeUndefined();
    await again.close();
  });
});
