/** Runs the built SDK in a browser page whose origin differs from the service's. */

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { authorizeSession, Sallyport, type startSession } from '../../sdk/src/sallyport.ts';
import { noBrowser, openBrowser } from '../support/browser.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { installSdk } from '../support/install-sdk.ts';
import { openTestServer, sqlite, type TestServer } from '../support/test-server.ts';

/** Global of the test page. */
declare const sdk: { startSession: typeof startSession; Sallyport: typeof Sallyport };

const minutes = 60_000;

describe.skipIf(noBrowser)('SDK in a browser:', () => {
  let folder: string;
  let server: TestServer;
  let browser: Browser;
  let shop: Bun.Server<undefined>;
  let otherSite: Bun.Server<undefined>;
  let page: Page;
  let publicKey: string;
  const nonces: string[] = [];

  /** Serves a page with the SDK, and a backend that authorizes sessions for one customer's masked data. */
  async function serveSite(admin: Sallyport): Promise<Bun.Server<undefined>> {
    const modules = join(folder, 'node_modules/@sallyport/sdk/dist/esm');
    const start = `<script type="module">window.sdk = await import('/sallyport.js')</script>`;
    return Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: async (request) => {
        const { pathname } = new URL(request.url);
        if (pathname === '/') return new Response(start, { headers: { 'Content-Type': 'text/html' } });
        if (pathname.endsWith('.js')) return new Response(Bun.file(join(modules, pathname)));
        if (pathname !== '/authorize') return new Response(null, { status: 404 });
        const nonce = await request.text();
        nonces.push(nonce);
        const own = { attribute: 'container', operator: 'starts_with', value: '/customers/42/' } as const;
        await authorizeSession(admin, nonce, {
          rules: [{ priority: 1, transform: 'mask', permissions: ['token:read'], conditions: [own] }],
        });
        return new Response(null, { status: 204 });
      },
    });
  }

  beforeAll(async () => {
    folder = temporaryFolder();
    [server, browser] = await Promise.all([openTestServer(sqlite), openBrowser(), installSdk(folder)]);
    const admin = new Sallyport({ url: server.url, key: (await server.tenant()).key });
    [shop, otherSite] = [await serveSite(admin), await serveSite(admin)];
    const web = await admin.applications.create({
      name: 'shop',
      type: 'public',
      permissions: ['token:create'],
      allowed_origins: [shop.url.origin],
    });
    publicKey = web.key;
    const card = { data: '4242424242424242', mask: '{{ data | reveal_last: 4 }}' };
    await admin.tokens.create({ id: 'card-42', container: '/customers/42/', ...card });
    await admin.tokens.create({ id: 'card-43', container: '/customers/43/', ...card });
  });
  afterAll(async () => {
    await Promise.all([shop?.stop(true), otherSite?.stop(true), server?.close()]);
  });

  /** Opens a page with the SDK. Its clock is the service's plus `off` milliseconds. */
  async function open(origin: string, off = 0): Promise<Page> {
    const opened = await browser.newPage();
    await opened.clock.setFixedTime(server.clock.now() + off);
    await opened.goto(origin);
    await opened.waitForFunction(() => 'sdk' in window);
    return opened;
  }

  beforeEach(() => {
    nonces.length = 0;
  });

  /** Starts a session in the page and stores it in `window.session`. */
  function startIn(of: Page): Promise<string> {
    return of.evaluate(
      async ([url, key]) => {
        const session = await sdk.startSession({
          url: url as string,
          publicKey: key as string,
          authorize: async (nonce) => {
            const response = await fetch('/authorize', { method: 'POST', body: nonce });
            if (!response.ok) throw new Error(`the backend returned ${response.status}`);
          },
        });
        Object.assign(window, { session });
        return session.expiresAt.toISOString();
      },
      [server.url, publicKey],
    );
  }

  /** Reads a token with the page's session. Returns its data or the error. */
  function read(of: Page, id: string): Promise<unknown> {
    return of.evaluate(async (token) => {
      const { session } = window as unknown as { session: Awaited<ReturnType<typeof startSession>> };
      const get = session.client.tokens.get(token);
      return get.then(({ data }) => data).catch((error) => `${error.name}: ${error.code}`);
    }, id);
  }

  test('a page on another origin starts a session and reads what the backend authorized', async () => {
    page = await open(shop.url.origin);
    expect(await startIn(page)).toBe(new Date(server.clock.now() + 3 * minutes).toISOString());
    expect(await read(page, 'card-42')).toBe('XXXXXXXXXXXX4242');
    expect(await read(page, 'card-43')).toBe('PermissionError: permission_missing');
    expect(nonces).toHaveLength(1);
    await page.close();
  });

  test('the session is bound to a key that the page cannot export', async () => {
    page = await open(shop.url.origin);
    await page.evaluate(() => {
      const generateKey = crypto.subtle.generateKey.bind(crypto.subtle);
      crypto.subtle.generateKey = (async (...parameters: Parameters<typeof generateKey>) => {
        const pair = await generateKey(...parameters);
        Object.assign(window, { pair });
        return pair;
      }) as typeof generateKey;
    });
    await startIn(page);
    const stolen = await page.evaluate(async () => {
      const { session, pair } = window as unknown as {
        session: Awaited<ReturnType<typeof startSession>>;
        pair: CryptoKeyPair;
      };
      const exported = await crypto.subtle.exportKey('jwk', pair.privateKey).catch(({ name }) => name);
      return { bound: session.bound, exported, key: await session.key() };
    });
    expect(stolen).toMatchObject({ bound: true, exported: 'InvalidAccessError' });
    const thief = await server.call('GET', '/tokens/card-42', { key: stolen.key });
    expect([thief.status, thief.headers.get('www-authenticate')]).toEqual([
      401,
      'DPoP error="invalid_dpop_proof"',
    ]);
    expect(await read(page, 'card-42')).toBe('XXXXXXXXXXXX4242');
    await page.close();
  });

  test('concurrent requests share one renewal', async () => {
    page = await open(shop.url.origin);
    await startIn(page);
    server.clock.advance(2 * minutes);
    await page.clock.setFixedTime(server.clock.now());
    expect(await read(page, 'card-42')).toBe('XXXXXXXXXXXX4242');
    expect(nonces).toHaveLength(1);
    server.clock.advance(45_000);
    await page.clock.setFixedTime(server.clock.now());
    expect(await Promise.all([read(page, 'card-42'), read(page, 'card-42')])).toEqual([
      'XXXXXXXXXXXX4242',
      'XXXXXXXXXXXX4242',
    ]);
    expect(nonces).toHaveLength(2);
    await page.close();
  });

  test.each([
    ['behind', -10 * minutes],
    ['ahead', 10 * minutes],
  ])('a page whose clock is %s renews an expired session once', async (_, off) => {
    page = await open(shop.url.origin, off);
    await startIn(page);
    await read(page, 'card-42');
    expect(nonces).toHaveLength(1);
    server.clock.advance(4 * minutes);
    await page.clock.setFixedTime(server.clock.now() + off);
    expect(await Promise.all([read(page, 'card-42'), read(page, 'card-42')])).toEqual([
      'XXXXXXXXXXXX4242',
      'XXXXXXXXXXXX4242',
    ]);
    expect(nonces).toHaveLength(2);
    await page.close();
  });

  test('a page whose origin is not allowed gets the error code', async () => {
    page = await open(otherSite.url.origin);
    const error = await startIn(page).catch(String);
    expect(error).toContain('origin_refused');
    expect(nonces).toEqual([]);
    await page.close();
  });
});
