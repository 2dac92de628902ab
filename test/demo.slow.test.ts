import { afterEach, describe, expect, test } from 'bun:test';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Page } from 'playwright-core';
import { seed } from '../demo/seed.ts';
import { Sallyport } from '../sdk/src/sallyport.ts';
import { noBrowser, openBrowser } from './support/browser.ts';
import { root } from './support/service.ts';
import { openTestServer, sqlite } from './support/test-server.ts';

describe('the demo', () => {
  let running: Bun.Subprocess<'ignore', 'pipe', 'inherit'> | undefined;
  afterEach(async () => {
    running?.kill('SIGTERM');
    await running?.exited;
    running = undefined;
  });

  /** As `npm run demo` starts it, on a free port. */
  async function start() {
    const command = [process.execPath, '--no-env-file', join(root, 'demo/start.ts')];
    const env = { ...process.env, PORT: '0' };
    const demo = Bun.spawn(command, { env, stdio: ['ignore', 'pipe', 'inherit'] });
    running = demo;
    let said = '';
    for await (const chunk of demo.stdout) {
      said += new TextDecoder().decode(chunk);
      if (said.includes('Ctrl-C')) break;
    }
    const [, url, keyFile] = /is on (\S+).*management key {2}(\S+)/s.exec(said) ?? [];
    return { demo, url: url as string, folder: dirname(keyFile as string) };
  }

  test('fills a tenant in which everyone sees what they are there for', async () => {
    const server = await openTestServer(sqlite);
    const { key } = await server.tenant();
    const seeded = await seed({ url: server.url, key, now: server.clock.now });
    const see = async (name: string, id: string) =>
      (await new Sallyport({ url: server.url, key: seeded.key(name) }).tokens.get(id)).data;
    const card = { number: '4242424242424242', expiry: '01/29', holder: 'Ada Lovelace' };
    expect(await see('payments worker', 'card-42')).toEqual(card);
    expect(await see('payments worker', 'identity-42')).toBeUndefined();
    expect(await see('help desk', 'card-42')).toEqual({ number: 'XXXXXXXXXXXX4242', expiry: '01/29' });
    expect(await see('nightly report', 'card-42')).toBeUndefined();
    const { pagination } = await new Sallyport({ url: server.url, key }).applications.list();
    expect(pagination.total_items).toBe(13);
    await server.close();
  });

  test('ends when it is told to, if twice at once as under npm, and leaves nothing behind', async () => {
    const { demo, url, folder } = await start();
    expect((await fetch(url)).status).toBe(200);
    expect(existsSync(folder)).toBe(true);
    demo.kill('SIGINT');
    demo.kill('SIGINT');
    expect(await demo.exited).toBe(0);
    expect(existsSync(folder)).toBe(false);
  });

  test.skipIf(noBrowser)('opens both doors in a browser, and shows every request as it is sent', async () => {
    const { url } = await start();
    const browser = await openBrowser();
    const page = await browser.newPage({ reducedMotion: 'reduce' });
    await page.goto(url);
    await page.waitForSelector('body[data-ready]');

    expect(await page.locator('#log li').count()).toBe(0);
    await press(page, 'create', 'may do nothing');
    await page.waitForSelector('#log li:last-child:has-text("session.create")');
    await page.waitForSelector('[role=timer]:has-text("the Session ends in 5")');
    await press(page, 'read', 'only the first door is open');
    for (const transform of ['mask', 'redact', 'reveal']) {
      await page.click(`label:has(input[value=${transform}])`);
      await page.waitForSelector(`#rules:has-text('"${transform}"')`);
      if (transform !== 'mask') await press(page, 'create', 'may do nothing');
      await press(page, 'hand-over', `as ${transform}. Read`);
      await press(page, 'read', 'see the same card differently');
    }
    await press(page, 'read-other', 'says why');
    await press(page, 'again', 'works once');
    expect(await page.textContent('#seen-mask')).toBe('XXXX XXXX XXXX 4242 · 01/29');
    expect(await page.textContent('#seen-redact')).toBe('nothing');
    expect(await page.textContent('#seen-reveal')).toBe('4242 4242 4242 4242 · 01/29 · Ada Lovelace');

    await page.waitForSelector('#lines li:last-child:has-text("409")');
    const lines = await page.locator('#lines > li .label').allTextContents();
    const key = /slp_[a-z]{3}_\w{4}…\w{4}/g;
    expect(lines.map((line) => line.replace(key, '').trim())).toEqual([
      ...['POST /sessions', '201 Created', 'GET /tokens/card-42', '403 permission_missing'],
      ...letIn,
      ...['POST /sessions', '201 Created', ...letIn],
      ...['POST /sessions', '201 Created', ...letIn],
      ...['GET /tokens/card-43', '403 permission_missing'],
      ...['POST /sessions/authorize', 'POST /sessions/authorize', '409 nonce_used', '409 nonce_used'],
    ]);
    expect(await page.content()).not.toMatch(/slp_[a-z]{3}_[0-9A-Za-z]{49}/);
    await browser.close();
  });
});

/** From the browser to the backend, from there to the vault, and back the same way; then the card. */
const letIn = [
  ...['POST /sessions/authorize', 'POST /sessions/authorize'],
  ...['204 done, nothing to show', '204 done, nothing to show'],
  ...['GET /tokens/card-42', '200 OK'],
];

/** Waits for what the page makes of it. */
async function press(page: Page, button: string, hint: string): Promise<void> {
  await page.click(`#${button}`);
  await page.waitForSelector(`#hint:has-text("${hint}")`);
  await page.waitForSelector('#create:not([disabled])');
}
