/** The console in a real browser: what people do with it. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test';
import type { Browser } from 'playwright-core';
import { noBrowser, openBrowser } from '../support/browser.ts';
import { openTab, type Tab } from '../support/console-tab.ts';
import { openTestServer, sqlite, startTime, type TestServer } from '../support/test-server.ts';

describe.skipIf(noBrowser)('in the console', () => {
  let world: TestServer;
  let browser: Browser;
  let tab: Tab;
  beforeAll(async () => {
    [world, browser] = await Promise.all([openTestServer(sqlite), openBrowser()]);
    tab = await openTab(browser, world.url);
  });
  afterAll(async () => {
    await browser.close();
    await world.close();
  });
  afterEach(async () => {
    await tab.reset();
    expect(tab.violations).toEqual([]);
  });

  const statusOf = async (key: string) => (await world.call('GET', '/applications/key', { key })).status;

  test('an Application is created, edited, rotated and deleted', async () => {
    const { key } = await world.tenant();
    await tab.open();
    const { page } = tab;
    await tab.signIn(key);
    await page.keyboard.press('c');
    await page.getByRole('button', { name: /^Backend reader/ }).click();
    await page.getByLabel('Name').fill('card reader');
    await page
      .getByRole('button', { name: 'application:read' })
      .or(page.getByLabel('application:read'))
      .check();
    await page.getByRole('button', { name: '7 days' }).click();
    await page.getByRole('button', { name: 'Review and create' }).click();
    const summary = page.getByRole('dialog');
    expect(await summary.innerText()).toContain('reveal in /customers/: token:read');
    await summary.getByRole('button', { name: 'Create' }).click();

    const made = page.getByRole('dialog', { name: 'The key of card reader' });
    const first = await made.getByLabel('The new key', { exact: true }).inputValue();
    expect(await statusOf(first)).toBe(200);
    await page.keyboard.press('Escape');
    expect(await made.getByRole('button', { name: 'Done' }).isDisabled()).toBe(true);
    await made.getByRole('button', { name: 'Copy key' }).click();
    await made.getByText('Copied, and checked').waitFor();
    expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(first);
    await made.getByLabel('I have stored it').check();
    await made.getByRole('button', { name: 'Done' }).click();
    await page.getByRole('heading', { name: 'card reader', exact: true }).waitFor();
    expect(await page.content()).not.toContain(first);

    await page.keyboard.press('e');
    await page.getByLabel('Name').fill('card viewer');
    await page.getByText('Mask', { exact: true }).click();
    await page.getByRole('button', { name: 'Review the changes' }).click();
    const changes = await page.getByRole('dialog').innerText();
    expect(changes).toContain('“card reader” → “card viewer”');
    expect(changes).toContain('rule 1. mask in /customers/: token:read');
    await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
    await page.getByRole('heading', { name: 'card viewer', exact: true }).waitFor();
    const { body } = await world.call('GET', '/applications?name=card', { key });
    expect(body.data[0]).toMatchObject({
      name: 'card viewer',
      rules: [{ transform: 'mask' }],
      expires_at: new Date(startTime + 7 * 86_400_000).toISOString(),
    });

    await page.getByRole('button', { name: 'Rotate' }).click();
    await page.getByRole('button', { name: 'Make a new key' }).click();
    const second = await page.getByLabel('The new key', { exact: true }).inputValue();
    expect([await statusOf(first), await statusOf(second)]).toEqual([200, 200]);
    await page.getByLabel('I have stored it').check();
    await page.getByRole('button', { name: 'Done' }).click();

    await page.getByRole('button', { name: 'Rotate' }).click();
    await page.getByText('At once').click();
    await page.getByRole('button', { name: 'Replace every key' }).click();
    const third = await page.getByLabel('The new key', { exact: true }).inputValue();
    expect([await statusOf(first), await statusOf(second), await statusOf(third)]).toEqual([401, 401, 200]);
    await page.getByLabel('I have stored it').check();
    await page.getByRole('button', { name: 'Done' }).click();

    await page.getByRole('button', { name: 'More' }).click();
    await page.getByRole('menuitem', { name: 'Delete…' }).click();
    const dialog = page.getByRole('dialog', { name: 'Delete card viewer' });
    expect(await dialog.innerText()).toMatch(/last used|never used/);
    const remove = dialog.getByRole('button', { name: 'Delete' });
    await dialog.getByLabel('Type its name to go on').fill('card view');
    expect(await remove.isDisabled()).toBe(true);
    await dialog.getByLabel('Type its name to go on').fill('card viewer');
    await remove.click();
    await page.getByRole('heading', { name: 'Applications', exact: true }).waitFor();
    expect(await statusOf(third)).toBe(401);
    expect(await page.getByText('card viewer', { exact: true }).count()).toBe(0);
  });

  test('a changed rule shows before and after at once, and the service agrees', async () => {
    const { key } = await world.tenant();
    const rules = [{ priority: 1, container: '/pci/', transform: 'mask', permissions: ['token:read'] }];
    const { id, key: reader } = await world.application(key, { permissions: [], rules });
    await tab.open();
    const { page } = tab;
    await tab.signIn(key);
    await tab.navigate(`#/applications/${id}/edit`);
    const preview = page.getByRole('region', { name: 'What would this key see?' });
    const place = preview.getByRole('button', { name: /^\/pci\/ / });
    expect(await place.innerText()).toContain('mask');
    await page.getByText('Reveal', { exact: true }).click();
    expect((await place.innerText()).replace(/\s+/g, ' ')).toMatch(/mask.* becomes .*reveal/);
    await place.click();
    const drawn = await preview.getByRole('list').last().or(preview.locator('.ladder')).first().innerText();
    expect(drawn).toContain('/pci/');
    const reason = await preview.locator('.ladder-end').innerText();
    await page.getByRole('button', { name: 'Review the changes' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
    await page.getByRole('heading', { name: 'an application', exact: true }).waitFor();
    const { body } = await world.call('POST', '/decisions', {
      key,
      body: { credential: reader, permission: 'token:read', resource: { container: '/pci/' } },
    });
    expect(body.transform).toBe('reveal');
    expect(reason).toContain(body.reason);
  });

  test('what somebody else has saved meanwhile is not overwritten, but shown, and edits go on top of it', async () => {
    const { key } = await world.tenant();
    const { id } = await world.application(key, { name: 'worker', permissions: ['token:read'] });
    await tab.open();
    const { page } = tab;
    await tab.signIn(key);
    await tab.navigate(`#/applications/${id}/edit`);
    await page.getByLabel('Name').fill('my worker');
    const theirs = { name: 'worker', permissions: ['token:read', 'token:create'], rules: [] };
    expect((await world.call('PUT', `/applications/${id}`, { key, body: theirs })).status).toBe(200);
    await page.getByRole('button', { name: 'Review the changes' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('button', { name: 'Save' }).click();
    const said = await dialog.getByRole('alert').innerText();
    expect(said).toMatch(/changed meanwhile, on .* by /);
    expect(said).toContain('token:create');
    const stored = async () => (await world.call('GET', `/applications/${id}`, { key })).body;
    expect(await stored()).toMatchObject(theirs);
    await dialog.getByRole('button', { name: 'Look again' }).click();
    expect(await dialog.innerText()).not.toContain('token:create');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('heading', { name: 'my worker', exact: true }).waitFor();
    expect(await stored()).toMatchObject({ ...theirs, name: 'my worker' });
  });

  test('what is not saved yet is not left without a question', async () => {
    const { key } = await world.tenant();
    await tab.open();
    const { page, violations } = tab;
    await tab.signIn(key);
    await tab.navigate('#/applications/new');
    await page.getByLabel('Name').fill('half done');
    await page.getByRole('link', { name: 'Tokens' }).click();
    expect(violations.splice(0)).toEqual([expect.stringContaining('Leave without saving?')]);
    expect(new URL(page.url()).hash).toBe('#/applications/new');
    expect(await page.getByLabel('Name').inputValue()).toBe('half done');
    await page.getByLabel('Name').fill('');
    await page.getByRole('link', { name: 'Tokens' }).click();
    await page.getByRole('heading', { name: 'Tokens', exact: true }).waitFor();
  });

  test('a key that expires signs its holder out with a reason', async () => {
    const { key } = await world.tenant();
    const expires_at = new Date(world.clock.now() + 60_000).toISOString();
    const { key: short } = await world.application(key, { permissions: ['application:read'], expires_at });
    await tab.open();
    await tab.signIn(short);
    world.clock.advance(60_000);
    await tab.page.keyboard.press('g');
    await tab.page.keyboard.press('l');
    await tab.page.getByRole('heading', { name: 'Sign in to Sallyport', exact: true }).waitFor();
    expect(await tab.page.getByRole('alert').innerText()).toContain('no longer works');
  });

  test('the link of a first start opens it, leaves the address bar, and opens nothing more', async () => {
    const link = `${world.url}/console#${world.app.link?.reveal()}`;
    await tab.open(link);
    await tab.page.getByRole('heading', { name: 'Applications', exact: true }).waitFor();
    expect(tab.page.url()).not.toContain('slp_');
    const again = await tab.context.newPage();
    await again.goto(link);
    expect(await again.getByRole('alert').innerText()).toContain('This link is over');
    expect(again.url()).not.toContain('slp_');
  });

  test('a key is copied where the page has no clipboard, and what is wrong with a rule is said beside it', async () => {
    const { key } = await world.tenant();
    await tab.open();
    const { page, context } = tab;
    await page.evaluate(() => Object.defineProperty(navigator, 'clipboard', { value: undefined }));
    await tab.signIn(key);
    await tab.navigate('#/applications/new');
    await page.getByRole('button', { name: /^Browser collector/ }).click();
    await page.getByLabel('Name').fill('collector');
    await page.getByLabel('Container', { exact: true }).fill('no//path');
    await page.getByRole('button', { name: 'Review and create' }).click();
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    await page.getByText(/^must be a path such as/).waitFor();
    expect(await page.getByLabel('Container', { exact: true }).getAttribute('aria-invalid')).toBe('true');
    await page.getByLabel('Container', { exact: true }).fill('/incoming/');
    await page.getByRole('button', { name: 'Review and create' }).click();
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    await page.getByRole('button', { name: 'Copy key' }).click();
    await page.getByRole('dialog').getByText('does not let the page check').waitFor();
    const made = await page.getByLabel('The new key', { exact: true }).inputValue();
    const other = await context.newPage();
    await other.goto(`${world.url}/console`);
    expect(await other.evaluate(() => navigator.clipboard.readText())).toBe(made);
  });

  test('an address that cannot be right is answered with what is wrong in it', async () => {
    const { key } = await world.tenant();
    await tab.open();
    await tab.signIn(key);
    await tab.navigate('#/applications/nonsense');
    expect(await tab.page.getByRole('group', { name: 'Problem' }).innerText()).toContain('id: must be');
  });

  test('a bad key is refused in words, and nothing is kept of a good one', async () => {
    const { key } = await world.tenant();
    await tab.open();
    const { page, context } = tab;
    await page.getByLabel('Key', { exact: true }).fill(`slp_mgt_${'x'.repeat(49)}`);
    await page.getByRole('button', { name: 'Sign in' }).click();
    expect(await page.getByRole('alert').innerText()).toContain('not known here');
    await tab.signIn(key);
    const { cookies, origins } = await context.storageState({ indexedDB: true });
    expect({ cookies, origins }).toEqual({ cookies: [], origins: [] });
    await page.reload();
    await page.getByRole('heading', { name: 'Sign in to Sallyport', exact: true }).waitFor();
  });

  test('a key with few rights sees what it may, and is told what is missing', async () => {
    const { key } = await world.tenant();
    await world.call('POST', '/tokens', {
      key,
      body: { container: '/pci/', data: 'secret', mask: 'masked' },
    });
    const { key: few } = await world.application(key, { permissions: ['token:read'] });
    await tab.open();
    const { page } = tab;
    await tab.signIn(few);
    await page.getByText('This key does not hold application:read', { exact: true }).waitFor();
    await tab.navigate('#/tokens');
    await page.getByText('"masked"').waitFor();
    await tab.navigate('#/activity');
    await page.getByText('This key does not hold log:read', { exact: true }).waitFor();
    await page.getByRole('button', { name: `key …${few.slice(-4)}` }).waitFor();
  });

  test('a Session is seen, with who let it in, and ended', async () => {
    const { key } = await world.tenant();
    const page_ = await world.application(key, {
      name: 'shop page',
      type: 'public',
      permissions: ['token:create'],
    });
    const session = (await world.call('POST', '/sessions', { key: page_.key })).body;
    const grant = { nonce: session.nonce, permissions: ['token:read'] };
    await world.call('POST', '/sessions/authorize', { key, body: grant });
    await tab.open();
    const { page } = tab;
    await tab.signIn(key);
    await tab.navigate('#/sessions');
    const row = page.getByRole('listitem').filter({ hasText: 'shop page' });
    expect(await row.innerText()).toContain('authorized');
    await row.getByRole('button', { name: 'End' }).click();
    await page.getByRole('button', { name: 'End it' }).click();
    await page.getByText('No Session is alive').waitFor();
    const { status } = await world.call('GET', '/tokens', { key: session.session_key });
    expect(status).toBe(401);
  });
});
