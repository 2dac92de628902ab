/** A suite of console tests: one service, one browser and one tab. */
import { afterEach, beforeAll, describe, expect } from 'bun:test';
import type { Browser } from 'playwright-core';
import { noBrowser, openBrowser } from './browser.ts';
import { openTab, type Tab } from './console-tab.ts';
import { openTestServer, sqlite, type TestServer } from './test-server.ts';

export interface ConsoleSuite {
  readonly server: TestServer;
  readonly tab: Tab;
}

/** Defines a suite, which is skipped without a browser. The properties of `suite` are available inside tests only. */
export function describeConsole(
  name: string,
  define: (suite: ConsoleSuite) => void,
  database = sqlite,
  settings: Record<string, string> = {},
): void {
  describe.skipIf(noBrowser)(name, () => {
    let server: TestServer;
    let browser: Browser;
    let tab: Tab;
    beforeAll(async () => {
      [server, browser] = await Promise.all([openTestServer(database, settings), openBrowser()]);
      tab = await openTab(browser, server.url);
    });
    afterEach(async () => {
      await tab.reset();
      expect(tab.violations).toEqual([]);
    });
    define({
      get server() {
        return server;
      },
      get tab() {
        return tab;
      },
    });
  });
}
