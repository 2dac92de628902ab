/** The documentation in a browser. */
import { beforeAll, describe, expect, test } from 'bun:test';
import type { Browser, Page } from 'playwright-core';
import { noBrowser, openBrowser } from './support/browser.ts';
import { accessibilityViolations } from './support/console-tab.ts';
import { openTestServer, sqlite, type TestServer } from './support/test-server.ts';

describe.skipIf(noBrowser)('the documentation in a browser', () => {
  let server: TestServer;
  let browser: Browser;
  beforeAll(async () => {
    [server, browser] = await Promise.all([openTestServer(sqlite), openBrowser()]);
  });

  /** Fails if the page logs an error, such as a violation of its content security policy. */
  async function withPage(
    path: string,
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
    await page.goto(server.url + path);
    await work(page);
    expect(errors).toEqual([]);
    await context.close();
  }

  test('search finds sections of all pages, first those named by the words, and Enter opens the first', () =>
    withPage('/docs/guides/frames', async (page) => {
      await page.keyboard.press('/');
      await page.keyboard.type('authorize a session');
      const first = page.locator('#site-results a').first();
      await first.waitFor();
      expect(await first.getAttribute('href')).toBe('/docs/reference/endpoints#authorize-a-session');
      expect(await page.locator('#site-contents').isVisible()).toBe(false);
      await page.keyboard.press('Enter');
      await page.waitForURL('**/docs/reference/endpoints#authorize-a-session');
      await page.locator('#site-search').fill('SALLYPORT_USES_PER_TOKEN');
      await first.waitFor();
      await page.locator('#site-search').fill('nosuchword');
      await page.locator('#site-status').getByText('0 results').waitFor();
      await page.keyboard.press('Escape');
      await page.locator('#site-contents').waitFor();
    }));

  test('Copy copies the code of its block', () =>
    withPage(
      '/docs/quick-start',
      async (page) => {
        const block = page.locator('pre').first();
        const code = await block.locator('code').textContent();
        await block.getByRole('button', { name: 'Copy' }).click();
        expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(code as string);
      },
      { permissions: ['clipboard-read', 'clipboard-write'] },
    ));

  test('without scripts, every page is reached by links', () =>
    withPage(
      '/docs',
      async (page) => {
        expect(await page.locator('#site-search').isVisible()).toBe(false);
        await page.getByRole('navigation').getByRole('link', { name: 'Threat model' }).click();
        expect(await page.locator('h1').textContent()).toBe('Threat model');
      },
      { javaScriptEnabled: false },
    ));

  test.each([
    ['/docs', 1440, 'light'],
    ['/docs/reference/endpoints', 1440, 'dark'],
    ['/docs/reference/config', 390, 'light'],
    ['/docs/guides/frames', 390, 'dark'],
  ] as const)('%s is accessible and does not overflow: %i px, %s', (path, width, colorScheme) =>
    withPage(
      path,
      async (page) => {
        expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
        expect(await accessibilityViolations(page, ['wcag2a', 'wcag2aa', 'best-practice'])).toEqual([]);
      },
      { viewport: { width, height: 900 }, colorScheme },
    ),
  );
});
