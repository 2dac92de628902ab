/** Takes the screenshots of the console and of the demo in docs/images, with the demo's data: `npm run screenshots`. */
import { mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { type BackendSettings, startBackend } from '../demo/backend.ts';
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
const settings = Promise.withResolvers<BackendSettings>();
const { backend } = startBackend({ port: 0, settings: settings.promise });
const seeded = await seed({ url: app.url, key, origins: [backend.url.origin] });
settings.resolve({
  serviceUrl: app.url,
  framesUrl: app.url,
  publicKey: seeded.key('shop page'),
  privateKey: seeded.key('shop backend'),
  auditorKey: seeded.key('auditor'),
});
await app.flush();

/** `npm run screenshots -- frames-card` takes only this one. */
const only = process.argv[2];
const browser = await openBrowser();
for (const { name, dark = false, width = 1240, height, prepare } of screenshots) {
  if (only !== undefined && name !== only) continue;
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
if (only === undefined || only === 'frames-card') await takeFrames();
await browser.close();
await backend.stop(true);
await app.close();
rmSync(folder, { recursive: true });

/** The demo's page with frames, after a card was stored, revealed and charged. */
async function takeFrames(): Promise<void> {
  const command = [process.execPath, '--no-env-file', join(import.meta.dirname, '../demo/start.ts')];
  const demo = Bun.spawn(command, {
    env: { ...process.env, PORT: '0' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  for await (const chunk of demo.stdout) {
    output += new TextDecoder().decode(chunk);
    if (output.includes('Ctrl-C')) break;
  }
  const [, url = ''] = /in frames: (\S+)/.exec(output) ?? [];
  const page = await browser.newPage({ viewport: { width: 1100, height: 980 }, reducedMotion: 'reduce' });
  await page.goto(url);
  await page.waitForSelector('body[data-ready]');
  const input = (id: string) => page.frameLocator(`#${id} iframe`).locator('input');
  await input('number').fill('4242 4242 4242 4242');
  await input('expiry').fill(`12/${(new Date().getFullYear() + 2) % 100}`);
  await input('code').fill('123');
  await page.click('#save');
  const revealed = page.frameLocator('#revealed iframe');
  const show = revealed.getByRole('button', { name: 'Show' });
  await show.waitFor();
  while ((await revealed.locator('output').textContent()) === '')
    await show.click({ timeout: 500 }).catch(() => {});
  await page.click('#charge');
  await page.waitForSelector('#charged:not(:empty)');
  await page.waitForSelector('#log li:has-text("token.use.outcome")');
  await page.screenshot({ path: join(images, 'frames-card.png') });
  await page.close();
  demo.kill('SIGTERM');
  await demo.exited;
}
