/** Checks accessibility, layout and rendering of the console in a browser. */
import { Database } from 'bun:sqlite';
import { afterEach, beforeAll, describe, expect, test } from 'bun:test';
import type { Browser } from 'playwright-core';
import { seed } from '../../demo/seed.ts';
import { noBrowser, openBrowser } from '../support/browser.ts';
import { accessibilityViolations, openTab, type Tab } from '../support/console-tab.ts';
import { openTestServer, sqlite, type TestServer } from '../support/test-server.ts';

describe.skipIf(noBrowser)('console pages:', () => {
  let server: TestServer;
  let browser: Browser;
  let tab: Tab;
  let key: string;
  beforeAll(async () => {
    [server, browser] = await Promise.all([openTestServer(sqlite), openBrowser()]);
    tab = await openTab(browser, server.url);
    ({ key } = await server.tenant());
    await seed({ url: server.url, key, now: server.clock.now });
    await server.application(key, { name: 'x'.repeat(180) });
    await server.flush();
  });
  afterEach(async () => {
    await tab.reset();
    expect(tab.violations).toEqual([]);
  });

  const pages: [name: string, hash: string, text: string][] = [
    ['applications', '#/applications', 'help desk'],
    ['new', '#/applications/new', 'Where will the key be used?'],
    ['preview', '#/preview', 'Stored tokens'],
    ['sessions', '#/sessions', 'Live'],
    ['tokens', '#/tokens', 'customers'],
    ['activity', '#/activity', 'token.create'],
  ];
  const rules = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];

  /** Checks the current page on a desktop, in both color schemes, and on a phone. Returns the violations. */
  const check = async (name: string): Promise<string[]> => {
    const { page } = tab;
    const found = await accessibilityViolations(page, rules);
    // Both color schemes have the same elements, so only colors are checked.
    await tab.setColorScheme('dark');
    found.push(...(await accessibilityViolations(page, ['color-contrast'])));
    await page.setViewportSize({ width: 390, height: 844 });
    await tab.setColorScheme('light');
    found.push(...(await accessibilityViolations(page, rules)));
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (wide > 0) found.push(`${wide} pixels wider than the screen`);
    if (found.length > 0) await tab.screenshot(name);
    await page.setViewportSize({ width: 1280, height: 840 });
    return found.map((violation) => `${name}: ${violation}`);
  };

  test('every page is accessible in both color schemes and fits a phone screen', async () => {
    await tab.open();
    const { page } = tab;
    const found = await check('sign-in');
    await tab.signIn(key);
    const { body } = await server.call('GET', '/applications?name=help', { key });
    const one: (typeof pages)[number] = ['one', `#/applications/${body.data[0].id}`, 'Keys'];
    const edit: (typeof pages)[number] = ['edit', `#/applications/${body.data[0].id}/edit`, 'Access rules'];
    for (const [name, hash, text] of [...pages, one, edit]) {
      await tab.navigate(hash);
      await page.getByText(text).first().waitFor();
      found.push(...(await check(name)));
    }
    expect(found).toEqual([]);
  });

  test('every dialog is accessible in both color schemes and fits a phone screen', async () => {
    await tab.open();
    const { page } = tab;
    await tab.signIn(key);
    const { body } = await server.call('GET', '/applications?name=help', { key });
    const { id } = body.data[0];
    const button = (name: string | RegExp) => page.getByRole('button', { name, exact: true }).first().click();
    const dialogs: [name: string, hash: string, open: () => Promise<void>][] = [
      ['shortcuts', '#/applications', () => button('Keyboard shortcuts')],
      ['quick-open', '#/applications', () => page.keyboard.press('Control+k')],
      ['rotate', `#/applications/${id}`, () => button('Rotate key')],
      [
        'delete',
        `#/applications/${id}`,
        async () => {
          await button('More actions');
          await page.getByRole('menuitem', { name: 'Delete…' }).click();
        },
      ],
      ['token', '#/tokens', () => button(/^card-42/)],
      ['end', '#/sessions', () => button('End')],
      [
        'end several',
        '#/sessions',
        async () => {
          await page.getByLabel('Select all').check();
          await button(/^End \d+ sessions…$/);
        },
      ],
      [
        'removal',
        '#/applications/new',
        async () => {
          await button(/^Backend reader/);
          await page.getByLabel('Container', { exact: true }).fill('/mine/');
          await button(/^Browser collector/);
        },
      ],
      [
        'review',
        `#/applications/${id}/edit`,
        async () => {
          await page.getByLabel('Name').fill('help desk 2');
          await button('Review changes');
        },
      ],
    ];
    const found: string[] = [];
    for (const [name, hash, open] of dialogs) {
      await tab.navigate(hash);
      await open();
      // A dialog gets its name right after it appears.
      await page.locator('[role=dialog]:is([aria-labelledby], [aria-label])').waitFor();
      found.push(...(await check(`${name} dialog`)));
      await page.keyboard.press('Escape');
      await page.getByRole('dialog').waitFor({ state: 'hidden' });
      tab.acceptDialogs(true);
    }
    await tab.navigate(`#/applications/${id}`);
    await button('Rotate key');
    await button('Create key');
    await page.getByLabel('New key', { exact: true }).waitFor();
    await button('Copy key');
    await page.getByRole('dialog').getByText('Copied and verified.').waitFor();
    found.push(...(await check('new key dialog')));
    expect(found).toEqual([]);
  });

  test('names, descriptions and token data are rendered as text, never as HTML', async () => {
    const { key } = await server.tenant();
    const name = `<img src=x onerror="alert(1)"><script>alert(2)</script>"'\${7*7}`;
    const rule = { priority: 1, container: '/pci/', transform: 'mask', permissions: ['token:read'] };
    const { id } = await server.application(key, { name, rules: [{ ...rule, description: name }] });
    await server.call('POST', '/tokens', {
      key,
      body: { data: name, mask: '<b>{{ data | last: 3 }}</b>', metadata: { [name.slice(0, 90)]: name } },
    });
    await tab.open();
    const { page } = tab;
    await tab.signIn(key);
    await page.getByRole('link', { name }).waitFor();
    await tab.navigate(`#/applications/${id}`);
    await page.getByRole('heading', { name, exact: true }).waitFor();
    await tab.navigate(`#/applications/${id}/edit`);
    await page.getByRole('heading', { name: `Edit ${name}` }).waitFor();
    await tab.navigate('#/tokens');
    await page.getByRole('region', { name: 'Tokens in this container' }).getByRole('button').click();
    await page.getByRole('dialog').waitFor();
    expect(await page.locator('img, b, script:not([src])').count()).toBe(0);
  });

  test('a dialog traps the focus and returns it when closed', async () => {
    await tab.open();
    const { page } = tab;
    await tab.signIn(key);
    await page.getByRole('button', { name: 'Keyboard shortcuts' }).focus();
    await page.keyboard.press('Enter');
    const dialog = page.getByRole('dialog', { name: 'Keyboard shortcuts' });
    await dialog.locator(':focus').waitFor();
    for (let presses = 0; presses < 4; presses++) {
      await page.keyboard.press('Tab');
      expect(await dialog.evaluate((node) => node.contains(document.activeElement))).toBe(true);
    }
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'hidden' });
    await page.locator('button:focus').waitFor();
    expect(await page.evaluate(() => document.activeElement?.getAttribute('aria-label'))).toBe(
      'Keyboard shortcuts',
    );
  });

  test('of 50,000 applications, the overview loads the newest ones, and the list shows the first rows before it loads the others', async () => {
    const { key } = await server.tenant();
    const expires_at = new Date(server.clock.now() + 3 * 86_400_000).toISOString();
    await server.application(key, { name: 'old worker', expires_at });
    const { id } = await server.application(key, { name: 'needle' });
    multiply(server.config.databaseUrl.slice('sqlite:'.length), id, 50_000);
    const { page } = tab;
    const pages: string[] = [];
    const advice: string[] = [];
    page.on('request', (request) => {
      if (/\/applications\?/.test(request.url())) pages.push(request.url());
      if (request.url().includes('/access/advice?')) advice.push(request.url());
    });
    await tab.open(`${server.url}/console#/overview`);
    await tab.signIn(key);
    await page.getByText('of the newest 1,000').waitFor();
    await page.getByRole('link', { name: 'Applications 1,000+' }).waitFor();
    await page.getByRole('region', { name: 'Expiries' }).getByText('old worker').waitFor();
    expect(pages.length).toBeLessThan(50);
    expect(advice.length).toBeLessThan(60);
    await page.getByText(/^50,\d+ grants of .* without recorded use in the last 90 days\. /).waitFor();
    const rest = Promise.withResolvers<void>();
    await page.route(/\/applications\?.*start=/, (route) => rest.promise.then(() => route.continue()));
    await tab.reset();
    await tab.open();
    await tab.signIn(key);
    await page.getByText('100 loaded…').waitFor();
    expect(await page.locator('.table-row').count()).toBeGreaterThan(5);
    rest.resolve();
    await page.getByText('50,003 applications').waitFor();
    for (let turn = 0; turn < 10; turn++) await page.mouse.wheel(0, 20_000);
    await page.keyboard.press('/');
    await page.keyboard.type('needle 77', { delay: 10 });
    await page.getByText(/50,003 applications, [\d,]+ shown/).waitFor();
    await page.getByRole('columnheader', { name: 'Name' }).getByRole('button').click();
    const rendered = await page.locator('.table-row').count();
    expect(rendered).toBeGreaterThan(5);
    expect(rendered).toBeLessThan(80);
    await tab.navigate('#/overview');
    await page.getByText('50,003').first().waitFor();
    expect(await page.locator('.map button').count()).toBeLessThan(40);
  });
});

/** Copies a row under other names, which is faster than creating applications through the API. */
function multiply(file: string, id: string, times: number): void {
  const database = new Database(file);
  const row = database.query('select * from applications where id = ?').get(id) as Record<string, string>;
  const columns = Object.keys(row);
  const insert = database.query(
    `insert into applications (${columns.join()}) values (${columns.map(() => '?').join()})`,
  );
  database.transaction(() => {
    for (let index = 0; index < times; index++) {
      const name = `needle ${index}`;
      const copy = { ...row, id: Bun.randomUUIDv7(), name, name_folded: name };
      insert.run(...columns.map((column) => copy[column as keyof typeof copy] as string));
    }
  })();
  database.close();
}
