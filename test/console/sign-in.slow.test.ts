import { expect, test } from 'bun:test';
import { describeConsole } from '../support/console-suite.ts';
import { startTime } from '../support/test-server.ts';

const idle = 15 * 60_000;

describeConsole('console sign-in:', (suite) => {
  const signedIn = (page = suite.tab.page) => page.getByRole('navigation', { name: 'Sections' });
  const form = (page = suite.tab.page) => page.getByRole('heading', { name: 'Sign in to Sallyport' });
  const stored = () => suite.tab.page.evaluate(() => JSON.stringify({ ...sessionStorage, ...localStorage }));
  const setTime = (time: number) => suite.tab.context.clock.setFixedTime(time);

  const staySignedIn = async (key: string) => {
    await suite.tab.open();
    await suite.tab.page.getByLabel('Stay signed in').check();
    await suite.tab.signIn(key);
  };

  test('the key is not stored unless the user asks for it', async () => {
    const { key } = await suite.server.tenant();
    await suite.tab.open();
    await suite.tab.signIn(key);
    expect(await stored()).not.toContain('slp_');
    await suite.tab.page.reload();
    await form().waitFor();
    await suite.tab.page.evaluate(() => new Promise((done) => setTimeout(done)));
    expect(await signedIn().count()).toBe(0);
  });

  test('a sign-in with "Stay signed in" survives a reload, reaches new tabs, and ends in all tabs', async () => {
    const { key } = await suite.server.tenant();
    await staySignedIn(key);
    const { page, context } = suite.tab;
    await suite.tab.navigate('#/sessions');
    await page.reload();
    await page.getByRole('heading', { name: 'Sessions', exact: true }).waitFor();
    expect((await context.storageState({ indexedDB: true })).origins).toEqual([]);

    const other = await context.newPage();
    await other.goto(page.url());
    await other.getByRole('heading', { name: 'Sessions', exact: true }).waitFor();
    await page.getByRole('button', { name: `…${key.slice(-4)}` }).click();
    await page.getByRole('menuitem', { name: 'Sign out' }).click();
    await form().waitFor();
    await form(other).waitFor();
    expect(await stored()).not.toContain('slp_');
    await page.reload();
    await form().waitFor();
  });

  test('a tab is locked after idle time, and stays locked', async () => {
    const { key } = await suite.server.tenant();
    await staySignedIn(key);
    const { page } = suite.tab;
    await suite.tab.navigate('#/applications/new');
    await page.getByLabel('Name').fill('half done');
    await setTime(startTime + idle - 1);
    await page.keyboard.press('Shift');
    await setTime(startTime + 2 * idle - 2);
    await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')));
    expect(await signedIn().count()).toBe(1);
    await setTime(startTime + 2 * idle - 1);
    await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')));
    await page.getByText('Locked after 15 minutes without input').waitFor();
    expect(await stored()).not.toContain('slp_');
    await page.reload();
    await page.getByText('Locked after 15 minutes without input').waitFor();
    await suite.tab.signIn(key);
    expect(await page.getByLabel('Name').inputValue()).toBe('half done');
    suite.tab.acceptDialogs(true);
    await page.reload();
    await form().waitFor();
    await setTime(startTime);
  });

  test('a tab that was closed for too long is locked when the browser restores it', async () => {
    const { key } = await suite.server.tenant();
    await staySignedIn(key);
    await setTime(startTime + idle);
    await suite.tab.page.reload();
    await suite.tab.page.getByText('Locked after 15 minutes without input').waitFor();
    expect(await stored()).not.toContain('slp_');
    await setTime(startTime);
  });

  test('a revoked key is removed from the storage of the tab', async () => {
    const { key } = await suite.server.tenant();
    const { id, key: revoked } = await suite.server.application(key, { permissions: ['application:read'] });
    await staySignedIn(revoked);
    await suite.server.call('DELETE', `/applications/${id}`, { key });
    await suite.tab.navigate('#/sessions');
    await suite.tab.page.getByText('the key has expired or was revoked').waitFor();
    expect(await stored()).not.toContain('slp_');
  });

  test('password managers recognize the form, and the theme is remembered', async () => {
    await suite.tab.open();
    const { page } = suite.tab;
    const key = page.getByLabel('Key', { exact: true });
    expect(await key.getAttribute('autocomplete')).toBe('current-password');
    expect(await page.locator('form input[autocomplete="username"]').count()).toBe(1);
    const { key: management } = await suite.server.tenant();
    await suite.tab.signIn(management);
    await page.getByRole('button', { name: 'Switch to dark theme' }).click();
    await page.reload();
    await page.locator('html[data-mantine-color-scheme=dark]').waitFor();
    await page.evaluate(() => localStorage.clear());
  });

  test('search, filter and sorting are in the URL, so back and sharing restore them', async () => {
    const { key } = await suite.server.tenant();
    await suite.server.application(key, { name: 'shop page', type: 'public', permissions: ['token:create'] });
    await suite.server.application(key, { name: 'shop backend' });
    await staySignedIn(key);
    const { page, context } = suite.tab;
    const search = page.getByRole('searchbox', { name: 'Search applications' });
    await search.fill('shop');
    await page.waitForURL(/q=shop/);
    await page.getByRole('button', { name: 'Public' }).click();
    await page.getByRole('link', { name: 'shop backend' }).waitFor({ state: 'detached' });
    await page.getByRole('columnheader', { name: 'Name' }).getByRole('button').click();
    const shared = await context.newPage();
    await shared.goto(page.url());
    await shared.getByRole('link', { name: 'shop page' }).waitFor();
    expect(await shared.getByRole('searchbox').inputValue()).toBe('shop');
    expect(await shared.getByRole('link', { name: 'shop backend' }).count()).toBe(0);
    expect(await shared.getByRole('columnheader', { name: 'Name' }).getAttribute('aria-sort')).toBe(
      'ascending',
    );
    await page.goBack();
    await page.goBack();
    await page.getByRole('link', { name: 'shop backend' }).waitFor();
    expect(await search.inputValue()).toBe('shop');
  });
});
