/** A browser tab with the web console. */
import { join } from 'node:path';
import axe from 'axe-core';
import type { Browser, BrowserContext, Frame, Page } from 'playwright-core';
import { startTime } from './test-server.ts';

/** The folder of the screenshots, which git ignores. */
const pictures = join(import.meta.dirname, '../../dist/screenshots');

export interface Tab {
  readonly page: Page;
  readonly context: BrowserContext;
  /** CSP violations, exceptions, logged errors, dialogs and requests to other origins since `open`. */
  readonly violations: string[];
  /** Opens the console at the list of applications, or another URL, and clears `violations`. */
  open(at?: string): Promise<void>;
  signIn(key: string): Promise<void>;
  navigate(hash: string): Promise<void>;
  /** Emulates the operating system's color scheme. */
  setColorScheme(scheme: 'light' | 'dark'): Promise<void>;
  /** Accepts browser dialogs instead of reporting them as violations. */
  acceptDialogs(accept: boolean): void;
  /** Saves a screenshot for review. */
  screenshot(name: string): Promise<void>;
  /** Leaves the page and accepts "unsaved changes" dialogs, so that the next test can reuse the tab. */
  reset(): Promise<void>;
}

/** Opens a tab whose clock is fixed to the tests' start time. */
export async function openTab(browser: Browser, url: string): Promise<Tab> {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 840 },
    colorScheme: 'light',
    locale: 'en-GB',
    reducedMotion: 'reduce',
    permissions: ['clipboard-read', 'clipboard-write'],
  });
  await context.clock.setFixedTime(startTime);
  await context.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', (event) => {
      console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`);
    });
  });
  const violations: string[] = [];
  context.on('request', (request) => {
    if (!request.url().startsWith(url) && !request.url().startsWith('data:'))
      violations.push(`requested ${request.url()}`);
  });
  const page = await context.newPage();
  page.setDefaultTimeout(120_000);
  page.on('pageerror', (error) => violations.push(`threw ${error.message}`));
  let leaving = false;
  page.on('dialog', (dialog) => {
    if (leaving) return void dialog.accept();
    violations.push(`opened a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('console', (message) => {
    // Chromium logs every response with a status of 400 or more; some tests expect those.
    if (message.type() !== 'error' || message.text().startsWith('Failed to load resource')) return;
    violations.push(message.text());
  });
  return {
    page,
    context,
    violations,
    open: async (at = `${url}/console#/applications`) => {
      violations.length = 0;
      leaving = false;
      await page.goto(at);
    },
    signIn: async (key) => {
      await page.getByLabel('Key', { exact: true }).fill(key);
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.getByRole('navigation', { name: 'Sections' }).waitFor();
    },
    navigate: async (hash) => {
      await page.evaluate((next) => {
        location.hash = next;
      }, hash);
    },
    setColorScheme: async (colorScheme) => {
      await page.emulateMedia({ colorScheme });
      await page.locator(`html[data-mantine-color-scheme=${colorScheme}]`).waitFor();
      // Waiting for animations would not end if one of them is infinite or the browser draws no frames.
      await page.evaluate(() => {
        for (const animation of document.getAnimations())
          if (animation.effect?.getComputedTiming().endTime === Infinity) animation.cancel();
          else animation.finish();
      });
    },
    acceptDialogs: (accept) => {
      leaving = accept;
    },
    screenshot: async (name) => {
      const path = join(pictures, `${name}.png`);
      // If Chromium loses a frame, for example on a machine that stands still, it waits for it without end.
      for (let attempt = 1; attempt < 4; attempt++) {
        const taken = page.screenshot({ path, timeout: 20_000 });
        if (await taken.catch(() => undefined)) return;
      }
      await page.screenshot({ path });
    },
    reset: async () => {
      leaving = true;
      for (const other of context.pages()) if (other !== page) await other.close();
      await page.evaluate(() => sessionStorage.clear()).catch(() => undefined);
      await page.goto('about:blank');
    },
  };
}

/** The accessibility violations that axe finds with these rules. */
export async function accessibilityViolations(page: Page | Frame, only: string[]): Promise<string[]> {
  if (!(await page.evaluate(() => 'axe' in globalThis))) await page.evaluate(axe.source);
  const { violations } = await page.evaluate((rules) => {
    const { axe } = globalThis as unknown as { axe: typeof import('axe-core') };
    // Elements behind an open dialog cannot be used until it is closed.
    const dialog = document.querySelector('[aria-modal="true"]');
    return axe.run(dialog ?? document, { resultTypes: ['violations'], runOnly: rules });
  }, only);
  return violations.map(
    ({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 160)).join(' | ')}`,
  );
}
