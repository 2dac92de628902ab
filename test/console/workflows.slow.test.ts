/** Runs the console's workflows in a browser. */
import { expect, test } from 'bun:test';
import { describeConsole } from '../support/console-suite.ts';
import { startTime } from '../support/test-server.ts';

describeConsole('console workflows:', (suite) => {
  const statusOf = async (key: string) =>
    (await suite.server.call('GET', '/applications/key', { key })).status;

  test('create, edit, rotate and delete an application', async () => {
    const { key } = await suite.server.tenant();
    await suite.tab.open();
    const { page, violations } = suite.tab;
    await suite.tab.signIn(key);
    await page.keyboard.press('c');
    await page.getByRole('button', { name: /^Backend reader/ }).click();
    await page.getByLabel('Name').fill('card reader');
    await page.getByText('Permissions in all containers').click();
    await page.getByLabel('application:read').check();
    await page.getByText('7 days', { exact: true }).click();
    await page.getByRole('button', { name: 'Review and create' }).click();
    const summary = page.getByRole('dialog');
    expect(await summary.innerText()).toContain('reveal in /customers/: token:read');
    await summary.getByRole('button', { name: 'Create' }).click();

    const created = page.getByRole('dialog', { name: 'New key for card reader' });
    const first = await created.getByLabel('New key', { exact: true }).inputValue();
    expect(await statusOf(first)).toBe(200);
    await page.keyboard.press('Escape');
    await page.evaluate(() => {
      location.hash = '#/tokens';
    });
    expect(violations.splice(0)).toEqual([expect.stringContaining('Leave without saving?')]);
    expect(await created.getByRole('button', { name: 'Done' }).isDisabled()).toBe(true);
    await created.getByRole('button', { name: 'Copy key' }).click();
    await created.getByText('Copied and verified').waitFor();
    expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(first);
    await created.getByLabel('I have stored the key').check();
    await page.keyboard.press('Escape');
    await page.getByRole('heading', { name: 'card reader', exact: true }).waitFor();
    expect(await page.content()).not.toContain(first);

    await page.keyboard.press('e');
    await page.getByLabel('Name').fill('card viewer');
    await page.getByText('Mask', { exact: true }).click();
    await page.getByLabel('Allowed networks').fill('127.0.0.0/8');
    await page.getByRole('button', { name: 'Review changes' }).click();
    const changes = await page.getByRole('dialog').innerText();
    expect(changes).toContain('“card reader” → “card viewer”');
    expect(changes).toContain('rule 1. mask in /customers/: token:read');
    expect(changes).toContain('network 127.0.0.0/8');
    await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
    await page.getByRole('heading', { name: 'card viewer', exact: true }).waitFor();
    const { body } = await suite.server.call('GET', '/applications?name=card', { key });
    expect(body.data[0]).toMatchObject({
      name: 'card viewer',
      rules: [{ transform: 'mask' }],
      allowed_networks: ['127.0.0.0/8'],
      expires_at: new Date(startTime + 7 * 86_400_000).toISOString(),
    });

    await page.getByRole('button', { name: 'Rotate key' }).click();
    await page.getByText('Let old keys expire in 24 hours').click();
    await page.getByRole('button', { name: 'Create key' }).click();
    const second = await page.getByLabel('New key', { exact: true }).inputValue();
    expect([await statusOf(first), await statusOf(second)]).toEqual([200, 200]);
    const keys = (await suite.server.call('GET', `/applications/${body.data[0].id}/keys`, { key })).body.data;
    expect(keys.map((each: { expires_at?: string }) => each.expires_at !== undefined)).toEqual([false, true]);
    await page.getByLabel('I have stored the key').check();
    await page.getByRole('button', { name: 'Done' }).click();

    await page.getByRole('button', { name: 'Rotate key' }).click();
    await page.getByText('Revoke old keys').click();
    await page.getByRole('button', { name: 'Replace all keys' }).click();
    const third = await page.getByLabel('New key', { exact: true }).inputValue();
    expect([await statusOf(first), await statusOf(second), await statusOf(third)]).toEqual([401, 401, 200]);
    await page.getByLabel('I have stored the key').check();
    await page.getByRole('button', { name: 'Done' }).click();

    await page.getByRole('button', { name: 'More actions' }).click();
    await page.getByRole('menuitem', { name: 'Delete…' }).click();
    const dialog = page.getByRole('dialog', { name: 'Delete card viewer' });
    expect(await dialog.innerText()).toMatch(/Last used|No recorded use/);
    const remove = dialog.getByRole('button', { name: 'Delete' });
    await dialog.getByLabel('Type the name to confirm').fill('card view');
    expect(await remove.isDisabled()).toBe(true);
    await dialog.getByLabel('Type the name to confirm').fill('card viewer');
    await remove.click();
    await page.getByRole('heading', { name: 'Applications', exact: true }).waitFor();
    expect(await statusOf(third)).toBe(401);
    expect(await page.getByText('card viewer', { exact: true }).count()).toBe(0);
  });

  test('the preview of a changed rule shows before and after, and the service decides the same', async () => {
    const { key } = await suite.server.tenant();
    const rules = [{ priority: 1, container: '/pci/', transform: 'mask', permissions: ['token:read'] }];
    const { id, key: reader } = await suite.server.application(key, { permissions: [], rules });
    await suite.tab.open();
    const { page } = suite.tab;
    await suite.tab.signIn(key);
    await suite.tab.navigate(`#/applications/${id}/edit`);
    const preview = page.getByRole('region', { name: 'Access preview' });
    const row = preview.getByRole('button', { name: /^\/pci\/ / });
    expect(await row.innerText()).toContain('mask');
    await page.getByText('Reveal', { exact: true }).click();
    expect((await row.innerText()).replace(/\s+/g, ' ')).toMatch(/mask.* becomes .*reveal/);
    await row.click();
    const trace = await preview.getByRole('list').last().or(preview.locator('.trace')).first().innerText();
    expect(trace).toContain('/pci/');
    const reason = await preview.locator('.trace-end').innerText();
    await page.getByRole('button', { name: 'Review changes' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
    await page.getByRole('heading', { name: 'an application', exact: true }).waitFor();
    const { body } = await suite.server.call('POST', '/decisions', {
      key,
      body: { credential: reader, permission: 'token:read', resource: { container: '/pci/' } },
    });
    expect(body.transform).toBe('reveal');
    expect(reason).toContain(body.reason);
  });

  test('a concurrent change is shown instead of overwritten, and edits can be applied to it', async () => {
    const { key } = await suite.server.tenant();
    const { id } = await suite.server.application(key, { name: 'worker', permissions: ['token:read'] });
    await suite.tab.open();
    const { page } = suite.tab;
    await suite.tab.signIn(key);
    await suite.tab.navigate(`#/applications/${id}/edit`);
    await page.getByLabel('Name').fill('my worker');
    const theirs = { name: 'worker', permissions: ['token:read', 'token:create'], rules: [] };
    expect((await suite.server.call('PUT', `/applications/${id}`, { key, body: theirs })).status).toBe(200);
    await page.getByRole('button', { name: 'Review changes' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('button', { name: 'Save' }).click();
    const alert = await dialog.getByRole('alert').innerText();
    expect(alert).toMatch(/someone else changed this application on .* by /);
    expect(alert).toContain('token:create');
    const stored = async () => (await suite.server.call('GET', `/applications/${id}`, { key })).body;
    expect(await stored()).toMatchObject(theirs);
    await dialog.getByRole('button', { name: 'Apply my changes' }).click();
    expect(await dialog.innerText()).not.toContain('token:create');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('heading', { name: 'my worker', exact: true }).waitFor();
    expect(await stored()).toMatchObject({ ...theirs, name: 'my worker' });
  });

  test('leaving unsaved changes asks for confirmation', async () => {
    const { key } = await suite.server.tenant();
    await suite.tab.open();
    const { page, violations } = suite.tab;
    await suite.tab.signIn(key);
    await suite.tab.navigate('#/applications/new');
    await page.getByLabel('Name').fill('half done');
    await page.getByRole('link', { name: 'Tokens' }).click();
    expect(violations.splice(0)).toEqual([expect.stringContaining('Leave without saving?')]);
    expect(new URL(page.url()).hash).toBe('#/applications/new');
    expect(await page.getByLabel('Name').inputValue()).toBe('half done');
    await page.getByLabel('Name').fill('');
    await page.getByRole('link', { name: 'Tokens' }).click();
    await page.getByRole('heading', { name: 'Tokens', exact: true }).waitFor();
  });

  test('an expired key signs the user out with a reason', async () => {
    const { key } = await suite.server.tenant();
    const expires_at = new Date(suite.server.clock.now() + 60_000).toISOString();
    const { key: short } = await suite.server.application(key, {
      permissions: ['application:read'],
      expires_at,
    });
    await suite.tab.open();
    await suite.tab.signIn(short);
    suite.server.clock.advance(60_000);
    await suite.tab.page.keyboard.press('g');
    await suite.tab.page.keyboard.press('l');
    await suite.tab.page.getByRole('heading', { name: 'Sign in to Sallyport', exact: true }).waitFor();
    expect(await suite.tab.page.getByRole('alert').innerText()).toContain('expired or was revoked');
  });

  test('the sign-in link works once and its code is removed from the address bar', async () => {
    const link = `${suite.server.url}/console#${suite.server.app.link?.reveal()}`;
    await suite.tab.open(link);
    await suite.tab.page.getByRole('heading', { name: 'Overview', exact: true }).waitFor();
    expect(suite.tab.page.url()).not.toContain('slp_');
    const again = await suite.tab.context.newPage();
    await again.goto(link);
    expect(await again.getByRole('alert').innerText()).toContain('This link has expired');
    expect(again.url()).not.toContain('slp_');
  });

  test('copying works without the clipboard API, and a rule error appears next to its field', async () => {
    const { key } = await suite.server.tenant();
    await suite.tab.open();
    const { page, context } = suite.tab;
    await page.evaluate(() => Object.defineProperty(navigator, 'clipboard', { value: undefined }));
    await suite.tab.signIn(key);
    await suite.tab.navigate('#/applications/new');
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
    await page.getByRole('dialog').getByText('does not allow verification').waitFor();
    const created = await page.getByLabel('New key', { exact: true }).inputValue();
    const other = await context.newPage();
    await other.goto(`${suite.server.url}/console`);
    expect(await other.evaluate(() => navigator.clipboard.readText())).toBe(created);
  });

  test('an invalid id in the URL shows the validation error', async () => {
    const { key } = await suite.server.tenant();
    await suite.tab.open();
    await suite.tab.signIn(key);
    await suite.tab.navigate('#/applications/nonsense');
    expect(await suite.tab.page.getByRole('group', { name: 'Error' }).innerText()).toContain('id: must be');
  });

  test('an invalid key is rejected', async () => {
    await suite.tab.open();
    const { page } = suite.tab;
    await page.getByLabel('Key', { exact: true }).fill(`slp_mgt_${'x'.repeat(55)}`);
    await page.getByRole('button', { name: 'Sign in' }).click();
    expect(await page.getByRole('alert').innerText()).toContain('This key is invalid');
  });

  test('a key with few permissions sees what it may read and which permissions are missing', async () => {
    const { key } = await suite.server.tenant();
    await suite.server.call('POST', '/tokens', {
      key,
      body: { container: '/pci/', data: 'secret', mask: 'masked' },
    });
    const { key: few } = await suite.server.application(key, { permissions: ['token:read'] });
    await suite.tab.open();
    const { page } = suite.tab;
    await suite.tab.signIn(few);
    await page.getByText('This key lacks application:read', { exact: true }).waitFor();
    await suite.tab.navigate('#/tokens');
    await page.getByText('"masked"').waitFor();
    await suite.tab.navigate('#/activity');
    await page.getByText('This key lacks log:read', { exact: true }).waitFor();
    await page.getByRole('button', { name: `key …${few.slice(-4)}` }).waitFor();
  });

  test('a session is listed with its authorizer and can be ended', async () => {
    const { key } = await suite.server.tenant();
    const publicApplication = await suite.server.application(key, {
      name: 'shop page',
      type: 'public',
      permissions: ['token:create'],
    });
    const session = (await suite.server.call('POST', '/sessions', { key: publicApplication.key })).body;
    const grant = { nonce: session.nonce, permissions: ['token:read'] };
    await suite.server.call('POST', '/sessions/authorize', { key, body: grant });
    await suite.tab.open();
    const { page } = suite.tab;
    await suite.tab.signIn(key);
    await suite.tab.navigate('#/sessions');
    const row = page.getByRole('listitem').filter({ hasText: 'shop page' });
    expect(await row.innerText()).toContain('active');
    await row.getByRole('button', { name: 'End' }).click();
    await page.getByRole('button', { name: 'End session' }).click();
    await page.getByText('No sessions').waitFor();
    const { status } = await suite.server.call('GET', '/tokens', { key: session.session_key });
    expect(status).toBe(401);
  });
});
