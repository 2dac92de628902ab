/** The sign-in and drafts survive lost connections, deployments and expired keys. */
import { expect, test } from 'bun:test';
import { describeConsole } from '../support/console-suite.ts';

const chunk = /\/console\/part-/;
const page = /\/console$/;

describeConsole('console interruptions:', (suite) => {
  /** React logs errors even if an error boundary catches them. */
  const ignoreLoggedErrors = () => suite.tab.violations.splice(0);

  test('a lost connection, a failed deployment and an upgrade have different messages', async () => {
    const { server, tab } = suite;
    const { key } = await server.tenant();
    await tab.open();
    const { context } = tab;
    await tab.signIn(key);
    const title = tab.page.getByRole('alert').getByRole('heading');
    const retry = tab.page.getByRole('button', { name: 'Try again' });

    await context.setOffline(true);
    await tab.navigate('#/sessions');
    await tab.page.getByText('Connection lost').waitFor();
    await context.setOffline(false);
    await tab.page.getByRole('heading', { name: 'Sessions', exact: true }).waitFor();

    await context.route(chunk, (route) => route.fulfill({ status: 404 }));
    await tab.navigate('#/tokens');
    await title.waitFor();
    expect(await title.innerText()).toBe('A file of the console is missing');

    await context.route(page, (route) => route.fulfill({ status: 502, body: 'Bad gateway' }));
    await retry.click();
    await tab.page.getByText('The service is not available').waitFor();
    await context.unroute(page);
    await context.unroute(chunk);
    await retry.click();
    await tab.page.getByRole('heading', { name: 'Tokens', exact: true }).waitFor();
    ignoreLoggedErrors();
  });

  test('after an upgrade, a reload shows the same page, still signed in', async () => {
    const { server, tab } = suite;
    const { key } = await server.tenant();
    await tab.open();
    await tab.signIn(key);
    await tab.context.route(chunk, (route) => route.fulfill({ status: 404 }));
    await tab.context.route(page, async (route) => {
      const response = await route.fetch();
      const body = (await response.text()).replace(/main-\w+\.js/, 'main-newer.js');
      await route.fulfill({ response, body });
    });
    await tab.navigate('#/sessions');
    await tab.page.getByText('The console was updated').waitFor();
    await tab.context.unroute(page);
    await tab.context.unroute(chunk);
    await tab.page.getByRole('button', { name: 'Reload' }).click();
    await tab.page.getByRole('heading', { name: 'Sessions', exact: true }).waitFor();
    expect(await tab.page.evaluate(() => sessionStorage.length)).toBe(0);
    ignoreLoggedErrors();
  });

  test('a draft survives an expired key and a reload, and can be discarded', async () => {
    const { server, tab } = suite;
    const { key } = await server.tenant();
    const { id } = await server.application(key, { name: 'worker', permissions: ['token:read'] });
    const expires_at = new Date(server.clock.now() + 60_000).toISOString();
    const permissions = ['application:read', 'application:update'];
    const { key: short } = await server.application(key, { permissions, expires_at });
    await tab.open();
    const name = tab.page.getByLabel('Name');
    await tab.signIn(short);
    await tab.navigate(`#/applications/${id}/edit`);
    await name.fill('renamed worker');
    server.clock.advance(60_000);
    await tab.page.getByRole('button', { name: 'Review changes' }).click();
    await tab.page.getByRole('button', { name: 'Save' }).click();
    await tab.page.getByText('the key has expired or was revoked').waitFor();
    await tab.signIn(key);
    await tab.page.getByText('Your unsaved changes were restored.').waitFor();
    expect(await name.inputValue()).toBe('renamed worker');

    tab.acceptDialogs(true);
    await tab.page.reload();
    tab.acceptDialogs(false);
    await tab.signIn(key);
    expect(await name.inputValue()).toBe('renamed worker');
    await tab.page.getByRole('button', { name: 'Discard changes' }).click();
    expect(await name.inputValue()).toBe('worker');
    await tab.page.getByRole('link', { name: 'Cancel' }).click();
    await tab.page.getByRole('heading', { name: 'worker', exact: true }).waitFor();
  });
});
