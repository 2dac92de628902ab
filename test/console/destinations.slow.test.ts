/** The pages of destinations: list, editor with review, dry run, who can use one, search, and rules that name one. */
import { beforeAll, expect, test } from 'bun:test';
import { describeConsole } from '../support/console-suite.ts';
import { accessibilityViolations } from '../support/console-tab.ts';

const secret = 'Bearer sk_live_51HhTbqF';
const definition = {
  name: 'payments',
  origin: 'https://api.payments.example',
  requests: [
    {
      method: 'POST',
      path: '/v1/charges/:id',
      placeholders: [
        { at: '/card/number', from: '/number' },
        { at: 'header:x-card', from: '/number', prefix: 'Card ' },
      ],
      query: ['expand'],
      reply: ['/id'],
    },
  ],
};
const rules = ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa', 'best-practice'];

describeConsole('console destinations:', (suite) => {
  let key: string;
  let id: string;
  let shop: string;
  beforeAll(async () => {
    const { server } = suite;
    ({ key } = await server.tenant());
    const post = (path: string, body: unknown) => server.call('POST', path, { key, body });
    ({ id } = (await post('/destinations', { ...definition, headers: { authorization: secret } })).body);
    const rule = {
      priority: 1,
      container: '/cards/',
      transform: 'redact',
      permissions: ['token:use'],
      destinations: [id],
    };
    ({ id: shop } = await server.application(key, {
      name: 'web shop',
      permissions: ['mine:x'],
      rules: [rule],
    }));
    const card = { id: 'card-1', container: '/cards/', data: { number: '4242424242424242' } };
    await post('/tokens', { ...card, mask: { number: '{{ data.number | reveal_last: 4 }}' } });
    await post('/tokens', { ...card, id: 'card-2' });
  });

  const open = async (hash: string) => {
    await suite.tab.open(`${suite.server.url}/console${hash}`);
    await suite.tab.signIn(key);
    return suite.tab.page;
  };
  const stored = async () => (await suite.server.call('GET', `/destinations/${id}`, { key })).body;

  test('a destination shows its requests and who can use it, and its secrets nowhere', async () => {
    const page = await open('#/destinations');
    await page.getByRole('link', { name: 'payments' }).click();
    const requests = page.getByRole('region', { name: 'Requests' });
    await requests
      .getByText('inserts /card/number from /number, header:x-card from /number after "Card "')
      .waitFor();
    const users = page.getByRole('region', { name: 'Who can use it' });
    expect(await users.getByRole('link').allTextContents()).toEqual(['web shop', '/cards/']);
    await page.getByRole('region', { name: 'Uses' }).waitFor();
    expect(await page.content()).not.toContain('sk_live');
    await users.getByRole('link', { name: '/cards/' }).click();
    await page.locator('.who-row').getByText('web shop').waitFor();
  });

  test('the dry run shows the request with masked values and sends nothing', async () => {
    const page = await open(`#/destinations/${id}`);
    const request = page.getByLabel('Request of a caller');
    expect(await request.inputValue()).toStartWith('POST /v1/charges/1\nx-card: {{ token: ID }}\n\n{');
    const asSent = page.getByLabel('Request as it would be sent, with masked values');
    const run = async (text: string) => {
      await request.fill(text);
      await page.getByRole('button', { name: 'Show as sent' }).click();
    };
    const body = (token: string) => JSON.stringify({ card: { number: `{{ token: ${token} }}` }, amount: 5 });
    await run(`POST /v1/charges/7?expand=a\nX-Card: {{ token: card-1 }}\nX-Other: no\n\n${body('card-1')}`);
    expect(await asSent.textContent()).toBe(
      [
        'POST https://api.payments.example/v1/charges/7?expand=a',
        'x-card: Card XXXXXXXXXXXX4242',
        'authorization: ••••••••',
        '',
        '{"card":{"number":"XXXXXXXXXXXX4242"},"amount":5}',
      ].join('\n'),
    );
    await run(`POST /v1/charges/7\n\n${body('card-2')}`);
    await asSent.getByText('(hidden)').waitFor();
    for (const [text, message] of [
      ['DELETE /v1/charges/7', 'does not list a request'],
      [`POST /v1/charges/7\n\n{ "note": "{{ token: card-1 }}" }`, 'where the destination does not allow one'],
      [`POST /v1/charges/7\n\n${body('unknown')}`, 'Not found'],
    ] as const) {
      await run(text);
      await page.getByRole('alert').filter({ hasText: message }).waitFor();
    }
    const { body: log } = await suite.server.call('GET', `/logs?destination=${id}`, { key });
    expect(log.data).toEqual([]);
  });

  test('a change is checked, reviewed and saved, and keeps the stored headers', async () => {
    const page = await open(`#/destinations/${id}/edit`);
    const text = page.getByLabel('Definition');
    const current = JSON.parse(await text.inputValue());
    await text.fill(JSON.stringify({ ...current, requests: [{ method: 'POST', path: 'charges' }] }));
    await page.getByText('requests.0.path must be a path such as').first().waitFor();
    await text.fill(JSON.stringify({ ...current, timeout: 5 }));
    await page.getByRole('button', { name: 'Review changes' }).click();
    const dialog = page.getByRole('dialog');
    const changes = (await dialog.locator('.changes li').allTextContents()).map((each) => each.slice(1));
    expect(changes).toEqual(['removed: timeout 25 s', 'added: timeout 5 s']);
    await dialog.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('heading', { name: 'payments', exact: true }).waitFor();
    expect(await stored()).toMatchObject({
      timeout: 5,
      header_names: ['authorization'],
      requests: current.requests,
    });
  });

  test('a change of someone else is not overwritten', async () => {
    const page = await open(`#/destinations/${id}/edit`);
    const text = page.getByLabel('Definition');
    const current = JSON.parse(await text.inputValue());
    await suite.server.call('PUT', `/destinations/${id}`, { key, body: { ...(await stored()), timeout: 9 } });
    await text.fill(JSON.stringify({ ...current, timeout: 7 }));
    await page.getByRole('button', { name: 'Review changes' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
    await page.getByRole('alert').getByText('changed').waitFor();
    expect((await stored()).timeout).toBe(9);
  });

  test('a destination is created, found by the search, and deleted', async () => {
    const page = await open('#/destinations/new');
    await page
      .getByLabel('Definition')
      .fill(JSON.stringify({ ...definition, name: 'tracker', headers: { 'x-key': 'k-1' } }));
    await page.getByRole('button', { name: 'Review and create' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('header x-key').waitFor();
    await dialog.getByRole('button', { name: 'Create' }).click();
    await page.getByRole('heading', { name: 'tracker' }).waitFor();
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: 'Search' }).fill('track');
    await page.getByRole('option', { name: /^tracker/ }).click();
    await page.getByRole('button', { name: 'Delete…' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('region', { name: 'All destinations' }).waitFor();
    expect(await page.getByRole('link', { name: 'tracker' }).count()).toBe(0);
  });

  test('a rule that grants token:use names its destinations, and the review says which', async () => {
    const page = await open(`#/applications/${shop}/edit`);
    const chip = page.getByRole('button', { name: 'payments' });
    expect(await chip.getAttribute('aria-pressed')).toBe('true');
    await page.getByLabel('Container', { exact: true }).fill('/cards/eu/');
    await page.getByRole('button', { name: 'Review changes' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('rule 1. redact in /cards/eu/ at payments: token:use').waitFor();
    await dialog.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('heading', { name: 'web shop', exact: true }).waitFor();
    const { body } = await suite.server.call('GET', `/applications/${shop}`, { key });
    expect(body.rules).toMatchObject([{ container: '/cards/eu/', destinations: [id] }]);
  });

  test.each([
    ['list', '#/destinations'],
    ['destination', ''],
    ['editor', '/edit'],
  ])('the %s has no accessibility violations and fits the screen', async (name, hash) => {
    const page = await open(hash.startsWith('#') ? hash : `#/destinations/${id}${hash}`);
    await page
      .getByText(name === 'list' ? 'api.payments.example' : 'Request of a caller')
      .first()
      .waitFor();
    const found: string[] = [];
    for (const [width, scheme] of [
      [1280, 'light'],
      [390, 'light'],
      [1280, 'dark'],
      [390, 'dark'],
    ] as const) {
      await page.setViewportSize({ width, height: 840 });
      await suite.tab.setColorScheme(scheme);
      await suite.tab.screenshot(`destinations-${name}-${width}-${scheme}`);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      if (wide > 0) found.push(`${width}: ${wide} pixels wider than the screen`);
      const only = scheme === 'light' ? rules : ['color-contrast'];
      found.push(...(await accessibilityViolations(page, only)).map((each) => `${width} ${scheme}: ${each}`));
    }
    await page.setViewportSize({ width: 1280, height: 840 });
    await suite.tab.setColorScheme('light');
    expect(found).toEqual([]);
  });
});
