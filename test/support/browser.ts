/** A real browser, without a window. Where none is installed, its tests are skipped. */
import { existsSync } from 'node:fs';
import { type Browser, chromium } from 'playwright-core';
import { isMissing } from './skip.ts';

const names = ['chromium', 'chromium-browser', 'google-chrome-stable', 'google-chrome', 'microsoft-edge'];
const elsewhere = [
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  '/Applications/Chromium.app/Contents/MacOS/Chromium',
];

function findBrowser(): string | undefined {
  const told = process.env.CHROME_PATH;
  if (told) return told;
  const onPath = names.map((name) => Bun.which(name)).find((path) => path !== null);
  return onPath ?? elsewhere.find((path) => existsSync(path));
}

const path = findBrowser();

/** For `describe.skipIf(noBrowser)`. */
export const noBrowser = isMissing(
  path !== undefined,
  'browser tests: no Chromium found (install one, or name one in CHROME_PATH)',
);

/** Chromium refuses to build its sandbox for root, which is who runs tests in many a container. */
export function openBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: path as string, chromiumSandbox: process.getuid?.() !== 0 });
}
