/** The files of the console, as the service gives them out. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { dirname, join } from 'node:path';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { buildConsole, type ConsoleFile } from '../../../console/build.ts';
import { rawRequest, sendRaw } from '../../support/raw-http.ts';
import { openTestServer, sqlite, type TestServer } from '../../support/test-server.ts';

let world: TestServer;
let files: ConsoleFile[];
let html: string;

beforeAll(async () => {
  [world, files] = await Promise.all([openTestServer(sqlite), buildConsole()]);
  html = await (await get('/console')).text();
});
afterAll(() => world.close());

function get(path: string, encoding = 'identity'): Promise<Response> {
  return fetch(world.url + path, { headers: { 'Accept-Encoding': encoding }, decompress: false });
}

const textOf = ({ plain }: ConsoleFile) => new TextDecoder().decode(plain);

describe('the console', () => {
  test('is a page that needs no key, with and without a slash at its end', async () => {
    expect(html).toStartWith('<!doctype html>');
    expect(await (await get('/console/')).text()).toBe(html);
    const response = await get('/console');
    const { headers } = response;
    expect(await response.text()).toBe(html);
    expect(headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(headers.get('cache-control')).toBe('no-store');
  });

  test('opens whatever the Host header is, and without one', async () => {
    expect((await rawRequest(world.url, 'GET /console', ['Host: a b'])).status).toBe(200);
    expect(await sendRaw(world.url, 'GET /console HTTP/1.0\r\n\r\n')).toStartWith('HTTP/1.1 200');
  });

  test('may run nothing inline, load nothing from elsewhere and be framed by nobody', async () => {
    const policy = (await get('/console')).headers.get('content-security-policy') ?? '';
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

  test('names only files that are there, of their types, to be kept for ever', async () => {
    const named = [...html.matchAll(/"(\/console\/[^"]+)"/g)].map((match) => match[1] as string);
    expect(named).toHaveLength(2);
    for (const path of named) {
      const response = await get(path);
      const { headers } = response;
      expect((await response.text()).length).toBeGreaterThan(1000);
      expect(headers.get('content-type')).toMatch(path.endsWith('.css') ? /^text\/css/ : /^text\/javascript/);
      expect(headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
    }
  });

  test('has nothing else to give out', async () => {
    const paths = ['/console/main.js', '/console/..%2fpackage.json', '/console/a/b', '/console/console'];
    for (const path of paths) expect((await get(path)).status).toBe(404);
    expect((await fetch(`${world.url}/console`, { method: 'POST' })).status).toBe(405);
  });

  test('is sent as small as the browser can take it', async () => {
    const script = /\/console\/main-\w+\.js/.exec(html)?.[0] as string;
    const plain = await (await get(script)).text();
    const zipped = await get(script, 'gzip, deflate');
    const pressed = await get(script, 'gzip, deflate, br');
    expect(zipped.headers.get('content-encoding')).toBe('gzip');
    expect(pressed.headers.get('content-encoding')).toBe('br');
    expect(gunzipSync(await zipped.arrayBuffer()).toString() === plain).toBe(true);
    expect(brotliDecompressSync(await pressed.arrayBuffer()).toString() === plain).toBe(true);
  });

  test('loads at most 200 kB of compressed script at first', () => {
    const first = new Set(files.filter(({ path }) => html.includes(`src="${path}"`)));
    for (const file of first) {
      for (const [, path] of textOf(file).matchAll(/(?:from|import)\s*"(\/console\/[^"]+\.js)"/g)) {
        first.add(files.find((other) => other.path === path) as ConsoleFile);
      }
    }
    const size = [...first].reduce((sum, { gzip }) => sum + gzip.length, 0);
    expect(size).toBeGreaterThan(50_000);
    expect(size).toBeLessThan(200_000);
  });

  test('is the same, name by name, whoever makes it', async () => {
    const again = await buildConsole();
    expect(again.map(({ path }) => path)).toEqual(files.map(({ path }) => path));
  });
});

describe('the link of a first start', () => {
  const take = (code: unknown) => world.call('POST', '/console/link', { body: { code } });

  test('gives the first key to the first who shows its code, and to nobody after', async () => {
    const code = world.app.link?.reveal();
    expect((await take(`slp_non_${'x'.repeat(49)}`)).status).toBe(404);
    const { status, body } = await take(code);
    expect(status).toBe(200);
    expect((await world.call('GET', '/applications/key', { key: body.key })).status).toBe(200);
    expect((await take(code)).status).toBe(404);
    expect(world.logged.join()).not.toContain(code as string);
  });

  test('is over after ten minutes', async () => {
    const other = await openTestServer(sqlite);
    const open = () => other.call('POST', '/console/link', { body: { code: other.app.link?.reveal() } });
    other.clock.advance(600_000);
    expect((await open()).status).toBe(404);
    await other.close();
  });

  test('is not there when nothing was made', async () => {
    const again = await openTestServer(world.config.databaseUrl, {
      SALLYPORT_MANAGEMENT_KEY_FILE: world.config.managementKeyFile,
      SALLYPORT_MASTER_KEY_FILE: join(dirname(world.config.managementKeyFile), 'master.key'),
      SALLYPORT_MASTER_KEY: '',
    });
    expect(again.app.link).toBeUndefined();
    await again.close();
  });
});
