/** Accessibility of the overview, the access review and the activity page, in both themes, on desktop and phone. */
import { beforeAll, expect, test } from 'bun:test';
import type { Page } from 'playwright-core';
import { seed } from '../../demo/seed.ts';
import { describeConsole } from '../support/console-suite.ts';
import { accessibilityViolations } from '../support/console-tab.ts';

const views: [name: string, hash: string, prepare: (page: Page) => Promise<void>][] = [
  [
    'overview',
    '#/overview',
    async (page) => {
      await page.getByText('without recorded use').waitFor();
      const map = page.getByRole('region', { name: 'Access map' });
      await map.getByRole('button', { name: /^\/customers\// }).click();
      for (const summary of await page.getByText('Show as table').all()) await summary.click();
    },
  ],
  ['who', '#/who?q=/customers/', (page) => page.locator('.who-row').first().waitFor()],
  [
    'access changes',
    '#/who?view=changes&period=30d',
    (page) => page.getByRole('region', { name: 'Gained access' }).waitFor(),
  ],
  [
    'all unused grants',
    '#/who?view=unused',
    (page) => page.getByText(/without recorded use in the last/).waitFor(),
  ],
  ['report', '#/who?view=report', (page) => page.getByRole('button', { name: 'Create report' }).waitFor()],
  ['list', '#/applications', (page) => page.locator('.cell-keys code').first().waitFor()],
  [
    'history',
    '#/applications?q=help%20desk',
    async (page) => {
      await page.getByRole('link', { name: 'help desk' }).click();
      await page.getByRole('region', { name: 'History' }).locator('li').first().waitFor();
    },
  ],
  [
    'unused grants',
    '#/applications?q=payments%20worker',
    async (page) => {
      await page.getByRole('link', { name: 'payments worker' }).click();
      await page.getByRole('region', { name: 'Unused grants' }).getByText('Proposal').waitFor();
    },
  ],
  [
    'form of a public application',
    '#/applications/new',
    async (page) => {
      await page.getByRole('button', { name: /^Browser collector/ }).click();
      await page.getByLabel('Require bound sessions').check();
    },
  ],
  [
    'quarantine',
    '#/who?q=/customers/',
    async (page) => {
      await page.locator('.who-action button').first().click();
      await page.getByRole('dialog').waitFor();
    },
  ],
  [
    'activity',
    '#/activity?period=custom',
    async (page) => {
      await page.locator('.entry-denied .entry-time').first().click();
      await page.getByRole('button', { name: 'Compare with current rules' }).click();
      await page.getByRole('region', { name: 'Decision with current rules' }).waitFor();
      await page.getByText('Show as table').click();
    },
  ],
];

const rules = ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa', 'best-practice'];
/** Both themes have the same elements, so only colors are checked in the dark one. */
const screens = [
  [1280, 'light', rules],
  [390, 'light', rules],
  [1280, 'dark', ['color-contrast']],
  [390, 'dark', ['color-contrast']],
] as const;

describeConsole('console accessibility:', (suite) => {
  let key: string;
  beforeAll(async () => {
    const { server } = suite;
    ({ key } = await server.tenant());
    await seed({ url: server.url, key, now: server.clock.now });
    await server.flush();
  });

  test.each(views)('%s has no violations and fits the screen', async (name, hash, prepare) => {
    const { server, tab } = suite;
    await tab.page.setViewportSize({ width: 1280, height: 840 });
    await tab.open(`${server.url}/console${hash}`);
    await tab.signIn(key);
    await prepare(tab.page);
    const found: string[] = [];
    for (const [width, scheme, only] of screens) {
      await tab.page.setViewportSize({ width, height: 840 });
      await tab.setColorScheme(scheme);
      const wide = await tab.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      if (wide > 0) found.push(`${width} ${scheme}: ${wide} pixels wider than the screen`);
      const violations = await accessibilityViolations(tab.page, [...only]);
      found.push(...violations.map((each) => `${width} ${scheme}: ${each}`));
    }
    if (found.length > 0) await tab.screenshot(name);
    await tab.setColorScheme('light');
    expect(found).toEqual([]);
  });
});
