/** Headless Chromium and Firefox. Browser tests are skipped if none is installed. */

import { existsSync } from 'node:fs';
import { type Browser, chromium, firefox } from 'playwright-core';
import { closeLater } from './cleanup.ts';
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
export async function openBrowser(): Promise<Browser> {
  const browser = await chromium.launch({
    executablePath: path as string,
    chromiumSandbox: process.getuid?.() !== 0,
  });
  closeLater(() => browser.close());
  return browser;
}

const firefoxPath = process.env.FIREFOX_PATH || Bun.which('firefox-esr') || Bun.which('firefox');

/** For `describe.skipIf(noFirefox)`. */
export const noFirefox = isMissing(
  firefoxPath !== null,
  'browser tests in Firefox: none found (install one, or set FIREFOX_PATH)',
);

interface Protocol {
  send(method: string, parameters: object): Promise<unknown>;
}
interface InProcess {
  readonly _connection: { toImpl(browser: Browser): { readonly _browserSession: Protocol } };
}

/** Frames of other sites share the process of their page. Otherwise clicks and key presses of a test do not reach them. */
const oneProcess = { 'fission.webContentIsolationStrategy': 0 };

/**
 * Starts an unmodified Firefox, which is driven by WebDriver BiDi. Playwright sends every context a command that Firefox
 * ESR does not know yet, and which only emulates color schemes: it is left out.
 */
export async function openFirefox(): Promise<Browser> {
  const browser = await firefox.launch({
    channel: 'moz-firefox',
    executablePath: firefoxPath as string,
    firefoxUserPrefs: oneProcess,
  });
  const { _browserSession: session } = (browser as unknown as InProcess)._connection.toImpl(browser);
  const send = session.send.bind(session);
  session.send = async (method, parameters) =>
    method === 'emulation.setMediaFeaturesOverride' ? {} : send(method, parameters);
  return browser;
}
