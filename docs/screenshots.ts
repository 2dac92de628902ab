/** Takes the screenshots of the console in docs/images, with the demo's data: `npm run screenshots`. */
import { mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { seed } from '../demo/seed.ts';
import { openApp } from '../src/app.ts';
import { readConfig } from '../src/config/settings.ts';
import { makeLog } from '../src/telemetry/log.ts';
import { openBrowser } from '../test/support/browser.ts';

interface Screenshot {
  readonly name: string;
  readonly dark?: boolean;
  readonly width?: number;
  readonly height: number;
  /** Brings the page into the state to show. */
  readonly prepare: (page: Page) => Promise<void>;
}

const goTo = (page: Page, fragment: string) =>
  page.evaluate((hash) => {
    location.hash = hash;
  }, fragment);

const screenshots: readonly Screenshot[] = [
  {
    name: 'console-overview',
    height: 1440,
    prepare: async (page) => {
      await page.getByText('without recorded use').waitFor();
      await page.locator('.edge').first().waitFor({ state: 'attached' });
    },
  },
  {
    name: 'console-applications',
    height: 720,
    prepare: async (page) => {
      await goTo(page, '#/applications');
      await page.locator('.cell-keys code').first().waitFor();
    },
  },
  {
    name: 'console-who',
    height: 620,
    prepare: async (page) => {
      await goTo(page, '#/who?q=/customers/');
      await page.locator('.who-row').first().waitFor();
    },
  },
  {
    name: 'console-edit',
    height: 820,
    prepare: async (page) => {
      await goTo(page, '#/applications');
      await page.getByRole('link', { name: 'help desk' }).click();
      await page.getByRole('link', { name: 'Edit' }).click();
      await page.getByText('Reveal', { exact: true }).first().click();
      await page.locator('.resource-changed > button').first().click();
    },
  },
  {
    name: 'console-activity',
    dark: true,
    height: 720,
    prepare: async (page) => {
      await goTo(page, '#/activity?period=1h');
      await page.locator('.entry-denied .entry-time').first().click();
      await page.locator('.entry-details').waitFor();
    },
  },
  {
    name: 'console-phone',
    width: 390,
    height: 720,
    prepare: async (page) => {
      await goTo(page, '#/sessions');
      await page.locator('.session').first().waitFor();
    },
  },
];

const folder = mkdtempSync(join(tmpdir(), 'sallyport-screenshots-'));
const images = join(import.meta.dirname, 'images');
mkdirSync(images, { recursive: true });
const config = readConfig({ env: { PORT: '0', SALLYPORT_DATA_DIR: folder, SALLYPORT_DRAIN: '0' } });
const app = await openApp(config, { log: makeLog({ level: 'error' }) });
const key = (await Bun.file(config.managementKeyFile).text()).trim();
await seed({ url: app.url, key });
await app.flush();

const browser = await openBrowser();
for (const { name, dark = false, width = 1240, height, prepare } of screenshots) {
  const colorScheme = dark ? 'dark' : 'light';
  const page = await browser.newPage({ viewport: { width, height }, colorScheme, reducedMotion: 'reduce' });
  await page.goto(`${app.url}/console`);
  await page.getByLabel('Key', { exact: true }).fill(key);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('navigation', { name: 'Sections' }).waitFor();
  await prepare(page);
  await page.waitForLoadState('networkidle');
  const path = join(images, `${name}.png`);
  await page.screenshot({ path });
  await page.close();
  console.log(`${path} (${Math.round(statSync(path).size / 1024)} kB)`);
}
await browser.close();
await app.close();
rmSync(folder, { recursive: true });
