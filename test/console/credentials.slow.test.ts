/** Bound sessions, allowed networks, trusted issuers and expiry of applications and keys in a browser. */
import { expect, test } from 'bun:test';
import { openBound } from '../support/bound-client.ts';
import { describeConsole } from '../support/console-suite.ts';

describeConsole('console credentials:', (suite) => {
  const open = async (key: string, hash: string) => {
    await suite.tab.open();
    await suite.tab.signIn(key);
    await suite.tab.navigate(hash);
  };
  const stored = async (key: string, id: string) =>
    (await suite.server.call('GET', `/applications/${id}`, { key })).body;
  const day = 86_400_000;

  test('a public application can require bound sessions', async () => {
    const { server, tab } = suite;
    const { key } = await server.tenant();
    const { id, key: pub } = await server.application(key, { name: 'shop page', type: 'public' });
    await open(key, `#/applications/${id}/edit`);
    const { page } = tab;
    await page.getByLabel('Require bound sessions').check();
    await page.getByRole('button', { name: 'Review changes' }).click();
    await page.getByRole('dialog').getByText('requirement for bound sessions').waitFor();
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('only bound sessions').waitFor();
    expect(await stored(key, id)).toMatchObject({ require_bound_sessions: true });
    expect((await server.call('POST', '/sessions', { key: pub })).status).not.toBe(201);
  });

  test('a bound session is marked, others are not', async () => {
    const { server, tab } = suite;
    const { key } = await server.tenant();
    const { key: pub } = await server.application(key, { name: 'shop page', type: 'public' });
    await openBound(server, pub);
    await server.call('POST', '/sessions', { key: pub });
    await open(key, '#/sessions');
    await tab.page.locator('.session').nth(1).waitFor();
    expect(await tab.page.locator('.session').getByText('bound', { exact: true }).count()).toBe(1);
  });

  test('networks and expiry of an application can be changed', async () => {
    const { server, tab } = suite;
    const { key } = await server.tenant();
    const { id } = await server.application(key, { name: 'worker' });
    await open(key, `#/applications/${id}/edit`);
    const { page } = tab;
    await page.getByLabel('Allowed networks').fill('10.0.0.0/8\n2001:db8::/32');
    await page.getByRole('radio', { name: '30 days' }).check();
    await page.getByRole('button', { name: 'Review changes' }).click();
    await page.getByRole('dialog').getByText('expiry never →').waitFor();
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('10.0.0.0/8, 2001:db8::/32').waitFor();
    expect(await stored(key, id)).toMatchObject({
      allowed_networks: ['10.0.0.0/8', '2001:db8::/32'],
      expires_at: new Date(server.clock.now() + 30 * day).toISOString(),
    });
    await tab.navigate(`#/applications/${id}/edit`);
    await page.getByRole('radio', { name: 'Never' }).check();
    await page.getByRole('button', { name: 'Review changes' }).click();
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('heading', { name: 'worker', exact: true }).waitFor();
    expect(await stored(key, id)).not.toHaveProperty('expires_at');
    expect(await stored(key, id)).toHaveProperty('allowed_networks');
  });

  test('trusted issuers are shown, preserved by other changes, and changed after a review', async () => {
    const { server, tab } = suite;
    const { key } = await server.tenant();
    const issuer = {
      issuer: 'https://issuer.example',
      audience: 'shop',
      claims: { sub: 'job', admin: true },
    };
    const { id } = await server.application(key, { name: 'worker', trusted_issuers: [issuer] });
    await open(key, `#/applications/${id}`);
    const { page } = tab;
    const shown = 'https://issuer.example for shop if admin = true and sub = job';
    await page.getByText(shown, { exact: true }).waitFor();
    const save = async (review: string) => {
      await page.getByRole('button', { name: 'Review changes' }).click();
      await page.getByRole('dialog').getByText(review).waitFor();
      await page.getByRole('button', { name: 'Save' }).click();
      await page.getByRole('dialog').waitFor({ state: 'hidden' });
      await page.getByText('Trusted issuers', { exact: true }).waitFor();
    };
    await tab.navigate(`#/applications/${id}/edit`);
    await page.getByLabel('Allowed networks').fill('10.0.0.0/8');
    await save('network 10.0.0.0/8');
    expect(await stored(key, id)).toMatchObject({
      allowed_networks: ['10.0.0.0/8'],
      trusted_issuers: [issuer],
    });
    await tab.navigate(`#/applications/${id}/edit`);
    const field = page.getByLabel('Trusted issuers');
    for (const [text, error] of [
      ['{', 'Enter a JSON list'],
      ['[{"issuer": "x"}]', 'Enter a JSON list'],
    ] as const) {
      await field.fill(text);
      await page.getByRole('button', { name: 'Review changes' }).click();
      await page.getByText(error).waitFor();
    }
    const next = { ...issuer, lifetime: 60 };
    await field.fill(JSON.stringify([{ ...next, issuer: 'http://issuer.example' }]));
    await page.getByRole('button', { name: 'Review changes' }).click();
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('0.issuer must be an https URL').waitFor();
    await field.fill(JSON.stringify([next]));
    await save(`${shown}, lifetime = 60`);
    expect((await stored(key, id)).trusted_issuers).toEqual([next]);
  });

  /** Returns to the address as soon as the page changes it. */
  const returnTo = (form: string) =>
    suite.tab.page.evaluate((hash) => {
      const back = () => {
        location.hash = hash;
      };
      // Before the event `hashchange`, from which the console learns of a new address.
      navigation.addEventListener('currententrychange', () => queueMicrotask(back), { once: true });
    }, form);

  test('the form is usable after a save if the user returns before the page of the application is shown', async () => {
    const { server, tab } = suite;
    const { key } = await server.tenant();
    const { id } = await server.application(key, { name: 'worker' });
    const form = `#/applications/${id}/edit`;
    await open(key, form);
    const { page } = tab;
    await page.getByLabel('Allowed networks').fill('10.0.0.0/8');
    await returnTo(form);
    await page.getByRole('button', { name: 'Review changes' }).click();
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('dialog').waitFor({ state: 'hidden' });
    await page.getByLabel('Name').fill('worker two');
    await page.getByRole('button', { name: 'Review changes' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('name “worker” → “worker two”').waitFor();
    expect(await dialog.getByRole('listitem').count()).toBe(1);
    await dialog.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('heading', { name: 'worker two', exact: true }).waitFor();
    expect(await stored(key, id)).toMatchObject({ name: 'worker two', allowed_networks: ['10.0.0.0/8'] });
    await tab.navigate('#/applications/new');
    await page.getByRole('button', { name: /^Backend reader/ }).click();
    await page.getByLabel('Name').fill('reader');
    await page.getByRole('button', { name: 'Review and create' }).click();
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    await page.getByLabel('I have stored the key').check();
    await returnTo('#/applications/new');
    await page.getByRole('button', { name: 'Done' }).click();
    await page.getByRole('dialog').waitFor({ state: 'hidden' });
    expect(await page.getByLabel('Name').inputValue()).toBe('');
  });

  test('a new key can expire before its application', async () => {
    const { server, tab } = suite;
    const { key } = await server.tenant();
    const { id } = await server.application(key, { name: 'worker' });
    await open(key, `#/applications/${id}`);
    const { page } = tab;
    await page.getByRole('button', { name: 'Rotate key' }).click();
    await page.getByRole('combobox', { name: 'New key expires' }).click();
    await page.getByRole('option', { name: 'In 90 days' }).click();
    await page.getByRole('button', { name: 'Create key' }).click();
    await page.getByText('The new key expires on').waitFor();
    await page.getByLabel('I have stored the key').check();
    await page.getByRole('button', { name: 'Done' }).click();
    const keys = (await server.call('GET', `/applications/${id}/keys`, { key })).body;
    const ends = keys.data.map(({ expires_at }: { expires_at?: string }) => expires_at);
    expect(ends.toSorted()).toEqual([new Date(server.clock.now() + 90 * day).toISOString(), undefined]);
    await page.locator('.key-list').getByText('expires').waitFor();
  });
});
