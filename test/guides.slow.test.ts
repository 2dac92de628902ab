/** Runs the commands of the quick start, the guides and other pages in a shell, and compares the output. */

import { beforeAll, describe, expect, test } from 'bun:test';
import { cpSync, mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Sallyport } from '../sdk/src/sallyport.ts';
import { noBrowser, openBrowser } from './support/browser.ts';
import { noOpenssl } from './support/certificates.ts';
import { temporaryFolder } from './support/cleanup.ts';
import { installSdk } from './support/install-sdk.ts';
import { type ExampleSetup, readExample, runExample } from './support/page-examples.ts';
import { freePort } from './support/postgres.ts';
import { root, type Service, startService } from './support/service.ts';
import { noCurl, noNginx } from './support/skip.ts';
import { postgres } from './support/test-server.ts';
import { until } from './support/until.ts';

const pages = [
  'quick-start.md',
  'reference/sdk.md',
  'guides/access-as-code.md',
  'guides/access-review.md',
  'guides/bound-sessions.md',
  'guides/give-an-agent-one-customer.md',
  'guides/key-rotation.md',
  'guides/migrate-from-a-hosted-vault.md',
  'guides/show-customers-their-own-data.md',
  'guides/sign-in.md',
  'guides/test-your-application.md',
  'guides/workload-identity.md',
];
const cardPage = 'guides/collect-cards-in-a-browser.md';
const framesPage = 'guides/frames.md';
const destinationPages = [
  'guides/charge-a-card.md',
  'guides/let-an-agent-use-a-secret.md',
  'guides/put-a-model-behind-sallyport.md',
];
const guardPage = 'guides/protect-your-own-api.md';
const gatewayPage = 'guides/authzen-behind-a-gateway.md';
const installationsPage = 'guides/several-installations.md';
const supportPage = 'guides/support.md';
/** readme.slow.test.ts runs this page. */
const curlPage = 'guides/redact-mask-reveal.md';

describe.skipIf(noCurl())('the commands of', () => {
  let built: string;
  let service: Service;

  beforeAll(async () => {
    built = temporaryFolder();
    [service] = await Promise.all([startService(), installSdk(built)]);
  });

  interface Options extends Partial<ExampleSetup> {
    /** Runs only the section with this heading. */
    readonly heading?: string;
    readonly port?: number;
  }

  function newFolder(): string {
    const folder = mkdtempSync(join(service.folder, 'reader-'));
    cpSync(join(built, 'node_modules'), join(folder, 'node_modules'), { recursive: true });
    return folder;
  }

  /** Runs a page in a folder with the SDK. All pages share a tenant, because readers follow several of them. */
  async function follow(
    page: string,
    { heading, replacements, port = freePort(), folder = newFolder(), ...rest }: Options = {},
  ): Promise<void> {
    await runExample(readExample(`docs/${page}`, heading), {
      folder,
      env: { ...service.env, SALLYPORT_DATA_DIR: undefined, PORT: undefined, SALLYPORT_URL: service.url },
      replacements: {
        'http://127.0.0.1:8080': service.url,
        ':3000': `:${port}`,
        '(3000': `(${port}`,
        '"$clone/data/management.key"': join(service.folder, 'data/management.key'),
        '"$clone/data"': join(service.folder, 'data'),
        'npm ci --omit=dev && npm start\n': ':\n',
        'clone=$PWD\n': `clone='${root}'\n`,
        'clone=../sallyport\n': `clone='${root}'\n`,
        'mkdir ../shop && cd ../shop\n': '',
        'npm --prefix "$clone" run --silent build:sdk\n': '',
        'npm install --silent "$clone/sdk"\n': '',
        'npm install --silent openai\n': `ln -s '${root}/node_modules/openai' node_modules/openai\n`,
        ...replacements,
      },
      ...rest,
    });
  }

  test.each(pages)('docs/%s print what it shows', (page) => follow(page));

  test(`docs/${cardPage} print what it shows, and page and backend accept only cards`, async () => {
    const port = freePort();
    const url = `http://localhost:${port}`;
    const whileRunning = async () => {
      await checkCards(url);
      if (!noBrowser) await enterCards(url);
    };
    await follow(cardPage, { port, whileRunning });
  });

  describe('pages that start their own service, one after another in one folder', () => {
    let setup: Options & { readonly port: number };
    beforeAll(() => {
      const [port, own] = [freePort(), freePort()];
      const afterwards = async () => expect([port, own].filter(isInUse)).toEqual([]);
      setup = { port, folder: newFolder(), replacements: { '8081': `${own}` }, afterwards };
    });

    test.skipIf(noOpenssl).each(destinationPages)('docs/%s print what it shows', (page) =>
      follow(page, setup),
    );

    test(`docs/${framesPage} print what it shows, and the page stores and shows a card in frames`, () => {
      const whileRunning = async () => {
        if (!noBrowser) await enterCardInFrames(`http://localhost:${setup.port}`);
      };
      return follow(framesPage, { ...setup, whileRunning });
    });
  });

  test(`docs/${supportPage} print what it shows about a request that was denied`, async () => {
    const management = new Sallyport({
      url: service.url,
      key: readFileSync(join(service.folder, 'data/management.key'), 'utf8').trim(),
    });
    const permissions = ['token:read' as const];
    const rules = [{ priority: 1, container: '/orders/', transform: 'mask' as const, permissions }];
    const created = await management.applications.create({ name: 'returns desk', type: 'private', rules });
    await management.tokens.create({ id: 'card-57', container: '/customers/57/', data: 'x', mask: 'm' });
    const shop = new Sallyport({ url: service.url, key: created.key });
    await expect(shop.tokens.get('card-57')).rejects.toThrow('token:read');
    // Denials are written once a second.
    await until(
      'the entry of the denial',
      async () =>
        (await management.logs.list({ result: 'denied', container: '/customers/57/' })).data.length > 0,
    );
    await follow(supportPage);
  });

  test(`docs/${guardPage} print what it shows`, () =>
    follow(guardPage, {
      replacements: {
        'npm install --silent express "$clone/sdk"': `ln -s '${root}/node_modules/express5' node_modules/express`,
      },
    }));

  test(`docs/${gatewayPage} print what it shows, without nginx only for other gateways`, () =>
    follow(gatewayPage, {
      replacements: { '3001': `${freePort()}` },
      ...(noNginx() && { heading: 'Gateways with an AuthZEN plugin' }),
    }));

  test.skipIf(noNginx())(`docs/${installationsPage} print what it shows`, () =>
    follow(installationsPage, { replacements: { '8081': `${freePort()}`, '8082': `${freePort()}` } }),
  );

  test.each(['Try it', 'Production'])(
    'docs/operations/postgresql.md, %s, print what it shows',
    async (heading) => {
      const address = 'postgres://sallyport:password@db.example.com/sallyport';
      const [one, two] = [freePort(), freePort()];
      const replacements = { [address]: await postgres.createEmpty(''), '8081': `${one}`, '8082': `${two}` };
      await follow('operations/postgresql.md', { heading, replacements });
    },
  );

  test('every guide is run', () => {
    const guides = readdirSync(join(root, 'docs/guides')).map((name) => `guides/${name}`);
    const run = [
      ...pages,
      ...destinationPages,
      ...[cardPage, framesPage, guardPage, gatewayPage, installationsPage, supportPage, curlPage],
    ];
    expect(guides.filter((guide) => !run.includes(guide))).toEqual([]);
  });
});

function isInUse(port: number): boolean {
  try {
    for (const hostname of ['127.0.0.1', '::'])
      Bun.listen({ hostname, port, socket: { data: () => {} } }).stop(true);
    return false;
  } catch {
    return true;
  }
}

const cards = ['4242424242424242', '378282246310005', '6304000000000000'];
const notCards = ['4242424242424241', '42424242424', '0000000000000000', 'not a card', ''];

/** Checks the function of the page, and that the backend refuses tokens that were created without the page. */
async function checkCards(url: string): Promise<void> {
  const source = await (await fetch(`${url}/card-number.mjs`)).text();
  const { isCardNumber } = await import(`data:text/javascript;base64,${btoa(source)}`);
  expect([...cards, ...notCards].filter(isCardNumber)).toEqual(cards);

  const settings = (await (await fetch(`${url}/settings`)).json()) as { url: string; publicKey: string };
  const page = new Sallyport({ url: settings.url, key: settings.publicKey });
  const headers = { 'X-Requested-With': 'fetch' };
  const shown = '{{ data.number | reveal_last: 4 }}';
  const save = async (
    number: string,
    sent: Record<string, string> = headers,
    type = 'card',
    masked = shown,
  ) => {
    const mask = { number: masked };
    const { id } = await page.tokens.create({
      type,
      container: '/incoming/',
      data: { number },
      mask,
    });
    const response = await fetch(`${url}/cards`, { method: 'POST', headers: sent, body: id });
    return [response.status, await response.text()];
  };
  expect(await save(cards[0] as string)).toEqual([200, 'Saved as XXXXXXXXXXXX4242']);
  const refused = [422, 'This is not a card number.'];
  expect(await save('not a card')).toEqual(refused);
  expect(await save('not a card', headers, 'card', 'XXXXXXXXXXXX4242')).toEqual(refused);
  expect(await save(cards[0] as string, headers, 'note')).toEqual(refused);
  expect(await save(cards[0] as string, {})).toEqual([403, '']);
}

async function enterCards(url: string): Promise<void> {
  const browser = await openBrowser();
  try {
    const page = await browser.newPage();
    await page.goto(url, { waitUntil: 'networkidle' });
    for (const number of notCards) {
      await page.fill('input', number);
      await page.click('button');
      expect(await page.evaluate(() => document.querySelector('input')?.validity.valid)).toBe(false);
    }
    await page.fill('input', '4242 4242 4242 4242');
    await page.click('button');
    await page.waitForFunction(() => document.querySelector('p')?.textContent);
    expect(await page.textContent('p')).toBe('Saved as XXXXXXXXXXXX4242');
  } finally {
    await browser.close();
  }
}

async function enterCardInFrames(url: string): Promise<void> {
  const browser = await openBrowser();
  try {
    const page = await browser.newPage();
    await page.goto(url);
    const input = (id: string) => page.frameLocator(`#${id} iframe`).locator('input');
    await input('number').fill('4242 4242 4242 4242');
    await input('expiry').fill(`12/${(new Date().getFullYear() + 1) % 100}`);
    await input('code').fill('123');
    await page.click('#save');
    await page.getByText('Stored as XXXXXXXXXXXX4242').waitFor();
    const revealed = page.frameLocator('#stored iframe');
    const show = revealed.getByRole('button', { name: 'Show' });
    // A click counts once the frame has been visible for half a second.
    await until('the card is shown', async () => {
      if ((await revealed.locator('output').textContent()) !== '') return true;
      // The button can change its name in this moment, and is then not found.
      await show.click({ timeout: 500 }).catch(() => {});
      return false;
    });
    expect(await revealed.locator('output').textContent()).toStartWith('4242 4242 4242 4242');
  } finally {
    await browser.close();
  }
}
