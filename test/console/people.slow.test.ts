/** People sign in to the console at a real provider, in a real browser. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import Provider from 'oidc-provider';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { readAccessFile } from '../../src/cli/commands/access-file.ts';
import { noBrowser, openBrowser } from '../support/browser.ts';
import { openTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { type ApiResponse, openTestServer, sqlite, type TestServer } from '../support/test-server.ts';

const guide = readFileSync(join(import.meta.dirname, '../../docs/guides/sign-in.md'), 'utf8');
const { wanted } = readAccessFile(/```yaml people.yaml\n(.*?)```/s.exec(guide)?.[1] ?? '', 'the guide');
const settings = Object.fromEntries(
  Array.from(guide.matchAll(/^(SALLYPORT_\w+)=(.*)$/gm), ([, name, value]) => [name, value]),
);
const clientId = settings.SALLYPORT_OIDC_CLIENT_ID as string;

const groups: Record<string, string[]> = {
  alice: ['staff', 'security'],
  bob: ['sallyport-admins'],
  eve: ['staff'],
};

describe.skipIf(noBrowser)('people in the console', () => {
  let proxy: TcpProxy;
  let login: Server;
  let issuer: string;
  let server: TestServer;
  let console: string;
  let key: string;
  let browser: Browser;
  let context: BrowserContext;
  let page: Page;
  const applications = new Map<string, ApiResponse['body']>();

  beforeAll(async () => {
    // The service must know its URL, and the provider that of the service, before they listen. The hosts are different
    // sites for the browser.
    proxy = await openTcpProxy(1);
    console = `http://localhost:${proxy.port}`;
    login = createServer();
    await new Promise<void>((resolve) => login.listen(0, '127.0.0.1', resolve));
    issuer = `http://127.0.0.1:${(login.address() as AddressInfo).port}`;
    login.on('request', providerFor(issuer, console).callback());
    server = await openTestServer(sqlite, {
      SALLYPORT_PUBLIC_URL: console,
      SALLYPORT_OIDC_ISSUER: issuer,
      SALLYPORT_OIDC_CLIENT_ID: clientId,
      SALLYPORT_OIDC_CLIENT_SECRET: 'secret',
      SALLYPORT_OIDC_SCOPE: 'openid profile email groups',
    });
    followProvider();
    proxy.setTarget(Number(new URL(server.url).port));
    const tenants = await server.app.maintenance.tenants.list();
    expect(tenants).toHaveLength(1);
    key = readFileSync(server.config.managementKeyFile, 'utf8').trim();
    browser = await openBrowser();
  });
  afterAll(async () => {
    login?.closeAllConnections();
    login?.close();
  });

  /** The provider has the time of this machine, and its tokens must not be of the future, also if the test is slow. */
  const followProvider = () => server.clock.jump(Math.max(0, Date.now() - server.clock.now()));
  const allow = async () => {
    for (const { application } of wanted) {
      const { name, type, permissions, trusted_issuers } = application;
      const known = applications.get(name);
      const entries = trusted_issuers?.map((entry) => ({ ...entry, issuer }));
      const body = { name, permissions, trusted_issuers: entries, ...(!known && { type }) };
      const path = known ? `/applications/${known.id}` : '/applications';
      const { body: made } = await server.call(known ? 'PUT' : 'POST', path, { key, body });
      applications.set(name, made);
    }
  };
  const open = async () => {
    await context?.close();
    context = await browser.newContext();
    page = await context.newPage();
    await page.goto(`${console}/console#/applications`);
  };
  const signIn = async (name: string) => {
    followProvider();
    await page.getByRole('button', { name: `Sign in with ${new URL(issuer).host}` }).click();
    await page.getByPlaceholder('Enter any login').fill(name);
    await page.getByPlaceholder('and password').fill('any');
    await page.getByRole('button', { name: 'Sign-in' }).click();
    followProvider();
    await page.getByRole('button', { name: 'Continue' }).click();
  };
  const signedIn = () => page.getByRole('navigation', { name: 'Sections' });
  const form = () => page.getByRole('heading', { name: 'Sign in to Sallyport' });
  const sessionCookie = async () =>
    (await context.cookies(console)).find(({ name }) => name === '__Host-sallyport-session');

  test('a person signs in, stays signed in after a reload, and signs out', async () => {
    await allow();
    await open();
    await signIn('alice');
    await signedIn().waitFor();
    await page.getByRole('link', { name: 'administrators' }).waitFor();
    const account = page.getByRole('button', { name: 'Alice' });
    expect(await account.innerText()).toBe('Alice\nauditors');
    expect(await sessionCookie()).toMatchObject({
      httpOnly: true,
      secure: true,
      sameSite: 'Strict',
      path: '/',
    });
    expect(
      await page.evaluate(() => document.cookie + JSON.stringify({ ...sessionStorage, ...localStorage })),
    ).not.toContain('slp_');
    expect(page.url()).toBe(`${console}/console#/applications`);
    await page.reload();
    await account.click();
    await page.getByRole('menuitem', { name: 'Sign out' }).click();
    await form().waitFor();
    expect(await sessionCookie()).toBeUndefined();
    await page.reload();
    await form().waitFor();
  });

  test('the first match by priority decides, and people without a match are refused', async () => {
    await allow();
    await open();
    await signIn('bob');
    expect(await page.getByRole('button', { name: 'Bob' }).innerText()).toBe('Bob\nadministrators');
    await open();
    await signIn('eve');
    await page.getByText('no application accepts it').waitFor();
  });

  test('pages of other sites cannot use the session', async () => {
    await allow();
    await open();
    await signIn('bob');
    await signedIn().waitFor();
    const session = await sessionCookie();
    const other = await context.newPage();
    const answers: number[] = [];
    other.on('response', (response) => response.url().startsWith(console) && answers.push(response.status()));
    await other.goto(`${issuer}/.well-known/openid-configuration`);
    await other.evaluate(async (url) => {
      const init = { method: 'POST', mode: 'no-cors', credentials: 'include' } as const;
      await fetch(`${url}/console/api/sign-out`, init);
      await fetch(`${url}/console/api/applications`, { mode: 'no-cors', credentials: 'include' });
    }, console);
    await other.evaluate((url) => {
      const form = document.createElement('form');
      Object.assign(form, { method: 'post', action: `${url}/console/api/sign-out` });
      document.body.append(form);
      form.submit();
    }, console);
    await other.waitForURL(`${console}/**`);
    expect(answers).toEqual([403, 403, 403]);
    expect(await sessionCookie()).toEqual(session as NonNullable<typeof session>);
    await page.reload();
    await signedIn().waitFor();
  });

  /** A request of the page may have found out before. Then it has no links, but the address can change. */
  const expectEnded = async () => {
    await page.evaluate(() => {
      location.hash = '#/sessions';
    });
    await page.getByText('the session has ended').waitFor();
  };

  test('a removed entry ends an open console', async () => {
    await allow();
    await open();
    await signIn('bob');
    await signedIn().waitFor();
    const { id, name, permissions } = applications.get('administrators');
    await server.call('PUT', `/applications/${id}`, {
      key,
      body: { name, permissions, trusted_issuers: [] },
    });
    await expectEnded();
  });

  test('signing out at the provider ends the session', async () => {
    await allow();
    await open();
    await signIn('alice');
    await signedIn().waitFor();
    const other = await context.newPage();
    await other.goto(`${issuer}/session/end`);
    followProvider();
    await other.getByRole('button', { name: 'Yes, sign me out' }).click();
    await other.getByText('Sign-out Success').waitFor();
    await expectEnded();
    await server.flush();
    const { data } = (await server.call('GET', '/logs?operation=person.sign_out&size=1', { key })).body;
    expect(data[0].actor).toMatchObject({ kind: 'anonymous', issuer });
  });
});

function providerFor(issuer: string, service: string): Provider {
  return new Provider(issuer, {
    clients: [
      {
        client_id: clientId,
        client_secret: 'secret',
        token_endpoint_auth_method: 'client_secret_post',
        redirect_uris: [`${service}/console/api/callback/1`],
        backchannel_logout_uri: `${service}/console/api/back-channel-logout`,
        backchannel_logout_session_required: true,
      },
    ],
    cookies: { keys: ['a key of the test'] },
    features: { backchannelLogout: { enabled: true } },
    scopes: ['openid', 'profile', 'email', 'groups'],
    claims: { openid: ['sub'], profile: ['name'], email: ['email', 'email_verified'], groups: ['groups'] },
    pkce: { required: () => true },
    findAccount: (_: unknown, id: string) => ({
      accountId: id,
      claims: () => ({ sub: id, name: id.replace(/^./, (first) => first.toUpperCase()), groups: groups[id] }),
    }),
  });
}
