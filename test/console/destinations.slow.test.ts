/** The pages of destinations: list, editor with review, dry run, who can use one, search, and rules that name one. */

import { beforeAll, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { createCertificates, noOpenssl } from '../support/certificates.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { describeConsole } from '../support/console-suite.ts';
import { accessibilityViolations } from '../support/console-tab.ts';
import { chargeRequest, openReceiver, tokenUseRule } from '../support/destination-receiver.ts';
import { sqlite } from '../support/test-server.ts';

const secret = 'Bearer sk_live_51HhTbqF';
const definition = {
  name: 'payments',
  origin: 'https://api.payments.example',
  requests: [
    {
      ...chargeRequest,
      reply: ['/id'],
      name: 'charge_card',
      description: 'Charge a stored card.',
      schema: { type: 'object', properties: { amount: { maximum: 500 } } },
    },
  ],
};
const rules = ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa', 'best-practice'];

describeConsole(
  'console destinations:',
  (suite) => {
    let key: string;
    let id: string;
    let shop: string;
    beforeAll(async () => {
      const { server } = suite;
      ({ key } = await server.tenant());
      const post = (path: string, body: unknown) => server.call('POST', path, { key, body });
      ({ id } = (await post('/destinations', { ...definition, headers: { authorization: secret } })).body);
      ({ id: shop } = await server.application(key, {
        name: 'web shop',
        permissions: ['mine:x'],
        rules: [tokenUseRule('/cards/', [id])],
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
      for (const text of ['charge_card', 'Charge a stored card.'])
        await requests.getByText(text, { exact: true }).waitFor();
      await requests.getByText('Schema of the body').click();
      await requests.getByText('"maximum": 500').waitFor();
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
      const body = (token: string) =>
        JSON.stringify({ card: { number: `{{ token: ${token} }}` }, amount: 5 });
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
        [
          `POST /v1/charges/7\n\n{ "note": "{{ token: card-1 }}" }`,
          'where the destination does not allow one',
        ],
        [`POST /v1/charges/7\n\n${body('unknown')}`, 'Not found'],
      ] as const) {
        await run(text);
        await page.getByRole('alert').filter({ hasText: message }).waitFor();
      }
      const { body: log } = await suite.server.call('GET', `/logs?destination=${id}`, { key });
      expect(log.data).toEqual([]);
    });

    const changes = async (button: string) => {
      const { page } = suite.tab;
      await page.getByRole('button', { name: button }).click();
      const lines = page.getByRole('dialog').locator('.changes li');
      await lines.first().waitFor();
      return (await lines.allTextContents()).map((each) => each.slice(1));
    };
    const save = async (button = 'Save') => {
      const { page } = suite.tab;
      await page.getByRole('dialog').getByRole('button', { name: button }).click();
      await page.getByRole('dialog').waitFor({ state: 'hidden' });
      await page.getByRole('heading', { name: 'Dry run' }).waitFor();
    };
    const request = (number: number) => suite.tab.page.getByRole('group', { name: `Request ${number}` });

    test('a change is checked, reviewed and saved', async () => {
      const { requests: before } = await stored();
      const page = await open(`#/destinations/${id}/edit`);
      const path = request(1).getByLabel('Path');
      await path.fill('charges');
      await page.getByRole('button', { name: 'Review changes' }).click();
      await request(1).getByText('must be a path such as').waitFor();
      expect(await path.evaluate((input) => input === document.activeElement)).toBe(true);
      await path.fill('/v1/charges/:id');
      await page.getByLabel('Timeout in seconds').fill('5');
      await page.getByRole('button', { name: 'Add request' }).click();
      await request(2).getByRole('combobox', { name: 'Method' }).click();
      await page.getByRole('option', { name: 'GET' }).click();
      await request(2).getByLabel('Path').fill('/v1/me');
      await request(2).getByLabel('Place of placeholder 1').fill('/card');
      await page.getByRole('button', { name: 'Review changes' }).click();
      await request(2).getByText('can only be headers').waitFor();
      await request(2).getByRole('button', { name: 'Remove placeholder 1' }).click();
      await request(2).getByLabel('Reply').fill('/name\nheader:request-id\n');
      await request(2).getByLabel('Return the whole body').check();
      const returned = 'returns the status, the whole body, /name, header:request-id';
      expect(await changes('Review changes')).toEqual([
        'removed: timeout 25 s',
        `added: request GET /v1/me: ${returned}`,
        'added: timeout 5 s',
      ]);
      await save();
      const added = { method: 'GET', path: '/v1/me', reply: ['', '/name', 'header:request-id'] };
      const empty = { placeholders: [], query: [], headers: [] };
      expect(await stored()).toMatchObject({ timeout: 5, requests: [...before, { ...added, ...empty }] });
    });

    test('schema, stream and ignored headers are checked and saved', async () => {
      const requests = [{ method: 'POST', path: '/chat', reply: ['/id'] }];
      const fields = { name: 'model', origin: 'https://api.model.example', requests };
      const { body } = await suite.server.call('POST', '/destinations', { key, body: fields });
      const page = await open(`#/destinations/${body.id}/edit`);
      const schema = request(1).getByLabel('Schema of the body');
      await schema.fill('{ "type": ');
      await page.getByRole('button', { name: 'Review changes' }).click();
      await request(1).locator('textarea[aria-invalid="true"]').waitFor();
      await schema.fill('{ "type": "object" }');
      await request(1).getByLabel('Pass on all that arrives').check();
      await page.getByLabel('Ignored headers').fill('X-Stainless-*\n');
      expect(await changes('Review changes')).toEqual([
        'removed: request POST /chat: returns the status, /id',
        'added: request POST /chat: returns a stream of any content; schema {"type":"object"}',
        'added: ignored header x-stainless-*',
      ]);
      await save();
      const saved = {
        ignored_headers: ['x-stainless-*'],
        requests: [{ reply: 'stream', schema: { type: 'object' } }],
      };
      const { body: after } = await suite.server.call('GET', `/destinations/${body.id}`, { key });
      expect(after).toMatchObject(saved);
      await suite.server.call('DELETE', `/destinations/${body.id}`, { key });
    });

    test.skipIf(noOpenssl)(
      'stored secrets do not change when another field is saved, and are replaced on request',
      async () => {
        const { server } = suite;
        const receiver = await openReceiver(true);
        const folder = temporaryFolder();
        const { ca, clientCertificate: client_certificate, addressOrigin: origin } = receiver;
        const requests = [{ method: 'POST', path: '/charges', reply: ['/id'] }];
        const headers = { authorization: secret, 'x-version': '7' };
        const fields = { name: 'guarded', origin, requests, headers, ca, client_certificate };
        const { body } = await server.call('POST', '/destinations', { key, body: fields });
        const { key: user } = await server.application(key, {
          permissions: ['mine:x'],
          rules: [tokenUseRule('/', [body.id])],
        });
        const sent = async () => {
          const { status } = await server.call('POST', '/proxy/guarded/charges', { key: user });
          return [status, receiver.received.splice(0).join('')] as const;
        };
        const page = await open(`#/destinations/${body.id}/edit`);
        await page.getByText('Stored: authorization, x-version').waitFor();
        await page.getByLabel('Timeout in seconds').fill('9');
        expect(await changes('Review changes')).toEqual(['removed: timeout 25 s', 'added: timeout 9 s']);
        await save();
        const [status, text] = await sent();
        expect([status, text]).toEqual([200, expect.stringContaining(`authorization: ${secret}`)]);
        expect(text).toContain('x-version: 7');

        await suite.tab.navigate(`#/destinations/${body.id}/edit`);
        await page.getByRole('button', { name: 'Replace headers' }).click();
        await page.getByRole('button', { name: 'Remove header 2' }).click();
        await page.getByRole('button', { name: 'Review changes' }).click();
        await page.getByText('must have 1 to 4000 visible').waitFor();
        await page.getByLabel('Value of header 1').fill('Bearer new');
        expect(await changes('Review changes')).toEqual(['removed: header x-version']);
        await page.getByRole('dialog').getByText('The values of all headers are replaced.').waitFor();
        await save();
        const [, replaced] = await sent();
        expect(replaced).toContain('authorization: Bearer new');
        expect(replaced).not.toContain('x-version');

        const { server: other } = createCertificates(folder, 'client');
        await suite.tab.navigate(`#/destinations/${body.id}/edit`);
        await page
          .getByLabel('Client certificate')
          .fill(client_certificate + readFileSync(other.key, 'utf8'));
        await page.getByRole('button', { name: 'Review changes' }).click();
        await page.getByText('must be PEM: certificates, and one unencrypted private key').waitFor();
        await page.getByLabel('Client certificate').fill('');
        expect(await changes('Review changes')).toEqual(['removed: client certificate']);
        await save();
        expect((await sent())[0]).toBe(502);

        await server.flush();
        await suite.tab.navigate(`#/destinations/${body.id}`);
        const uses = page.getByRole('region', { name: 'Last uses' });
        // Whether the last request counts as sent depends on when the receiver refuses the missing certificate.
        const successes = uses.getByText(/^200 in \d+ ms/);
        await successes.nth(1).waitFor();
        expect(await successes.count()).toBe(2);
        await page.getByRole('button', { name: 'Delete…' }).click();
        const losers = page.getByRole('dialog').getByRole('region', { name: 'Who loses it' });
        await losers.getByText('1 application loses it').waitFor();
        expect(await losers.getByRole('listitem').count()).toBe(1);
      },
    );

    test('a change of someone else is not overwritten', async () => {
      const page = await open(`#/destinations/${id}/edit`);
      const timeout = page.getByLabel('Timeout in seconds');
      await timeout.waitFor();
      await suite.server.call('PUT', `/destinations/${id}`, {
        key,
        body: { ...(await stored()), timeout: 9 },
      });
      await timeout.fill('7');
      await page.getByRole('button', { name: 'Review changes' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
      await page.getByRole('alert').getByText('changed').waitFor();
      expect((await stored()).timeout).toBe(9);
    });

    test('a destination is created with the keyboard, tried, found by the search, and deleted', async () => {
      const page = await open('#/destinations/new');
      await page.getByText('Complete the form to try a request.').waitFor();
      await page.getByLabel('Name', { exact: true }).focus();
      const type = async (...texts: string[]) => {
        for (const text of texts) {
          await page.keyboard.type(text);
          await page.keyboard.press('Tab');
        }
      };
      await type(
        'tracker',
        'https://api.tracker.example',
        '',
        '',
        '/issues',
        'create_issue',
        'Create an issue.',
        '/title',
        '/text',
        '',
      );
      await page.getByRole('button', { name: 'Add header' }).click();
      await page.getByLabel('Name of header 1').focus();
      await type('x-key', 'k-1');
      const sample = page.getByLabel('Request of a caller');
      expect(await sample.inputValue()).toBe('POST /issues\n\n{\n  "title": "{{ token: ID }}"\n}');
      expect(await changes('Review and create')).toEqual([
        'added: name tracker',
        'added: origin https://api.tracker.example',
        'added: request POST /issues: inserts /title from /text; returns the status; name create_issue; description "Create an issue."',
        'added: header x-key',
        'added: timeout 25 s',
        'added: max in flight 50',
      ]);
      await save('Create');
      await page.getByRole('heading', { name: 'tracker', exact: true }).waitFor();
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
        found.push(
          ...(await accessibilityViolations(page, only)).map((each) => `${width} ${scheme}: ${each}`),
        );
      }
      await page.setViewportSize({ width: 1280, height: 840 });
      await suite.tab.setColorScheme('light');
      expect(found).toEqual([]);
    });
  },
  sqlite,
  { SALLYPORT_DESTINATION_NETWORKS: '127.0.0.1' },
);
