/** An OpenID Connect provider whose responses a test can change, and a browser that signs in to the console. */

import { createHash } from 'node:crypto';
import { closeLater } from './cleanup.ts';
import { IssuerKey } from './issuer.ts';
import { type ApiResponse, startTime, type TestServer } from './test-server.ts';

export const clientId = 'console';
const clientSecret = 'secret';
export const publicUrl = 'https://keys.example';

interface Grant {
  readonly nonce: string | null;
  readonly challenge: string | null;
  readonly redirectUri: string | null;
  readonly claims: object;
}

export class TestProvider {
  readonly signer = new IssuerKey('one');
  readonly tokenRequests: URLSearchParams[] = [];
  readonly url: string;
  discovery: Record<string, unknown>;
  /** Whether a code works more than once. */
  reusesCodes = false;
  /** The response of the UserInfo endpoint, which providers need not have. */
  userInfo: object | undefined;
  /** The path whose response is followed by a mebibyte of white space. */
  padded: string | undefined;
  /** Signs ID tokens. */
  sign = (claims: object) => this.signer.jwt(claims);
  readonly #codes = new Map<string, Grant>();
  readonly #server: Bun.Server<undefined>;

  constructor() {
    this.#server = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: (request) => this.#reply(request) });
    const url = `http://127.0.0.1:${this.#server.port}`;
    this.url = url;
    this.discovery = {
      issuer: url,
      jwks_uri: `${url}/jwks`,
      authorization_endpoint: `${url}/authorize`,
      token_endpoint: `${url}/token`,
      id_token_signing_alg_values_supported: ['ES256'],
      authorization_response_iss_parameter_supported: true,
    };
  }

  /** Settings of a service that uses these providers. */
  static settings(...providers: TestProvider[]): Record<string, string> {
    const each = (value: string) => providers.map(() => value).join(' ');
    return {
      SALLYPORT_PUBLIC_URL: publicUrl,
      SALLYPORT_OIDC_ISSUER: providers.map(({ url }) => url).join(' '),
      SALLYPORT_OIDC_CLIENT_ID: each(clientId),
      SALLYPORT_OIDC_CLIENT_SECRET: each(clientSecret),
    };
  }

  /** The claims of an ID token. */
  claims(changed: object = {}): Record<string, unknown> {
    const now = Math.floor(Date.now() / 1000);
    // The tests set the clock of the service forward by hours.
    const times = { iat: now, exp: now + 20 * 3600 };
    return { iss: this.url, aud: clientId, sub: 'alice', name: 'Alice', sid: 'sid-1', ...times, ...changed };
  }

  /** The person signs in at `location`, where the service sent the browser. Returns the query of the redirect back. */
  authorize(location: string, claims: object = {}): URLSearchParams {
    const { searchParams: query } = new URL(location);
    const code = crypto.randomUUID();
    this.#codes.set(code, {
      nonce: query.get('nonce'),
      challenge: query.get('code_challenge'),
      redirectUri: query.get('redirect_uri'),
      claims,
    });
    return new URLSearchParams({ code, state: query.get('state') ?? '', iss: this.url });
  }

  readonly close = closeLater(() => this.#server.stop(true));

  async #reply(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url);
    const response = await this.#answer(pathname, request);
    if (pathname !== this.padded) return response;
    return new Response((await response.text()) + ' '.repeat(2 ** 20), response);
  }

  async #answer(pathname: string, request: Request): Promise<Response> {
    const userinfo_endpoint = this.userInfo && `${this.url}/userinfo`;
    if (pathname === '/.well-known/openid-configuration')
      return Response.json({ ...this.discovery, userinfo_endpoint });
    if (pathname === '/userinfo') return Response.json({ sub: 'alice', ...this.userInfo });
    if (pathname === '/jwks') return Response.json({ keys: [this.signer.jwk] });
    if (pathname === '/token') return this.#token(request);
    return new Response(null, { status: 404 });
  }

  async #token(request: Request): Promise<Response> {
    const form = new URLSearchParams(await request.text());
    this.tokenRequests.push(form);
    const grant = this.#codes.get(form.get('code') ?? '');
    if (!this.reusesCodes) this.#codes.delete(form.get('code') ?? '');
    const verifier = createHash('sha256').update(form.get('code_verifier') ?? '');
    const isOwn =
      request.headers.get('authorization') === `Basic ${btoa(`${clientId}:${clientSecret}`)}` &&
      verifier.digest('base64url') === grant?.challenge &&
      form.get('redirect_uri') === grant?.redirectUri;
    if (!isOwn) return Response.json({ error: 'invalid_grant' }, { status: 400 });
    const id_token = this.sign(this.claims({ nonce: grant.nonce, ...grant.claims }));
    return Response.json({ access_token: 'at', token_type: 'Bearer', expires_in: 60, id_token });
  }
}

/** Sets the clock of the service to that of the machine, by which ID tokens are valid. */
export function setRealTime(...servers: TestServer[]): void {
  for (const { clock } of servers) clock.jump(Date.now() - startTime);
}

export const sameOrigin = { 'Sec-Fetch-Site': 'same-origin' };

type Service = Pick<TestServer, 'url'>;

/** A browser with the cookies of the service. It follows no redirects. */
export class TestBrowser {
  readonly cookies = new Map<string, string>();

  async send(
    { url }: Service,
    path: string,
    { headers = sameOrigin, ...init }: RequestInit & { headers?: Record<string, string> } = {},
  ): Promise<ApiResponse> {
    const Cookie = Array.from(this.cookies, ([name, value]) => `${name}=${value}`).join('; ');
    const response = await fetch(url + path, {
      redirect: 'manual',
      ...init,
      headers: { Cookie, ...headers },
    });
    for (const cookie of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]*)=([^;]*)/.exec(cookie) ?? [];
      if (value === '') this.cookies.delete(name);
      else this.cookies.set(name, value);
    }
    const text = await response.text();
    const body = response.headers.get('content-type')?.includes('json') ? JSON.parse(text) : text;
    return { status: response.status, headers: response.headers, body };
  }

  /** Returns where the service sends the browser. */
  async begin(server: Service, query = 'provider=1'): Promise<string> {
    const { status, headers } = await this.send(server, `/console/api/sign-in?${query}`);
    return status === 303 ? (headers.get('location') ?? '') : `status ${status}`;
  }

  /** Returns where the service sends the browser, and the attributes of the cookie that it sets. */
  async finish(server: Service, query: URLSearchParams | string, provider = 1) {
    const path = `/console/api/callback/${provider}?${query}`;
    const { status, headers } = await this.send(server, path, {
      headers: { 'Sec-Fetch-Site': 'cross-site' },
    });
    return { status, to: headers.get('location'), cookie: headers.get('set-cookie') };
  }

  async signIn(server: Service, provider: TestProvider, claims: object = {}, query = 'provider=1') {
    return this.finish(server, provider.authorize(await this.begin(server, query), claims));
  }

  get session(): string {
    return this.cookies.get('__Host-sallyport-session') ?? '';
  }
}

const permissions = ['application:read', 'application:create', 'application:update', 'log:read'];

/** A tenant with a management application that accepts people of the group `admins`. */
export async function openSignInFixture(server: TestServer, provider: TestProvider) {
  const { id, key } = await server.tenant();
  const { tag } = (await server.call('GET', '/tenants/self', { key })).body;
  const entry = (changed: object = {}) => ({
    issuer: provider.url,
    audience: clientId,
    claims: { groups: 'admins' },
    sign_in_priority: 10,
    ...changed,
  });
  const application = (changed: object = {}, extra: object = {}) =>
    server.application(key, {
      type: 'management',
      permissions,
      trusted_issuers: [entry(changed)],
      ...extra,
    });
  const update = (app: ApiResponse['body'], fields: object) =>
    server.call('PUT', `/applications/${app.id}`, { key, body: { name: app.name, permissions, ...fields } });
  const signIn = async (claims: object = { groups: ['staff', 'admins'] }) => {
    const browser = new TestBrowser();
    const done = await browser.signIn(server, provider, claims, `provider=1&tenant=${tag}`);
    return { browser, ...done };
  };
  const entries = async (operation: string) => {
    await server.flush();
    return (await server.call('GET', `/logs?operation=${operation}`, { key })).body.data;
  };
  return { id, key, tag, entry, application, update, signIn, entries };
}
export type SignInFixture = Awaited<ReturnType<typeof openSignInFixture>>;
