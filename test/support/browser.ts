/** Headless Chromium. Browser tests are skipped if none is installed. */
import { existsSync } from 'node:fs';
import { type Browser, chromium } from 'playwright-core';
import { isMissing } from './skip.ts';

const names = ['chromium', 'chromium-browser', 'google-chrome-stable', 'google-chrome', 'microsoft-edge'];
const macPaths = [
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  '/Applications/Chromium.app/Contents/MacOS/Chromium',
];

function findBrowser(): string | undefined {
  const configured = process.env.CHROME_PATH;
  if (configured) return configured;
  const onPath = names.map((name) => Bun.which(name)).find((path) => path !== null);
  return onPath ?? macPaths.find((path) => existsSync(path));
}

const path = findBrowser();

/** For `describe.skipIf(noBrowser)`. */
export const noBrowser = isMissing(
  path !== undefined,
  'browser tests: no Chromium found (install one, or set CHROME_PATH)',
);

/** Starts Chromium, without its sandbox if the user is root: the sandbox does not work for root. */
export function openBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: path as string, chromiumSandbox: process.getuid?.() !== 0 });
}
