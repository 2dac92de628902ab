/** The SDK where it lives: in the page of a real browser, on another origin than the service. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { authorizeSession, Sallyport, type startSession } from '../../sdk/src/sallyport.ts';
import { noBrowser, openBrowser } from '../support/browser.ts';
import { installSdk } from '../support/install-sdk.ts';
import { openTestServer, sqlite, type TestServer } from '../support/test-server.ts';

/** What the page has at hand. */
declare const sdk: { startSession: typeof startSession; Sallyport: typeof Sallyport };

const minutes = 60_000;

describe.skipIf(noBrowser)('the SDK in a browser', () => {
  let folder: string;
  let world: TestServer;
  let browser: Browser;
  let shop: Bun.Server<undefined>;
  let elsewhere: Bun.Server<undefined>;
  let page: Page;
  let publicKey: string;
  const nonces: string[] = [];

  /** A site: the SDK as it is installed, and a backend that lets a Session in for one customer's masked data. */
  async function site(admin: Sallyport): Promise<Bun.Server<undefined>> {
    const modules = join(folder, 'node_modules/@sallyport/sdk/dist');
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
    folder = mkdtempSync(join(tmpdir(), 'sallyport-browser-'));
    [world, browser] = await Promise.all([openTestServer(sqlite), openBrowser(), installSdk(folder)]);
    const admin = new Sallyport({ url: world.url, key: (await world.tenant()).key });
    [shop, elsewhere] = [await site(admin), await site(admin)];
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
    await browser?.close();
    await Promise.all([shop?.stop(true), elsewhere?.stop(true), world?.close()]);
    rmSync(folder, { recursive: true, force: true });
  });

  /** A page with the SDK loaded, whose clock is the service's, and off by so much. */
  async function open(origin: string, off = 0): Promise<Page> {
    const opened = await browser.newPage();
    await opened.clock.setFixedTime(world.clock.now() + off);
    await opened.goto(origin);
    await opened.waitForFunction(() => 'sdk' in window);
    return opened;
  }

  beforeEach(() => {
    nonces.length = 0;
  });

  /** Starts a Session in the page, and keeps it at hand there as `session`. */
  function begin(of: Page): Promise<string> {
    return of.evaluate(
      async ([url, key]) => {
        const session = await sdk.startSession({
          url: url as string,
          publicKey: key as string,
          authorize: async (nonce) => {
            const answer = await fetch('/authorize', { method: 'POST', body: nonce });
            if (!answer.ok) throw new Error(`the backend says ${answer.status}`);
          },
        });
        Object.assign(window, { session });
        return session.expiresAt.toISOString();
      },
      [world.url, publicKey],
    );
  }

  /** What the Session of the page gets to see of a Token, or how it is refused. */
  function read(of: Page, id: string): Promise<unknown> {
    return of.evaluate(async (token) => {
      const { session } = window as unknown as { session: Awaited<ReturnType<typeof startSession>> };
      const get = session.client.tokens.get(token);
      return get.then(({ data }) => data).catch((error) => `${error.name}: ${error.code}`);
    }, id);
  }

  test('opens both doors from another origin, and reads what the backend has let it', async () => {
    page = await open(shop.url.origin);
    expect(await begin(page)).toBe(new Date(world.clock.now() + 3 * minutes).toISOString());
    expect(await read(page, 'card-42')).toBe('XXXXXXXXXXXX4242');
    expect(await read(page, 'card-43')).toBe('PermissionError: permission_missing');
    expect(nonces).toHaveLength(1);
    await page.close();
  });

  test('renews the Session before it ends, once, however many ask at the same time', async () => {
    page = await open(shop.url.origin);
    await begin(page);
    world.clock.advance(2 * minutes);
    await page.clock.setFixedTime(world.clock.now());
    expect(await read(page, 'card-42')).toBe('XXXXXXXXXXXX4242');
    expect(nonces).toHaveLength(1);
    world.clock.advance(45_000);
    await page.clock.setFixedTime(world.clock.now());
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
  ])(
    'goes on past the end of a Session with a clock that is %s, and asks for no Session too many',
    async (_, off) => {
      page = await open(shop.url.origin, off);
      await begin(page);
      await read(page, 'card-42');
      expect(nonces).toHaveLength(1);
      world.clock.advance(4 * minutes);
      await page.clock.setFixedTime(world.clock.now() + off);
      expect(await Promise.all([read(page, 'card-42'), read(page, 'card-42')])).toEqual([
        'XXXXXXXXXXXX4242',
        'XXXXXXXXXXXX4242',
      ]);
      expect(nonces).toHaveLength(2);
      await page.close();
    },
  );

  test('tells a page of another site why it is refused', async () => {
    page = await open(elsewhere.url.origin);
    const refused = await begin(page).catch(String);
    expect(refused).toContain('origin_refused');
    expect(nonces).toEqual([]);
    await page.close();
  });
});
