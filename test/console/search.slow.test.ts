/** Search, addresses of objects and log entries, and data that is out of date. */
import { expect, test } from 'bun:test';
import { describeConsole } from '../support/console-suite.ts';

describeConsole('console search:', (suite) => {
  const signIn = async (key: string, hash = '') => {
    await suite.tab.open(`${suite.server.url}/console${hash}`);
    await suite.tab.signIn(key);
  };
  const hash = () => decodeURIComponent(new URL(suite.tab.page.url()).hash);

  test('Ctrl K finds requests, tokens, sessions, keys, applications and containers, and each has an address', async () => {
    const { server, tab } = suite;
    const { page } = tab;
    const { key } = await server.tenant();
    const desk = await server.application(key, { name: 'help desk' });
    const web = await server.application(key, { type: 'public' });
    const headers = { 'SVC-REQUEST-ID': 'request-of-a-ticket' };
    const body = { id: 'card-42', container: '/pci/', data: 'x' };
    await server.call('POST', '/tokens', { key, headers, body });
    const { nonce } = (await server.call('POST', '/sessions', { key: web.key })).body;
    await server.call('POST', '/sessions/authorize', { key, body: { nonce, permissions: ['token:read'] } });
    const session = (await server.call('GET', '/sessions', { key })).body.data[0].id;
    // Older than the period that Activity shows at first.
    server.clock.advance(20 * 86_400_000);
    await server.flush();
    const find = async (text: string, option: string | RegExp) => {
      await page.keyboard.press('Control+k');
      await page.getByRole('combobox', { name: 'Search' }).fill(text);
      await page.getByRole('option', { name: option }).click();
    };
    await signIn(key);
    expect(await page.getByRole('button', { name: /Search/ }).innerText()).toContain('Ctrl K');

    await find('request-of-a-ticket', /token.create .* request$/);
    await page.getByText('1 entry of this request, in any period').waitFor();
    const entry = (await server.call('GET', '/logs?request_id=request-of-a-ticket', { key })).body.data[0].id;
    await page.getByRole('link', { name: entry }).click();
    await page.getByText('of this address, in any period').waitFor();
    const address = page.url();

    await find('card-42', 'Token card-42 token');
    await page.getByRole('dialog', { name: 'Token card-42' }).waitFor();
    expect(hash()).toBe('#/tokens?open=card-42');
    await page.keyboard.press('Escape');

    await find(session, /^Session …/);
    await page.getByText('This session has ended').waitFor();
    expect(hash()).toBe(`#/sessions?id=${session}`);

    await find(desk.key, /^Key ….* of help desk key$/);
    await page.getByRole('heading', { name: 'help desk' }).waitFor();
    expect(hash()).toBe(`#/applications/${desk.id}?key=${desk.key.slice(-4)}`);
    await page.locator('.key-found').getByText(desk.key.slice(-4)).waitFor();

    await find('/pci/', 'Who has access to /pci/ container');
    await page.getByText('with access').waitFor();
    await find('help de', 'help desk private');
    await page.getByRole('heading', { name: 'help desk' }).waitFor();

    // A pasted address opens the entry with its details.
    await tab.reset();
    await signIn(key, new URL(address).hash);
    await page.getByText('Request ID').waitFor();
    await page.getByRole('link', { name: 'request-of-a-ticket' }).waitFor();

    await tab.navigate('#/nonsense');
    await page.getByRole('heading', { name: 'Not found' }).waitFor();
  });

  test('a change in the log is shown like in the review dialog, with its time zone', async () => {
    const { server, tab } = suite;
    const { key } = await server.tenant();
    const { id } = await server.application(key, { name: 'desk', permissions: ['token:read'] });
    const rules = [{ priority: 1, container: '/pci/', transform: 'mask', permissions: ['token:read'] }];
    await server.call('PUT', `/applications/${id}`, { key, body: { name: 'help desk', rules } });
    await signIn(key, `#/activity?period=all&operation=application.update`);
    await tab.page.getByRole('button', { name: /Details/ }).click();
    const changes = await tab.page.locator('.entry .changes').innerText();
    expect(changes.replace(/\s+/g, ' ')).toContain('added: rule 1. mask in /pci/: token:read');
    expect(changes).not.toContain('{');
    await tab.page
      .locator('dl')
      .getByText(/^\d+ \w+ 2026, .* UTC$/)
      .waitFor();
  });

  test('while the service does not answer, every page says since when its data is old', async () => {
    const { server, tab } = suite;
    const { page, context } = tab;
    const { key } = await server.tenant();
    const web = await server.application(key, { type: 'public' });
    await server.call('POST', '/sessions', { key: web.key });
    await signIn(key, '#/sessions');
    await page.getByText('Live', { exact: true }).waitFor();
    const banner = page.getByRole('alert').filter({ hasText: 'does not answer' });
    await context.setOffline(true);
    await banner.waitFor();
    expect(await banner.innerText()).toMatch(/data from before\s15 Nov 2026, .* UTC/);
    await page.getByText('Not updating').waitFor();
    expect(await page.getByText('Live', { exact: true }).count()).toBe(0);
    expect(await page.getByText('0 sessions').count()).toBe(0);
    await page.getByText('1 session', { exact: true }).waitFor();
    await tab.navigate('#/nonsense');
    await banner.waitFor();
    await tab.navigate('#/sessions');
    await context.setOffline(false);
    await page.getByText('Live', { exact: true }).waitFor();
    await banner.waitFor({ state: 'detached' });
  });
});
