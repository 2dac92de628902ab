/** The console in a real browser: what it looks like, for everyone, with anything in it. */
import { Database } from 'bun:sqlite';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test';
import type { Browser } from 'playwright-core';
import { seed } from '../../demo/seed.ts';
import { noBrowser, openBrowser } from '../support/browser.ts';
import { accessibilityViolations, openTab, type Tab } from '../support/console-tab.ts';
import { openTestServer, sqlite, type TestServer } from '../support/test-server.ts';

describe.skipIf(noBrowser)('the console', () => {
  let world: TestServer;
  let browser: Browser;
  let tab: Tab;
  let key: string;
  beforeAll(async () => {
    [world, browser] = await Promise.all([openTestServer(sqlite), openBrowser()]);
    tab = await openTab(browser, world.url);
    ({ key } = await world.tenant());
    await seed({ url: world.url, key, now: world.clock.now });
    await world.application(key, { name: 'x'.repeat(180) });
    await world.flush();
  });
  afterAll(async () => {
    await browser.close();
    await world.close();
  });
  afterEach(async () => {
    await tab.reset();
    expect(tab.violations).toEqual([]);
  });

  const pages: [name: string, place: string, shows: string][] = [
    ['applications', '#/applications', 'help desk'],
    ['new', '#/applications/new', 'Where does this code run?'],
    ['preview', '#/preview', 'Its key would see'],
    ['sessions', '#/sessions', 'Look again'],
    ['tokens', '#/tokens', 'customers'],
    ['activity', '#/activity', 'token.create'],
  ];
  /** Of the same parts as others, in the same colors. */
  const twins = ['preview', 'sessions', 'tokens'];

  test('has nothing on any page that keeps somebody out, in light, in dark or on a phone', async () => {
    await tab.open();
    const { page } = tab;
    const found: Record<string, string[]> = {};
    const look = async (at: string, rules: string[]) => {
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      found[at] = await accessibilityViolations(page, rules);
      if (wide > 0) found[at].push(`is ${wide} pixels wider than the screen`);
      if (found[at].length > 0) await tab.screenshot(at);
    };
    const lookThrice = async (name: string) => {
      await look(`${name}-light`, ['wcag2a', 'wcag2aa', 'wcag21aa']);
      await page.setViewportSize({ width: 390, height: 844 });
      await look(`${name}-phone`, []);
      await page.setViewportSize({ width: 1280, height: 840 });
      if (twins.includes(name)) return;
      // The elements are the same, so only what is different is looked at.
      await tab.setColorScheme('dark');
      await look(`${name}-dark`, ['color-contrast']);
      await tab.setColorScheme('light');
    };
    await lookThrice('sign-in');
    await tab.signIn(key);
    const { body } = await world.call('GET', '/applications?name=help', { key });
    const one: (typeof pages)[number] = ['one', `#/applications/${body.data[0].id}`, 'Keys'];
    for (const [name, place, shows] of [...pages, one]) {
      await tab.navigate(place);
      await page.getByText(shows).first().waitFor();
      await lookThrice(name);
    }
    expect(Object.keys(found)).toHaveLength(3 * 8 - twins.length);
    expect(Object.entries(found).filter(([, barriers]) => barriers.length > 0)).toEqual([]);
  }, 60_000);

  test('shows names and descriptions as text, whatever they hold', async () => {
    const { key } = await world.tenant();
    const name = `<img src=x onerror="alert(1)"><script>alert(2)</script>"'\${7*7}`;
    const rule = { priority: 1, container: '/pci/', transform: 'mask', permissions: ['token:read'] };
    const { id } = await world.application(key, { name, rules: [{ ...rule, description: name }] });
    await world.call('POST', '/tokens', {
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
    await page
      .getByRole('button', { name: /general/ })
      .last()
      .click();
    await page.getByRole('dialog').waitFor();
    expect(await page.locator('img, b, script:not([src])').count()).toBe(0);
  });

  test('says so when the service has been upgraded under an open page', async () => {
    await tab.open();
    const { page, context } = tab;
    await tab.signIn(key);
    await context.route(/\/console\/part-/, (route) => route.fulfill({ status: 404 }));
    await tab.navigate('#/sessions');
    await page.getByText('The service has a newer console').waitFor();
    await context.unroute(/\/console\/part-/);
    await tab.navigate('#/applications');
    await page.getByRole('link', { name: 'help desk' }).waitFor();
    // React says of what it has caught that it was thrown.
    tab.violations.length = 0;
  });

  test('keeps the focus in a dialog, and gives it back', async () => {
    await tab.open();
    const { page } = tab;
    await tab.signIn(key);
    await page.getByRole('button', { name: 'Keyboard' }).focus();
    await page.keyboard.press('Enter');
    const dialog = page.getByRole('dialog', { name: 'Keyboard' });
    await dialog.locator(':focus').waitFor();
    for (let presses = 0; presses < 4; presses++) {
      await page.keyboard.press('Tab');
      expect(await dialog.evaluate((node) => node.contains(document.activeElement))).toBe(true);
    }
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'hidden' });
    await page.locator('button:focus').waitFor();
    expect(await page.evaluate(() => document.activeElement?.getAttribute('aria-label'))).toBe('Keyboard');
  });

  test('draws only the visible rows of ten thousand Applications', async () => {
    const { key } = await world.tenant();
    const { id } = await world.application(key, { name: 'needle' });
    multiply(world.config.databaseUrl.slice('sqlite:'.length), id, 10_000);
    await tab.open();
    const { page } = tab;
    await tab.signIn(key);
    await page.getByText('10,002 Applications').waitFor();
    for (let turn = 0; turn < 10; turn++) await page.mouse.wheel(0, 20_000);
    await page.keyboard.press('/');
    await page.keyboard.type('needle 77', { delay: 10 });
    await page.getByText(/10,002 Applications, \d+ shown/).waitFor();
    await page.getByRole('columnheader', { name: 'Name' }).getByRole('button').click();
    const drawn = await page.locator('.table-row').count();
    expect(drawn).toBeGreaterThan(5);
    expect(drawn).toBeLessThan(80);
  });
});

/** The same row again and again, under other names: what the API would take long for. */
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
      const own = { ...row, id: Bun.randomUUIDv7(), name, name_folded: name };
      insert.run(...columns.map((column) => own[column as keyof typeof own] as string));
    }
  })();
  database.close();
}
