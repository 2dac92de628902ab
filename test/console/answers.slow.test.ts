/** The console's answers about access and use match the data. */
import { expect, test } from 'bun:test';
import { describeConsole } from '../support/console-suite.ts';

describeConsole('console answers:', (suite) => {
  test('the preview over stored tokens loads the containers that the rules name', async () => {
    const { server, tab } = suite;
    const { key } = await server.tenant();
    const rules = [{ priority: 1, container: '/pci/', transform: 'mask', permissions: ['token:read'] }];
    const { id } = await server.application(key, { permissions: [], rules });
    const create = (body: object) => server.call('POST', '/tokens', { key, body });
    await create({ id: 'card-1', container: '/pci/high/', data: '1' });
    for (let index = 0; index < 101; index++) await create({ container: '/logs/', data: 'x' });
    await tab.open();
    await tab.signIn(key);
    await tab.navigate(`#/applications/${id}`);
    const preview = tab.page.getByRole('region', { name: 'Access preview' });
    await preview.getByText('Stored tokens').click();
    const row = preview.getByRole('button', { name: /card-1/ });
    expect(await row.innerText()).toContain('mask');
    const denied = preview.getByRole('button', { name: /\/logs\/.*denied/ });
    expect(await denied.count()).toBeGreaterThan(0);
  });

  test('application pickers search on the service and say if no application matches', async () => {
    const { server, tab } = suite;
    const { key } = await server.tenant();
    await server.application(key, { name: 'oldest worker' });
    for (let index = 0; index < 51; index++) await server.application(key, { name: `filler ${index}` });
    await tab.open();
    const { page } = tab;
    await tab.signIn(key);
    // The page chooses an application by itself, here when somebody is about to type.
    const loaded = Promise.withResolvers<void>();
    await page.route(/\/applications\?size=50$/, async (route) => {
      await loaded.promise;
      await route.continue();
    });
    await tab.navigate('#/preview');
    const picker = page.getByRole('combobox', { name: 'Application' });
    await picker.focus();
    loaded.resolve();
    await page.getByRole('heading', { name: 'Grants' }).waitFor();
    await page.keyboard.type('OLDEST');
    await page.getByRole('option', { name: 'oldest worker' }).click();
    await page.waitForURL(/application=/);
    await picker.fill('no such application');
    await page.getByText('Nothing found').waitFor();
    await page.keyboard.press('Escape');
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: 'Search' }).fill('oldest');
    await page.getByRole('option', { name: 'oldest worker' }).waitFor();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'oldest worker', exact: true }).waitFor();
  });

  test('an application that was just used is not called unused', async () => {
    const { server, tab } = suite;
    const { key } = await server.tenant();
    const { id, key: used } = await server.application(key, { permissions: ['application:read'] });
    await server.call('GET', '/applications/key', { key: used });
    await tab.open();
    await tab.signIn(key);
    await tab.navigate(`#/applications/${id}`);
    const { page } = tab;
    await page.getByText('no recorded use').first().waitFor();
    await page.getByRole('button', { name: 'More actions' }).click();
    await page.getByRole('menuitem', { name: 'Delete…' }).click();
    await page.getByText('Use in the last minute may not be recorded yet.').waitFor();
    expect(await page.getByText(/never used/i).count()).toBe(0);
    await server.flush();
    await tab.navigate('#/applications');
    await tab.navigate(`#/applications/${id}`);
    await page.getByText('Last used').waitFor();
    expect(await page.getByText('no recorded use').count()).toBe(0);
  });

  test('the search of applications says that it does not cover containers', async () => {
    const { server, tab } = suite;
    const { key } = await server.tenant();
    const rules = [{ priority: 1, container: '/pci/', transform: 'mask', permissions: ['token:read'] }];
    await server.application(key, { name: 'reader', permissions: [], rules });
    await tab.open();
    await tab.signIn(key);
    await tab.page.getByRole('searchbox', { name: 'Search applications' }).fill('/pci/');
    await tab.page.waitForURL(/q=%2Fpci%2F/);
    await tab.page.getByRole('link', { name: 'Who has access to /pci/?' }).click();
    await tab.page.getByRole('heading', { name: 'Who has access?' }).waitFor();
    await tab.page.getByRole('link', { name: 'reader' }).waitFor();
    await tab.page.goBack();
    await tab.page.getByRole('searchbox', { name: 'Search applications' }).fill('token:read');
    await tab.page.getByRole('link', { name: 'reader' }).waitFor();
  });
});
