import { afterEach, describe, expect, test } from 'bun:test';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Page } from 'playwright-core';
import { seed } from '../demo/seed.ts';
import { Sallyport } from '../sdk/src/sallyport.ts';
import { noBrowser, openBrowser } from './support/browser.ts';
import { noOpenssl } from './support/certificates.ts';
import { accessibilityViolations } from './support/console-tab.ts';
import { root } from './support/service.ts';
import { openTestServer, sqlite } from './support/test-server.ts';
import { until } from './support/until.ts';

describe('demo:', () => {
  let running: Bun.Subprocess<'ignore', 'pipe', 'inherit'> | undefined;
  afterEach(async () => {
    running?.kill('SIGTERM');
    await running?.exited;
    running = undefined;
  });

  /** Starts the demo on a free port, like `npm run demo`. */
  async function start() {
    const command = [process.execPath, '--no-env-file', join(root, 'demo/start.ts')];
    const env = { ...process.env, PORT: '0' };
    const demo = Bun.spawn(command, { env, stdio: ['ignore', 'pipe', 'inherit'] });
    running = demo;
    let output = '';
    for await (const chunk of demo.stdout) {
      output += new TextDecoder().decode(chunk);
      if (output.includes('Ctrl-C')) break;
    }
    const [, url, keyFile] = /Demo: (\S+).*management key {2}(\S+)/s.exec(output) ?? [];
    return { demo, url: url as string, folder: dirname(keyFile as string) };
  }

  test('each application sees the seeded data as its rules say', async () => {
    const server = await openTestServer(sqlite);
    const { key } = await server.tenant();
    const seeded = await seed({ url: server.url, key, now: server.clock.now });
    const read = async (name: string, id: string) =>
      (await new Sallyport({ url: server.url, key: seeded.key(name) }).tokens.get(id)).data;
    const card = { number: '4242424242424242', expiry: '01/29', holder: 'Ada Lovelace' };
    expect(await read('payments worker', 'card-42')).toEqual(card);
    expect(await read('payments worker', 'identity-42')).toBeUndefined();
    expect(await read('help desk', 'card-42')).toEqual({ number: 'XXXXXXXXXXXX4242', expiry: '01/29' });
    expect(await read('nightly report', 'card-42')).toBeUndefined();
    const { pagination } = await new Sallyport({ url: server.url, key }).applications.list();
    expect(pagination.total_items).toBe(13);
  });

  test('stops on SIGINT, even if sent twice as npm does, and deletes its data', async () => {
    const { demo, url, folder } = await start();
    expect((await fetch(url)).status).toBe(200);
    expect(existsSync(folder)).toBe(true);
    demo.kill('SIGINT');
    demo.kill('SIGINT');
    expect(await demo.exited).toBe(0);
    expect(existsSync(folder)).toBe(false);
  });

  test.skipIf(noBrowser)('the page creates and authorizes sessions and draws every request', async () => {
    const { url } = await start();
    const browser = await openBrowser();
    const page = await browser.newPage({ reducedMotion: 'reduce' });
    await page.goto(url);
    await page.waitForSelector('body[data-ready]');

    expect(await page.locator('#log li').count()).toBe(0);
    await press(page, 'create', 'no access');
    await page.waitForSelector('#log li:last-child:has-text("session.create")');
    await page.waitForSelector('[role=timer]:has-text("session expires in 5")');
    await press(page, 'read', 'not authorized yet');
    for (const transform of ['mask', 'redact', 'reveal']) {
      await page.click(`label:has(input[value=${transform}])`);
      await page.waitForSelector(`#rules:has-text('"${transform}"')`);
      if (transform !== 'mask') await press(page, 'create', 'no access');
      await press(page, 'authorize', `with ${transform}. Read`);
      await press(page, 'read', 'create a new session to compare');
    }
    await press(page, 'read-other', 'says why');
    await press(page, 'reuse-nonce', 'works once');
    expect(await page.textContent('#seen-mask')).toBe('XXXX XXXX XXXX 4242 · 01/29');
    expect(await page.textContent('#seen-redact')).toBe('redacted');
    expect(await page.textContent('#seen-reveal')).toBe('4242 4242 4242 4242 · 01/29 · Ada Lovelace');

    await page.waitForSelector('#lines li:last-child:has-text("409")');
    const lines = await page.locator('#lines > li .label').allTextContents();
    const key = /slp_[a-z]{3}_\w{4}…\w{4}/g;
    expect(lines.map((line) => line.replace(key, '').trim())).toEqual([
      ...['POST /sessions', '201 Created', 'GET /tokens/card-42', '403 permission_missing'],
      ...authorizedRead,
      ...['POST /sessions', '201 Created', ...authorizedRead],
      ...['POST /sessions', '201 Created', ...authorizedRead],
      ...['GET /tokens/card-43', '403 permission_missing'],
      ...['POST /sessions/authorize', 'POST /sessions/authorize', '409 nonce_used', '409 nonce_used'],
    ]);
    expect(await page.content()).not.toMatch(/slp_[a-z]{3}_[0-9A-Za-z]{55}/);

    for (const [colorScheme, width] of [
      ['light', 1280],
      ['dark', 390],
    ] as const) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height: 800 });
      expect(await page.locator('#result:visible').innerText()).toBe('409: not authorized');
      expect(await page.locator('#result').evaluate(isInView)).toBe(true);
      expect(await accessibilityViolations(page, ['wcag2a', 'wcag2aa', 'wcag21aa', 'best-practice'])).toEqual(
        [],
      );
    }
  });

  describe.skipIf(noOpenssl)('with a payment provider:', () => {
    test.skipIf(noBrowser)('a card is collected, masked, revealed in a frame and charged', async () => {
      const { url } = await start();
      const browser = await openBrowser();
      const page = await browser.newPage({ reducedMotion: 'reduce' });
      await page.goto(`${url}/card`);
      await page.waitForSelector('body[data-ready]');
      const input = (id: string) => page.frameLocator(`#${id} iframe`).locator('input');
      await input('number').fill('4242 4242 4242 4242');
      await input('expiry').fill(`12/${(new Date().getFullYear() + 2) % 100}`);
      await input('code').fill('123');
      await page.click('#save');
      await page.waitForSelector('#status:has-text("Stored as XXXXXXXXXXXX4242")');
      const revealed = page.frameLocator('#revealed iframe');
      await until('the card is revealed', async () => {
        const show = revealed.getByRole('button', { name: 'Show' });
        await show.click({ timeout: 500 }).catch(() => {});
        return (await revealed.locator('output').textContent())?.startsWith('4242 4242 4242 4242') ?? false;
      });
      await page.click('#charge');
      await page.waitForSelector('#charged:has-text("ch_1 paid")');
      await page.waitForSelector('#requests li:has-text("sallyport → payments")');
      const requests = await page.locator('#requests li').allTextContents();
      expect(requests.map((line) => line.replace(/\{.*/, ''))).toEqual(
        expect.arrayContaining([
          'backend → sallyport: POST /sessions/authorize 204',
          'browser → backend: POST /sessions/authorize-card 204',
          'sallyport → payments: POST /v1/charges 201',
          'backend → sallyport: POST /proxy/payments/v1/charges 201',
          'browser → backend: POST /charge 201',
        ]),
      );
      expect(requests.join()).toContain('"number":"{{ token: ');
      expect(requests.join()).toContain('"number":"16 digits"');
      expect(await page.content()).not.toContain('4242424242424242');
      await page.waitForSelector('#log li:has-text("token.use")');
      expect(await page.locator('#charge').isDisabled()).toBe(true);
      for (const [colorScheme, width] of [
        ['light', 1280],
        ['dark', 390],
      ] as const) {
        await page.emulateMedia({ colorScheme });
        await page.setViewportSize({ width, height: 800 });
        expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
        expect(
          await accessibilityViolations(page, ['wcag2a', 'wcag2aa', 'wcag21aa', 'best-practice']),
        ).toEqual([]);
      }
    });
  });
});

/** The browser calls the backend, which calls Sallyport. Then the browser reads the card from Sallyport. */
const authorizedRead = [
  ...['POST /sessions/authorize', 'POST /sessions/authorize'],
  ...['204 No Content', '204 No Content'],
  ...['GET /tokens/card-42', '200 OK'],
];

function isInView(node: Element): boolean {
  const { top, bottom } = node.getBoundingClientRect();
  return top >= 0 && bottom <= innerHeight;
}

/** Clicks a button and waits for the page's explanation. */
async function press(page: Page, button: string, hint: string): Promise<void> {
  await page.click(`#${button}`);
  await page.waitForSelector(`#hint:has-text("${hint}")`);
  await page.waitForSelector('#create:not([disabled])');
}
