/** Renders the React part of the SDK with React 18 and 19, on a server and, in strict mode, in a browser. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { createElement } from 'react';
import { renderToString } from 'react-dom/server';
import { authorizeSession, Sallyport } from '../../sdk/src/sallyport.ts';
import { noBrowser, openBrowser } from '../support/browser.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { installPackages, offline } from '../support/packages.ts';
import { root } from '../support/service.ts';
import { openTestServer, sqlite, type TestServer } from '../support/test-server.ts';

/** React 19 is a dependency of the console. React 18 is installed for these tests. */
const versions = offline ? (['19'] as const) : (['18', '19'] as const);
let react18: Promise<string> | undefined;
async function folderOf(version: (typeof versions)[number]): Promise<string> {
  if (version === '19') return root;
  react18 ??= installPackages('react@18', 'react-dom@18');
  return react18;
}

/** Bundles code with one version of React into a folder, and returns the path of the module. */
async function bundle(
  version: (typeof versions)[number],
  target: 'browser' | 'bun',
  code: string,
  folder: string,
): Promise<string> {
  const home = await folderOf(version);
  const versioned: Bun.BunPlugin = {
    name: 'version of React',
    setup: (build) => {
      build.onResolve({ filter: /^react(-dom)?($|\/)/ }, ({ path }) => ({
        path: Bun.resolveSync(path, home),
      }));
    },
  };
  const entry = join(folder, `${target}-${version}.ts`);
  writeFileSync(entry, code);
  const outdir = join(folder, 'built');
  const { logs } = await Bun.build({ entrypoints: [entry], target, outdir, plugins: [versioned] });
  expect(logs).toEqual([]);
  return join(outdir, `${target}-${version}.js`);
}

const onServer = `
export { createElement, version } from 'react';
export { renderToString } from 'react-dom/server';
export { Reveal, SallyportProvider, useSession } from '${root}/sdk/src/react.ts';
`;

const idle = {
  url: 'http://127.0.0.1:9',
  publicKey: 'unused',
  authorize: () => Promise.reject(new Error('a server must start no session')),
};

describe.each(versions)('with React %s on a server,', (version) => {
  let folder: string;
  let react: typeof import('react') &
    typeof import('react-dom/server') &
    typeof import('../../sdk/src/react.ts');
  beforeAll(async () => {
    folder = temporaryFolder();
    react = await import(await bundle(version, 'bun', onServer, folder));
    expect(react.version).toStartWith(`${version}.`);
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test('the provider starts no session, and its children render without data', () => {
    const { createElement, renderToString, Reveal, SallyportProvider } = react;
    const card = createElement(Reveal, { id: 'card', purpose: 'refund' });
    const html = renderToString(createElement(SallyportProvider, idle, card));
    expect(html).toContain('aria-busy="true"');
    expect(html).toContain('>Reveal</button>');
  });

  test('the hooks say what is missing without a provider', () => {
    const { createElement, renderToString, useSession } = react;
    const Lost = () => createElement('p', null, String(useSession().error));
    expect(() => renderToString(createElement(Lost))).toThrow(
      'useSession needs a SallyportProvider above it',
    );
  });
});

test('the examples of the documentation render', async () => {
  const folder = mkdtempSync(join(root, 'test/sdk/example-'));
  try {
    const text = readFileSync(join(root, 'docs/reference/sdk.md'), 'utf8');
    const html: string[] = [];
    for (const [index, [, code = '']] of [...text.matchAll(/```jsx\n(.*?)```/gs)].entries()) {
      const file = join(folder, `${index}.jsx`);
      writeFileSync(file, code.replace('@sallyport/sdk/react', '../../../sdk/src/react.ts'));
      const { Page, Checkout = Page } = await import(file);
      html.push(renderToString(createElement(Checkout, { publicKey: 'unused' })));
    }
    const [page, checkout] = html;
    expect(page).toContain('<p>…</p>');
    expect(page).toContain('>Reveal</button>');
    expect(checkout).toBe('<div></div><div></div><button>Pay</button>');
  } finally {
    rmSync(folder, { recursive: true });
  }
});

const source = `
import { createElement, StrictMode, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { Reveal, SallyportProvider, useSession, useToken } from '${root}/sdk/src/react.ts';

function Other() {
  const { token, error } = useToken('card-43');
  return createElement('p', { id: 'other' }, String(token?.data ?? error?.code));
}
function Restart() {
  const { session, restart } = useSession();
  return createElement('button', { id: 'restart', onClick: restart }, session ? 'active' : 'starting');
}
function Page() {
  const [shown, setShown] = useState(true);
  const leave = createElement('button', { id: 'leave', onClick: () => setShown(false) }, 'leave');
  const options = {
    url: location.hash.slice(1),
    publicKey: new URLSearchParams(location.search).get('key'),
    authorize: (nonce) => fetch('/authorize', { method: 'POST', body: nonce }),
  };
  const card = createElement(Reveal, { id: 'card-42', purpose: 'refund 4711' });
  const inside = [card, createElement(Other), createElement(Restart)];
  return createElement('main', null, shown && createElement(SallyportProvider, options, ...inside), leave);
}
createRoot(document.body).render(createElement(StrictMode, null, createElement(Page)));
`;

describe.skipIf(noBrowser).each(versions)('with React %s in a browser, in strict mode:', (version) => {
  let folder: string;
  let server: TestServer;
  let browser: Browser;
  let site: Bun.Server<undefined>;
  let page: Page;
  let key: string;

  beforeAll(async () => {
    folder = temporaryFolder();
    [server, browser] = await Promise.all([openTestServer(sqlite), openBrowser()]);
    key = (await server.tenant()).key;
    const admin = new Sallyport({ url: server.url, key });
    for (const customer of ['42', '43'])
      await admin.tokens.create({
        id: `card-${customer}`,
        container: `/customers/${customer}/`,
        data: `424242424242${customer}${customer}`,
        mask: '{{ data | reveal_last: 4 }}',
      });
    const web = await admin.applications.create({
      name: 'web',
      type: 'public',
      permissions: ['token:create'],
    });
    const script = await bundle(version, 'browser', source, folder);
    site = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: async (request) => {
        const { pathname } = new URL(request.url);
        if (pathname === '/react-test.js') return new Response(Bun.file(script));
        if (pathname !== '/authorize')
          return new Response(
            '<!doctype html><body></body><script type="module" src="/react-test.js"></script>',
            {
              headers: { 'Content-Type': 'text/html' },
            },
          );
        const own = { attribute: 'container', operator: 'starts_with', value: '/customers/42/' } as const;
        await authorizeSession(admin, await request.text(), {
          rules: [
            {
              priority: 1,
              transform: 'reveal',
              require_purpose: true,
              permissions: ['token:read'],
              conditions: [own],
            },
          ],
        });
        return new Response(null, { status: 204 });
      },
    });
    page = await browser.newPage();
    await page.goto(`${site.url}?key=${web.key}#${server.url}`);
  });
  afterAll(async () => {
    site.stop(true);
    rmSync(folder, { recursive: true, force: true });
  });

  test('masked data is shown first, and revealed with a purpose that the audit log has', async () => {
    await page.getByText('XXXXXXXXXXXX4242').waitFor();
    await page.getByRole('button', { name: 'Reveal' }).click();
    await page.getByText('4242424242424242').waitFor();
    await server.flush();
    const { body } = await server.call('GET', '/logs?purpose=refund%204711', { key });
    expect(body.data).toMatchObject([{ operation: 'token.read', decision: { transform: 'reveal' } }]);
    await page.getByRole('button', { name: 'Reveal' }).click();
    await page.getByText('XXXXXXXXXXXX4242').waitFor();
  });

  test('a denied token is an error', async () => {
    await page.locator('#other').getByText('permission_missing').waitFor();
  });

  test('restarting starts another session, and the data is read with it', async () => {
    const sessions = async () =>
      (await server.call('GET', '/sessions?state=active', { key })).body.data.map(
        ({ id }: { id: string }) => id,
      );
    const before = await sessions();
    await page.locator('#restart').click();
    await page.getByText('XXXXXXXXXXXX4242').waitFor();
    await page.locator('#restart').getByText('active').waitFor();
    expect((await sessions()).length).toBe(before.length + 1);
  });

  test('the page is empty after the provider is removed', async () => {
    await page.locator('#leave').click();
    expect(await page.locator('main').innerText()).toBe('leave');
    expect(await page.evaluate(() => [localStorage.length, sessionStorage.length, document.cookie])).toEqual([
      0,
      0,
      '',
    ]);
  });
});
