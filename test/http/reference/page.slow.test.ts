/** The reference page in a browser. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import type { Browser, Page } from 'playwright-core';
import { noBrowser, openBrowser } from '../../support/browser.ts';
import { accessibilityViolations } from '../../support/console-tab.ts';
import { databases, openTestServer, type TestServer } from '../../support/test-server.ts';

describe.skipIf(noBrowser)('the reference page in a browser', () => {
  let server: TestServer;
  let browser: Browser;
  beforeAll(async () => {
    [server, browser] = await Promise.all([openTestServer(databases[0]?.[1] ?? ''), openBrowser()]);
  });
  afterAll(async () => {
    await browser?.close();
    await server?.close();
  });

  /** Fails if the page logs an error, such as a violation of its content security policy. */
  async function withPage(
    work: (page: Page) => Promise<void>,
    options: Parameters<Browser['newContext']>[0] = {},
  ): Promise<void> {
    const context = await browser.newContext(options);
    const page = await context.newPage();
    const errors: string[] = [];
    page.on('pageerror', (error) => errors.push(String(error)));
    page.on('console', (message) => {
      if (message.type() === 'error') errors.push(message.text());
    });
    await page.goto(`${server.url}/docs`);
    await work(page);
    expect(errors).toEqual([]);
    await context.close();
  }

  test('search finds operations by name, path and field, and Enter opens the first result', () =>
    withPage(async (page) => {
      await page.keyboard.press('/');
      await page.keyboard.type('nonce authorize');
      expect(await page.locator('#results a').first().getAttribute('href')).toBe('#authorizeSession');
      expect(await page.locator('#contents').isVisible()).toBe(false);
      await page.keyboard.press('Enter');
      expect(new URL(page.url()).hash).toBe('#authorizeSession');
      await page.locator('#search').fill('/tokens/{id}');
      expect(await page.locator('#results a').count()).toBeGreaterThanOrEqual(3);
      await page.locator('#search').fill('nosuchword');
      expect(await page.locator('#search-status').textContent()).toBe('0 results');
      await page.keyboard.press('Escape');
      expect(await page.locator('#contents').isVisible()).toBe(true);
    }));

  test('sends a request to its own server, with a key that stays in memory', () =>
    withPage(async (page) => {
      const { key } = await server.tenant();
      const operation = page.locator('#getApplicationByKey');
      await operation.getByRole('button', { name: 'Send…' }).click();
      await operation.getByLabel(/^Key/).fill(key);
      await operation.getByRole('button', { name: 'Send GET' }).click();
      await operation.getByRole('status').getByText('"permissions"').waitFor();
      expect(await operation.getByRole('status').innerText()).toStartWith('200');
      const other = page.locator('#listApplications');
      await other.getByRole('button', { name: 'Send…' }).click();
      expect(await other.getByLabel(/^Key/).inputValue()).toBe(key);
      const stored = await page.evaluate(() =>
        JSON.stringify([localStorage, sessionStorage, document.cookie]),
      );
      expect(stored + page.url()).not.toContain(key);
      await page.reload();
      await other.getByRole('button', { name: 'Send…' }).click();
      expect(await other.getByLabel(/^Key/).inputValue()).toBe('');
    }));

  test('a chosen language applies to all examples and is remembered', () =>
    withPage(async (page) => {
      const visible = async () =>
        new Set(
          await page
            .locator('pre[data-language]:visible')
            .evaluateAll((blocks) => blocks.map((block) => block.getAttribute('data-language'))),
        );
      expect(await visible()).toEqual(new Set(['curl']));
      await page.locator('#createToken [data-choose=python]').click();
      expect(await visible()).toEqual(new Set(['python']));
      await page.reload();
      expect(await visible()).toEqual(new Set(['python']));
      const pressed = page.locator('#getToken [aria-pressed=true]');
      expect(await pressed.allTextContents()).toEqual(['Python']);
    }));

  test('examples use the address of the service, and Copy copies the chosen one', () =>
    withPage(
      async (page) => {
        await page.locator('#live [data-choose=javascript]').click();
        await page.locator('#live .copy').first().click();
        const copied = await page.evaluate(() => navigator.clipboard.readText());
        expect(copied).toStartWith(`const response = await fetch('${server.url}/livez')`);
      },
      { permissions: ['clipboard-read', 'clipboard-write'] },
    ));

  test('without scripts, all languages are visible', () =>
    withPage(
      async (page) => {
        const blocks = page.locator('#createToken pre[data-language]');
        expect(await blocks.count()).toBe(3);
        for (const block of await blocks.all()) expect(await block.isVisible()).toBe(true);
        expect(await page.locator('#search').isVisible()).toBe(false);
      },
      { javaScriptEnabled: false },
    ));

  test.each([
    ['wide', 1440, 'light'],
    ['wide', 1440, 'dark'],
    ['narrow', 390, 'light'],
    ['narrow', 390, 'dark'],
  ] as const)('is accessible and does not overflow: %s (%i px), %s', (_, width, colorScheme) =>
    withPage(
      async (page) => {
        expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
        expect(await accessibilityViolations(page, ['wcag2a', 'wcag2aa', 'best-practice'])).toEqual([]);
      },
      { viewport: { width, height: 900 }, colorScheme },
    ),
  );
});
