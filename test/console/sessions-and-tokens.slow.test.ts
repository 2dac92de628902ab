import { expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import type { Request } from 'playwright-core';
import { sections } from '../../console/src/frame/sections.ts';
import type { LogEntry } from '../../sdk/src/sallyport.ts';
import { describeConsole } from '../support/console-suite.ts';
import { chargeRequest } from '../support/destination-receiver.ts';
import { until } from '../support/until.ts';

describeConsole('console sessions and tokens:', (suite) => {
  const startSession = async (webKey: string) =>
    (await suite.server.call('POST', '/sessions', { key: webKey })).body;
  const authorize = (key: string, nonce: string, container: string) => {
    const conditions = [{ attribute: 'container', operator: 'starts_with', value: container }];
    const rules = [{ priority: 1, transform: 'mask', permissions: ['token:read'], conditions }];
    return suite.server.call('POST', '/sessions/authorize', { key, body: { nonce, rules } });
  };
  const web = (key: string, name: string) =>
    suite.server.application(key, { name, type: 'public', permissions: ['token:create'] });

  test('sessions are filtered by container, application and authorizer', async () => {
    const { key } = await suite.server.tenant();
    const [shop, kiosk] = [await web(key, 'shop page'), await web(key, 'kiosk page')];
    const backend = await suite.server.application(key, {
      name: 'shop backend',
      permissions: ['session:authorize'],
    });
    await authorize(backend.key, (await startSession(shop.key)).nonce, '/customers/42/');
    await authorize(key, (await startSession(kiosk.key)).nonce, '/orders/');
    await suite.tab.open();
    await suite.tab.signIn(key);
    await suite.tab.navigate('#/sessions');
    const { page } = suite.tab;
    const rows = page.getByRole('list').filter({ hasText: 'page' }).getByRole('listitem');
    const gone = (name: string) => rows.filter({ hasText: name }).waitFor({ state: 'detached' });
    await rows.filter({ hasText: 'shop page' }).waitFor();
    const container = page.getByRole('searchbox', { name: 'Container' });
    await container.fill('/orders/');
    await gone('shop page');
    await rows.filter({ hasText: 'kiosk page' }).waitFor();
    expect(await rows.count()).toBe(1);
    await container.fill('no//path');
    await page.getByText('container: must be a path').first().waitFor();
    await container.fill('');
    await page.getByRole('combobox', { name: 'Application' }).fill('shop');
    await page.getByRole('option', { name: 'shop page' }).click();
    await gone('kiosk page');
    await page.getByRole('button', { name: 'Clear application' }).click();
    await rows.filter({ hasText: 'kiosk page' }).waitFor();
    await page.getByRole('combobox', { name: 'Authorizer' }).fill('backend');
    await page.getByRole('option', { name: 'shop backend' }).click();
    await gone('kiosk page');
    await rows.filter({ hasText: '/customers/42/' }).waitFor();
    await page.goBack();
    await rows.filter({ hasText: 'kiosk page' }).waitFor();
  });

  test('an application is chosen while the search for its name runs', async () => {
    const { key } = await suite.server.tenant();
    const { id } = await web(key, 'shop page');
    await web(key, 'kiosk page');
    const { tab } = suite;
    const { page } = tab;
    const search = /\/applications\?.*name=shop/;
    await tab.open();
    // Gets no response.
    await tab.context.route(search, () => {});
    await tab.signIn(key);
    await tab.navigate('#/sessions');
    const field = page.getByRole('combobox', { name: 'Application' });
    await field.click();
    await page.getByRole('option', { name: 'kiosk page' }).waitFor();
    const requested = page.waitForRequest(search);
    await field.fill('shop');
    await requested;
    const shown = page.getByRole('option');
    expect(await shown.allInnerTexts()).toEqual(['shop page']);
    await shown.click();
    await page.waitForURL((url) => url.hash === `#/sessions?application=${id}`);
    await tab.context.unroute(search);
  });

  test('new sessions appear without a reload, and several can be ended together', async () => {
    const { key } = await suite.server.tenant();
    const shop = await web(key, 'shop page');
    const sessions = [await startSession(shop.key), await startSession(shop.key)];
    await suite.tab.open();
    await suite.tab.signIn(key);
    await suite.tab.navigate('#/sessions');
    const { page } = suite.tab;
    await page.getByText('2 sessions').waitFor();
    sessions.push(await startSession(shop.key));
    await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')));
    await page.getByText('3 sessions').waitFor();
    const boxes = page.getByRole('checkbox', { name: /^Select session/ });
    await boxes.nth(0).check();
    await boxes.nth(1).check();
    await page.getByRole('button', { name: 'End 2 sessions…' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'End sessions' }).click();
    await page.getByText('1 session', { exact: true }).waitFor();
    const left = (await suite.server.call('GET', '/sessions', { key })).body.data;
    expect(left).toHaveLength(1);
    const statuses = sessions.map(
      async ({ session_key }) =>
        (await suite.server.call('GET', '/tokens', { key: session_key })).status === 401,
    );
    expect(await Promise.all(statuses)).toEqual([false, true, true]);
  });

  test('sessions and tokens are CSV files, tokens without their data', async () => {
    const { server, tab } = suite;
    const { key } = await server.tenant();
    const shop = await web(key, 'shop page');
    await authorize(key, (await startSession(shop.key)).nonce, '/customers/42/');
    const token = { id: 'card-9', container: '/pci/', data: 'plaintext', metadata: { order: '7' } };
    await server.call('POST', '/tokens', { key, body: token });
    await tab.open();
    await tab.signIn(key);
    const csv = async (hash: string) => {
      await tab.navigate(hash);
      const downloading = tab.page.waitForEvent('download');
      await tab.page.getByRole('button', { name: 'CSV' }).click();
      return readFileSync(await (await downloading).path(), 'utf8').split('\r\n');
    };
    const [, session, end] = await csv('#/sessions');
    expect([session, end]).toEqual([
      expect.stringMatching(/,"active",.*\/customers\/42\/.* mask: token:read"/),
      '',
    ]);
    const tokens = await csv('#/tokens');
    expect(tokens[1]).toStartWith('"card-9","/pci/","token",');
    expect(tokens.join()).not.toContain('plaintext');
  });

  test('tokens are found by ID, metadata, type and container, and shown readably', async () => {
    const { key } = await suite.server.tenant();
    const create = (body: object) => suite.server.call('POST', '/tokens', { key, body });
    await create({
      id: 'card-42',
      type: 'card',
      container: '/customers/42/',
      data: { number: '4242', expiry: '01/29' },
      mask: { number: '{{ data.number | reveal_last: 2 }}' },
      metadata: { order: '1042' },
    });
    await create({ id: 'iban-1', type: 'iban', container: '/staff/', data: 'DE1' });
    await create({ id: 'code-1', container: '/staff/', data: '123', max_uses: 2 });
    await suite.tab.open();
    await suite.tab.signIn(key);
    await suite.tab.navigate('#/tokens');
    const { page } = suite.tab;
    const card = page.getByRole('button', { name: /^card-42/ });
    const iban = page.getByRole('button', { name: /^iban-1/ });
    const search = page.getByRole('searchbox', { name: 'Search tokens' });
    await iban.waitFor();
    await search.fill('order=1042');
    await iban.waitFor({ state: 'detached' });
    await card.waitFor();
    await search.fill('iban-1');
    await card.waitFor({ state: 'detached' });
    await search.fill('unknown');
    await page.getByText('No matching tokens').waitFor();
    await search.fill('');
    await page.getByRole('combobox', { name: 'Type' }).click();
    await page.getByRole('option', { name: 'card' }).click();
    await iban.waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Clear type' }).click();
    await iban.waitFor();

    const tree = page.getByRole('navigation', { name: 'Containers' });
    const customers = tree.getByRole('button', { name: '/customers/ subcontainers' });
    await customers.click();
    expect(await customers.getAttribute('aria-expanded')).toBe('false');
    expect(await tree.getByRole('button', { name: /^42/ }).count()).toBe(0);
    await customers.click();
    await tree.getByRole('button', { name: /^42/ }).click();
    await iban.waitFor({ state: 'detached' });
    await page.waitForURL(/container=%2Fcustomers%2F42%2F/);
    await card.click();
    const text = await page.getByRole('dialog', { name: 'Token card-42' }).innerText();
    expect(text.replace(/\s+/g, ' ')).toMatch(/number XX42.* Container \/customers\/42\/ .*order 1042/);
    await page.keyboard.press('Escape');
    await page.setViewportSize({ width: 390, height: 844 });
    await page.getByRole('button', { name: '/customers/42/', exact: true }).click();
    await tree.getByRole('button', { name: /^staff/ }).click();
    await iban.click();
    await page.getByRole('dialog', { name: 'Token iban-1' }).waitFor();
    await page.setViewportSize({ width: 1280, height: 840 });
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: /^code-1 .*0 of 2 uses/ }).click();
    const limited = page.getByRole('dialog', { name: 'Token code-1' });
    await limited.getByText('0 of 2 uses, then it is deleted').waitFor();
    await limited.getByText('Never shown.').waitFor();
  });

  test('opening pages discloses no data, with any kind of key', async () => {
    const { server, tab } = suite;
    const { page } = tab;
    const { key } = await server.tenant();
    const post = async (path: string, as: string, body?: unknown) => {
      const response = await server.call('POST', path, { key: as, body });
      expect(response.status).toBeLessThan(300);
      return response.body;
    };
    const own = (await server.call('GET', '/permissions/own', { key })).body.permissions as string[];
    const reveal = { priority: 1, container: '/', transform: 'reveal', permissions: ['token:read'] };
    const application = (type: string, more?: object) => {
      const permissions = type === 'management' ? own : own.filter((name) => /:(read|review)$/.test(name));
      const rules = [{ ...reveal, ...more }];
      return server.application(key, { name: `a ${type} one`, type, permissions, rules });
    };
    const management = await application('management');
    const reader = await application('private');
    const careful = await application('private', { require_purpose: true });
    const browser = await web(key, 'shop page');
    const { session_key: session, nonce } = await startSession(browser.key);
    const conditions = [{ attribute: 'container', operator: 'starts_with', value: '/' }];
    const rules = [{ ...reveal, container: undefined, conditions }];
    await post('/sessions/authorize', management.key, { nonce, rules });
    const { key: delegation } = await post('/delegations', reader.key, { rules });
    const destination = { name: 'payments', origin: 'https://payments.example', requests: [chargeRequest] };
    const { id } = await post('/destinations', key, destination);
    await post('/tokens', key, { id: 'card-1', container: '/pci/', data: 'plaintext' });
    const shared = [...sections.map(({ path }) => path), 'tokens?open=card-1'];
    const places = [
      ...shared,
      ...['new', management.id, `${management.id}/edit`].map((place) => `applications/${place}`),
      ...['new', id, `${id}/edit`].map((place) => `destinations/${place}`),
      'tokens?container=/pci/&q=card-1',
      'activity?q=card-1',
      'who?q=card-1',
      'preview',
    ];
    const waiting = new Set<Request>();
    // The console does not read the response of a check, which the browser may then not report as finished.
    page.on('request', (request) => request.url().endsWith('/readyz') || waiting.add(request));
    page.on('requestfinished', (request) => waiting.delete(request));
    page.on('requestfailed', (request) => waiting.delete(request));
    const settled = () =>
      until('the page has loaded', async () => {
        await page.evaluate(() => new Promise((done) => setTimeout(done)));
        const failed = page.getByText('This page failed');
        expect(await failed.count()).toBe(0);
        return waiting.size === 0 && (await page.locator('h1').count()) === 1;
      });
    const disclosures = async () => {
      await server.flush();
      const { body } = await server.call('GET', '/logs?transform=reveal', { key });
      return body.data.map(({ operation, request_id }: LogEntry) => `${operation} ${request_id}`);
    };
    const others = [key, reader.key, careful.key, browser.key, session, delegation];
    for (const caller of [management.key, ...others]) {
      await tab.open();
      await tab.signIn(caller);
      for (const place of caller === management.key ? places : shared) {
        await tab.navigate(`#/${place}`);
        await settled();
      }
      expect(await disclosures()).toEqual([]);
      await tab.reset();
    }
    for (const caller of [management.key, reader.key, session, delegation])
      await server.call('GET', '/tokens', { key: caller });
    expect(await disclosures()).toHaveLength(4);
  });
});
