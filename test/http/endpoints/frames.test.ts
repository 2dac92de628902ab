/** The origin of the frames: what it serves, to whom, and with which headers. */
import { describe, expect, test } from 'bun:test';
import { gzipSync } from 'node:zlib';
import { buildFrames } from '../../../frames/build.ts';
import { openBound } from '../../support/bound-client.ts';
import { openTestServer, sqlite, type TestServer } from '../../support/test-server.ts';

const frames = 'https://frames.example.com';
const shop = 'https://shop.example';

const server = await openTestServer(sqlite, { SALLYPORT_FRAMES_URL: frames });
const management = (await server.tenant()).key;
const application: { id: string; key: string } = await publicApplication({
  allowed_origins: [shop, 'https://other.example'],
});

function publicApplication(more: object) {
  return server.application(management, { type: 'public', permissions: ['token:create'], ...more });
}

/** Sends a request to the host of the frames. */
function onFrames(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = { Host: 'frames.example.com', ...(init.headers as Record<string, string>) };
  return fetch(server.url + path, { ...init, headers });
}

const frameOf = (key: string, type = 'card-number') => onFrames(`/frames/v1/${type}?application=${key}`);
const codeOf = async (response: Response) => [response.status, (await response.json()).code];

describe('a frame', () => {
  test('may be embedded by the allowed origins of its application, and is not cached', async () => {
    const response = await frameOf(application.key);
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(response.headers.get('cache-control')).toBe('no-store');
    const policy = response.headers.get('content-security-policy') ?? '';
    expect(policy.split('; ')).toEqual([
      "default-src 'none'",
      "script-src 'self'",
      "style-src 'self'",
      "base-uri 'none'",
      "form-action 'none'",
      `frame-ancestors ${shop} https://other.example`,
      "require-trusted-types-for 'script'",
      "trusted-types 'none'",
    ]);
    expect(response.headers.get('permissions-policy')).toContain('camera=()');
    expect(response.headers.get('referrer-policy')).toBe('no-referrer');
    expect(response.headers.get('cross-origin-opener-policy')).toBe('same-origin');
    expect(response.headers.get('set-cookie')).toBeNull();
  });

  test('can connect to the service only if it is the coordinator, and write to the clipboard only if it reveals', async () => {
    const types = ['card-number', 'expiry', 'verification-code', 'iban', 'text', 'reveal', 'coordinator'];
    for (const type of types) {
      const { status, headers } = await frameOf(application.key, type);
      expect([type, status]).toEqual([type, 200]);
      const connects = headers.get('content-security-policy')?.includes("connect-src 'self'");
      expect([type, connects]).toEqual([type, type === 'coordinator']);
      const copies = headers.get('permissions-policy')?.includes('clipboard-write=(self)');
      expect([type, copies]).toEqual([type, type === 'reveal']);
    }
  });

  test('is refused without a valid public key, and without allowed origins', async () => {
    expect(await codeOf(await onFrames('/frames/v1/card-number'))).toEqual([401, 'unauthenticated']);
    const unknown = `slp_pub_${'x'.repeat(55)}`;
    expect(await codeOf(await frameOf(unknown))).toEqual([401, 'unauthenticated']);
    expect(await codeOf(await frameOf(management))).toEqual([403, 'key_type_refused']);
    const open = await publicApplication({});
    expect(await codeOf(await frameOf(open.key))).toEqual([403, 'origin_refused']);
    await server.call('PUT', `/applications/${open.id}`, {
      key: management,
      body: { name: 'shop', permissions: ['token:create'], allowed_origins: [shop] },
    });
    expect((await frameOf(open.key)).status).toBe(200);
    await server.call('DELETE', `/applications/${open.id}`, { key: management });
    expect(await codeOf(await frameOf(open.key))).toEqual([401, 'unauthenticated']);
    expect(server.logged.join()).not.toContain(application.key);
  });

  test('loads files whose names have a hash, and which may be cached for a year', async () => {
    const html = await (await frameOf(application.key)).text();
    const paths = [...html.matchAll(/"(\/frames\/v1\/[^"]+)"/g)].map((match) => match[1] as string);
    expect(paths).toHaveLength(2);
    for (const path of paths) {
      const { status, headers } = await onFrames(path);
      expect([status, headers.get('cache-control')]).toEqual([200, 'public, max-age=31536000, immutable']);
    }
    expect(html).not.toMatch(/<style|<script(?! type="module" src="\/frames\/v1\/)|\son\w+=|https?:/);
  });

  test('has less than 28 kB, and the library of the page less than 8 kB compressed', async () => {
    const files = await buildFrames();
    const scripts = files.filter(({ path }) => path.endsWith('.js'));
    expect(scripts).toHaveLength(4);
    for (const { path, plain } of scripts) {
      expect([path, plain.length < 28_000]).toEqual([path, true]);
      if (path.endsWith('sdk.js')) expect(gzipSync(plain).length).toBeLessThan(8000);
    }
    expect((await buildFrames()).map(({ path }) => path)).toEqual(files.map(({ path }) => path));
  });
});

describe('the origin of the frames', () => {
  test('serves neither the console nor the rest of the API, and the other origin serves no frames', async () => {
    const paths = [
      '/',
      '/console',
      '/docs',
      '/openapi.json',
      '/applications',
      '/tokens/search',
      '/logs',
      '/livez',
    ];
    for (const path of paths) expect([path, (await onFrames(path)).status]).toEqual([path, 404]);
    expect((await onFrames('/tokens', { headers: { 'SVC-API-KEY': management } })).status).toBe(405);
    const elsewhere = await server.call('GET', `/frames/v1/card-number?application=${application.key}`);
    expect(elsewhere.status).toBe(404);
    expect((await server.call('GET', '/permissions')).status).toBe(200);
  });

  test('does not exist without the setting', async () => {
    const other = await openTestServer(sqlite);
    const request = { headers: { Host: 'frames.example.com' } };
    expect((await other.call('GET', '/frames/v1/card-number', request)).status).toBe(404);
    expect((await other.call('GET', '/permissions', request)).status).toBe(200);
  });

  const create = (headers: Record<string, string>, key = application.key) =>
    onFrames('/sessions', { method: 'POST', headers: { 'SVC-API-KEY': key, ...headers } });

  test('accepts calls of frames whose page has an allowed origin, and no others', async () => {
    const inFrame = { Origin: frames, 'SVC-FRAME-ANCESTOR': shop };
    expect((await create(inFrame)).status).toBe(201);
    const refused: Record<string, string>[] = [
      { Origin: frames },
      { Origin: frames, 'SVC-FRAME-ANCESTOR': 'https://evil.example' },
      { Origin: frames, 'SVC-FRAME-ANCESTOR': frames },
      { Origin: shop, 'SVC-FRAME-ANCESTOR': shop },
      { Origin: 'null', 'SVC-FRAME-ANCESTOR': shop },
      {},
    ];
    for (const headers of refused)
      expect(await codeOf(await create(headers))).toEqual([403, 'origin_refused']);
    const open = await publicApplication({});
    expect(await codeOf(await create(inFrame, open.key))).toEqual([403, 'origin_refused']);
    // A page cannot send the header: the preflight does not allow it.
    const preflight = await onFrames('/sessions', { method: 'OPTIONS', headers: { Origin: shop } });
    expect(preflight.headers.get('access-control-allow-headers')?.toLowerCase()).not.toContain('ancestor');
  });

  test('elsewhere, the origin of the frames is an origin like any other', async () => {
    const headers = { Origin: frames, 'SVC-FRAME-ANCESTOR': shop };
    const { body } = await server.call('POST', '/sessions', { key: application.key, headers });
    expect(body.code).toBe('origin_refused');
  });

  test('expects DPoP proofs for its own URL', async () => {
    const headers = { Host: 'frames.example.com', 'SVC-FRAME-ANCESTOR': shop };
    const call: TestServer['call'] = (method, path, options) => {
      const isBackend = path === '/sessions/authorize';
      return server.call(method, path, {
        ...options,
        headers: { ...(!isBackend && headers), ...options?.headers },
      });
    };
    const grant = { key: management, permissions: ['token:create', 'token:read'] };
    const client = await openBound({ url: frames, call }, application.key, grant);
    const created = await client.call('POST', '/tokens', { body: { data: '4242', container: '/cards/' } });
    expect(created.status).toBe(201);
    const path = `/tokens/${created.body.id}`;
    expect((await client.call('GET', path)).status).toBe(200);
    const elsewhere = { proof: { url: server.url + path } };
    expect((await client.call('GET', path, elsewhere)).status).toBe(401);
    const withoutPage = { headers: { 'SVC-FRAME-ANCESTOR': 'https://evil.example' } };
    expect((await client.call('GET', path, withoutPage)).body.code).toBe('origin_refused');
  });
});
