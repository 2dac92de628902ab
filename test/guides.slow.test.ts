/** Does what the guides tell their readers to do, and expects what they show. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { cpSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { noBrowser, openBrowser } from './support/browser.ts';
import { installSdk } from './support/install-sdk.ts';
import { type ExampleSetup, readExample, runExample } from './support/page-examples.ts';
import { root, type Service, startService } from './support/service.ts';
import { shell } from './support/shell.ts';
import { noCurl } from './support/skip.ts';
import { postgres } from './support/test-server.ts';

describe.skipIf(noCurl)('a reader who follows', () => {
  let built: string;
  let service: Service;

  beforeAll(async () => {
    built = mkdtempSync(join(tmpdir(), 'sallyport-guides-'));
    [service] = await Promise.all([startService(), installSdk(built)]);
  });
  afterAll(async () => {
    await service.close();
    rmSync(built, { recursive: true, force: true });
  });

  interface Different extends Partial<ExampleSetup> {
    readonly port?: number;
  }

  /** The key of a new tenant, in a file. */
  async function newTenant(folder: string): Promise<string> {
    const { out } = await shell(['tenants', 'create', 'default', '--json'], { env: service.env });
    const file = join(folder, 'management.key');
    writeFileSync(file, JSON.parse(out).key);
    return file;
  }

  /** In a new folder, where the SDK is installed already, and as a tenant that has nothing yet. */
  async function follow(
    path: string,
    { replacements, port = freePort(), ...rest }: Different = {},
  ): Promise<void> {
    const folder = mkdtempSync(join(service.folder, 'reader-'));
    cpSync(join(built, 'node_modules'), join(folder, 'node_modules'), { recursive: true });
    await runExample(readExample(path), {
      folder,
      env: { ...service.env, SALLYPORT_DATA_DIR: undefined, PORT: undefined, SALLYPORT_URL: service.url },
      replacements: {
        'http://127.0.0.1:8080': service.url,
        ':3000': `:${port}`,
        '(3000': `(${port}`,
        '../sallyport/data/management.key': await newTenant(folder),
        '../sallyport/data': join(service.folder, 'data'),
        'mkdir shop && cd shop\n': '',
        'npm --prefix ../sallyport run --silent build:sdk\n': '',
        'npm install --silent ../sallyport/sdk\n': '',
        ...replacements,
      },
      ...rest,
    });
  }

  test.each([
    'quick-start.md',
    'sdk.md',
    'apply.md',
    'guides/show-a-customer-only-theirs.md',
    'guides/rotate-a-key.md',
    'guides/migrate-from-a-hosted-vault.md',
  ])('docs/%s gets what it shows', (page) => follow(`docs/${page}`));

  test('docs/guides/collect-cards-in-a-browser.md gets what it shows, and a card from the page', async () => {
    const port = freePort();
    const whileRunning = noBrowser ? undefined : () => typeInACard(`http://localhost:${port}`);
    await follow('docs/guides/collect-cards-in-a-browser.md', {
      port,
      ...(whileRunning && { whileRunning }),
    });
  });

  test('docs/guides/guard-your-own-api.md gets what it shows', () =>
    follow('docs/guides/guard-your-own-api.md', {
      replacements: {
        'npm install --silent express ../sallyport/sdk': `ln -s '${root}/node_modules/express5' node_modules/express`,
      },
    }));

  test('docs/guides/production-on-postgresql.md gets what it shows', async () => {
    const address = 'postgres://sallyport:password@db.example.com/sallyport';
    const [one, two] = [freePort(), freePort()];
    const replacements = { [address]: await postgres.createEmpty(''), '8081': `${one}`, '8082': `${two}` };
    await follow('docs/guides/production-on-postgresql.md', { replacements });
  });

  test('all guides there are', () => {
    expect(readdirSync(join(root, 'docs/guides')).toSorted()).toEqual([
      'collect-cards-in-a-browser.md',
      'guard-your-own-api.md',
      'migrate-from-a-hosted-vault.md',
      'production-on-postgresql.md',
      'rotate-a-key.md',
      'show-a-customer-only-theirs.md',
    ]);
  });
});

async function typeInACard(url: string): Promise<void> {
  const browser = await openBrowser();
  try {
    const page = await browser.newPage();
    await page.goto(url, { waitUntil: 'networkidle' });
    await page.fill('input', '4242 4242 4242 4242');
    await page.click('button');
    await page.waitForFunction(() => document.querySelector('p')?.textContent);
    expect(await page.textContent('p')).toBe('Kept, as XXXXXXXXXXXX4242');
  } finally {
    await browser.close();
  }
}

function freePort(): number {
  const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response() });
  const { port } = server;
  void server.stop(true);
  return port as number;
}
