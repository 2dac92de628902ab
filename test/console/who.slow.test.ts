/** The page "Who has access?" and quarantine in a browser. */
import { expect, test } from 'bun:test';
import { describeConsole } from '../support/console-suite.ts';

describeConsole('console access review:', (suite) => {
  const rule = (transform: string, description?: string) => ({
    priority: 1,
    container: '/pci/',
    transform,
    permissions: ['token:read'],
    ...(description && { description }),
  });
  const open = async (key: string, hash: string) => {
    await suite.tab.open();
    await suite.tab.signIn(key);
    await suite.tab.navigate(hash);
  };
  const row = (text: string) => suite.tab.page.getByRole('row').filter({ hasText: text });
  const textOf = async (text: string) => (await row(text).innerText()).replace(/\s+/g, ' ');

  test('lists applications and sessions with transform, rule, limit and totals', async () => {
    const { server, tab } = suite;
    const { key } = await server.tenant();
    const desk = await server.application(key, {
      name: 'help desk',
      permissions: [],
      rules: [rule('reveal', 'refunds')],
    });
    await server.application(key, { name: 'report', permissions: [], rules: [rule('mask')] });
    await server.application(key, { name: 'mailer', permissions: ['session:read'] });
    // Applications have token:read by default, so the page has access, too.
    const page = await server.application(key, { name: 'shop page', type: 'public' });
    const { nonce } = (await server.call('POST', '/sessions', { key: page.key })).body;
    const grant = { nonce, permissions: ['token:read'] };
    const authorized = await server.call('POST', '/sessions/authorize', { key: desk.key, body: grant });
    expect(authorized.status).toBe(204);
    await server.call('POST', '/tokens', { key, body: { id: 'card-1', container: '/pci/high/', data: 'x' } });
    await server.call('GET', '/tokens/card-1', { key: desk.key });
    await server.flush();
    await open(key, '#/who');
    await tab.page.getByLabel('Container or token').fill('/pci/');
    await tab.page.getByRole('button', { name: 'Find' }).click();
    await row('help desk').first().waitFor();
    expect(await textOf('refunds')).toMatch(/help desk reveal Rule 1 refunds .*just now/);
    expect(await textOf('report')).toMatch(/report .*mask Rule 1 .*no recorded use/);
    expect(await textOf('Session')).toMatch(/of shop page .*mask .*help desk/);
    expect(await row('mailer').count()).toBe(0);
    await tab.page.getByRole('button', { name: 'Quarantine session of shop page' }).click();
    await tab.page.getByRole('dialog').getByRole('button', { name: 'Quarantine' }).click();
    await row('Session').getByText('in quarantine').waitFor();
    expect(await textOf('Session')).toContain('redact');
    await tab.page.getByRole('button', { name: 'Release session of shop page' }).click();
    await tab.page.getByRole('dialog').getByRole('button', { name: 'Release' }).click();
    await row('Session').getByText('mask').waitFor();
    const totals = await tab.page.getByRole('region', { name: 'Totals' }).innerText();
    expect(totals.replace(/\s+/g, ' ')).toMatch(/5 with access 1 reveal 4 .*mask 0 .*redact/);
    expect(new URL(tab.page.url()).hash).toBe('#/who?q=%2Fpci%2F');
    await tab.navigate('#/who?q=card-1&permission=token:delete');
    await row('default').or(row('management')).first().waitFor();
    expect(await row('report').count()).toBe(0);
    await tab.navigate('#/who?q=unknown-token');
    await tab.page.getByRole('group', { name: 'Error' }).waitFor();
  });

  test('more entries than a page are loaded on request', async () => {
    const { server, tab } = suite;
    const { key } = await server.tenant();
    for (let number = 0; number < 60; number++)
      await server.application(key, { name: `reader ${number}`, permissions: [], rules: [rule('mask')] });
    await open(key, '#/who?q=/pci/');
    await tab.page.getByText('61 with access').waitFor();
    expect(await row('reader').count()).toBeLessThan(51);
    await tab.page.getByRole('button', { name: 'Load more' }).click();
    await row('reader').nth(59).waitFor();
  });

  test('an application is put into quarantine and released, and shows it on every page', async () => {
    const { server, tab } = suite;
    const { key } = await server.tenant();
    const desk = await server.application(key, {
      name: 'help desk',
      permissions: [],
      rules: [rule('reveal')],
    });
    const withPurpose = { ...rule('reveal'), require_purpose: true };
    await server.application(key, { name: 'refunds', permissions: [], rules: [withPurpose] });
    const state = async () =>
      (await server.call('GET', `/applications/${desk.id}`, { key })).body.quarantined_at;
    await open(key, '#/who?q=/pci/');
    const { page } = tab;
    await page.getByRole('button', { name: 'Quarantine help desk' }).click();
    const dialog = page.getByRole('dialog', { name: 'Quarantine help desk?' });
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    expect(await state()).toBeUndefined();
    await page.getByRole('button', { name: 'Quarantine help desk' }).click();
    await dialog.getByRole('button', { name: 'Quarantine' }).click();
    await row('help desk').getByText('in quarantine').waitFor();
    await row('help desk').getByText('redact').waitFor();
    const downloading = page.waitForEvent('download');
    await page.getByRole('button', { name: 'CSV' }).click();
    const csv = await Bun.file(await (await downloading).path()).text();
    expect(csv).toContain('"redact","no","application 1","","application help desk",');
    expect(csv).toContain('"reveal","yes","application 1","","",');
    expect(await state()).toBeString();
    await tab.navigate('#/applications');
    await row('help desk').getByText('in quarantine').waitFor();
    await tab.navigate('#/activity');
    await page
      .locator('.entry')
      .filter({ hasText: 'application.quarantine' })
      .getByText('in quarantine')
      .waitFor();
    await tab.navigate(`#/applications/${desk.id}`);
    await page.getByText(/^In quarantine since/).waitFor();
    await page.getByRole('button', { name: 'Release' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Release' }).click();
    await page.getByRole('button', { name: 'Quarantine' }).waitFor();
    expect(await state()).toBeUndefined();
  });

  test('a key without access:review sees which permission is missing', async () => {
    const { server, tab } = suite;
    const { key } = await server.tenant();
    const { key: few } = await server.application(key, { permissions: ['application:read'] });
    await open(few, '#/who?q=/pci/');
    await tab.page.getByText('This key lacks access:review', { exact: true }).waitFor();
  });
});
