import { describe, expect, test } from 'bun:test';
import { confusedJwt, IssuerKey, unsignedJwt } from '../../support/issuer.ts';
import {
  openSignInFixture,
  publicUrl,
  type SignInFixture,
  sameOrigin,
  setRealTime,
  TestBrowser,
  TestProvider,
} from '../../support/sign-in.ts';
import { type ApiResponse, openTestServer, sqlite } from '../../support/test-server.ts';

const admin = { groups: ['admins'] };

describe('sign-in by name', async () => {
  const provider = new TestProvider();
  const second = new TestProvider();
  second.userInfo = {};
  const server = await openTestServer(sqlite, TestProvider.settings(provider, second));
  setRealTime(server);
  const fixture: SignInFixture = await openSignInFixture(server, provider);
  const app: ApiResponse['body'] = await fixture.application();

  const begin = async (number = 1) => {
    const browser = new TestBrowser();
    return { browser, location: await browser.begin(server, `provider=${number}&tenant=${fixture.tag}`) };
  };

  const now = () => Math.floor(Date.now() / 1000);
  const signed: Record<string, (claims: object) => string> = {
    'another audience': (claims) => provider.signer.jwt({ ...claims, aud: 'other' }),
    'another issuer': (claims) => provider.signer.jwt({ ...claims, iss: second.url }),
    'no signature': unsignedJwt,
    'a MAC': (claims) => confusedJwt(provider.signer, claims),
    'the key of another provider': (claims) => second.signer.jwt(claims),
    'an unknown key': (claims) => new IssuerKey('two').jwt(claims),
    'an expiry in the past': (claims) => provider.signer.jwt({ ...claims, exp: now() - 120 }),
    'another nonce': (claims) => provider.signer.jwt({ ...claims, nonce: 'x' }),
    'no nonce': (claims) => provider.signer.jwt({ ...claims, nonce: undefined }),
    'no subject': (claims) => provider.signer.jwt({ ...claims, sub: undefined }),
    'the type of a logout token': (claims) => provider.signer.jwt(claims, { typ: 'logout+jwt' }),
  };
  test.each(Object.entries(signed))('refuses an ID token with %s', async (_, sign) => {
    provider.sign = sign;
    try {
      const { browser, location } = await begin();
      const done = await browser.finish(server, provider.authorize(location, admin));
      expect([done, browser.session]).toEqual([
        { status: 303, to: '/console?sign_in=failed', cookie: null },
        '',
      ]);
    } finally {
      provider.sign = (claims) => provider.signer.jwt(claims);
    }
    expect((await fixture.signIn()).to).toBe('/console');
  });

  test('a sign-in begins with a small cookie, which is gone ten minutes later', async () => {
    const path = `/console/api/sign-in?provider=1&tenant=${fixture.tag}`;
    const cookie = (await new TestBrowser().send(server, path)).headers.get('set-cookie');
    expect(cookie).toMatch(
      /^__Host-sallyport-sign-in=[\w.-]{1,300}; Path=\/; Secure; HttpOnly; SameSite=Lax; Max-Age=600$/,
    );
  });

  type Attack = (query: URLSearchParams, browser: TestBrowser) => unknown;
  const attacks: Record<string, Attack> = {
    'another state': (query) => query.set('state', 'x'),
    'no state': (query) => query.delete('state'),
    'the issuer of another provider': (query) => query.set('iss', second.url),
    'no issuer': (query) => query.delete('iss'),
    'another code': (query) => query.set('code', 'x'),
    'two codes': (query) => query.append('code', 'x'),
    'an error': (query) => query.set('error', 'access_denied'),
    'no cookie, as in the browser of another person': (_, browser) => browser.cookies.clear(),
    'the cookie of another sign-in': async (_, browser) => {
      for (const [name, value] of (await begin()).browser.cookies) browser.cookies.set(name, value);
    },
    'a forged cookie': (_, { cookies }) => {
      const [name = '', value = ''] = [...cookies][0] ?? [];
      const payload = JSON.parse(Buffer.from(value.split('.')[0] ?? '', 'base64url').toString());
      const forged = Buffer.from(JSON.stringify({ ...payload, expiresAt: 1e15 })).toString('base64url');
      cookies.set(name, `${forged}.${value.split('.')[1]}`);
    },
    'a delay of ten minutes': () => server.clock.advance(600_000),
  };
  test.each(Object.entries(attacks))('refuses a response with %s', async (_, attack) => {
    const { browser, location } = await begin();
    const query = provider.authorize(location, admin);
    await attack(query, browser);
    const done = await browser.finish(server, query);
    expect(done).toEqual({ status: 303, to: '/console?sign_in=failed', cookie: null });
  });

  test('a provider cannot finish the sign-in of another one', async () => {
    const { browser, location } = await begin(2);
    expect(new URL(location).origin).toBe(second.url);
    expect(new URL(location).searchParams.get('redirect_uri')).toBe(`${publicUrl}/console/api/callback/2`);
    const query = second.authorize(location, admin);
    expect((await browser.finish(server, query, 1)).to).toBe('/console?sign_in=failed');
    // Without `iss`, as older providers: the redirect URI alone must prevent it.
    query.delete('iss');
    expect((await browser.finish(server, query, 1)).to).toBe('/console?sign_in=failed');
    expect((await browser.finish(server, query, 3)).to).toBe('/console?sign_in=failed');
  });

  test('people of another provider do not match the entry', async () => {
    const browser = new TestBrowser();
    const { location } = { location: await browser.begin(server, `provider=2&tenant=${fixture.tag}`) };
    expect((await browser.finish(server, second.authorize(location, admin), 2)).to).toBe(
      '/console?sign_in=refused',
    );
  });

  test('a session that the browser had before is not continued and ends', async () => {
    const attacker = (await fixture.signIn()).browser.session;
    const browser = new TestBrowser();
    browser.cookies.set('__Host-sallyport-session', attacker);
    await browser.signIn(server, provider, { ...admin, sub: 'bob' }, `provider=1&tenant=${fixture.tag}`);
    expect(browser.session).not.toBe(attacker);
    const before = new TestBrowser();
    before.cookies.set('__Host-sallyport-session', attacker);
    expect((await before.send(server, '/console/api/applications/key')).status).toBe(401);
    const invented = new TestBrowser();
    invented.cookies.set(
      '__Host-sallyport-session',
      browser.session.replace(/.$/, (end) => (end === 'a' ? 'b' : 'a')),
    );
    expect((await invented.send(server, '/console/api/applications/key')).status).toBe(401);
  });

  test('redirects only to the provider and to the console', async () => {
    const browser = new TestBrowser();
    for (const query of [
      'provider=1&return_to=https://evil.example',
      'provider=0',
      'provider=x',
      '',
      'provider=1&tenant=//a.b',
    ])
      expect(await browser.begin(server, query)).toBe('status 400');
    expect(await browser.begin(server, 'provider=9')).toBe('/console?sign_in=failed');
    const query = provider.authorize(await browser.begin(server, `provider=1&tenant=${fixture.tag}`), admin);
    query.set('return_to', 'https://evil.example');
    expect((await browser.finish(server, query)).to).toBe('/console');
  });

  test.each(['cross-site', 'same-site', 'none', undefined])(
    'refuses the cookie if Sec-Fetch-Site is %p',
    async (site) => {
      const { browser } = await fixture.signIn();
      const headers = site === undefined ? {} : { 'Sec-Fetch-Site': site };
      const paths = ['applications/key', 'session', 'sign-in?provider=1'].map(
        (path) => `/console/api/${path}`,
      );
      for (const path of paths) {
        const { status, body, headers: received } = await browser.send(server, path, { headers });
        expect([status, body.code]).toEqual([403, 'origin_refused']);
        expect(received.get('set-cookie')).toBeNull();
      }
      const out = await browser.send(server, '/console/api/sign-out', { method: 'POST', headers });
      expect([out.status, (await browser.send(server, paths[0] ?? '')).status]).toEqual([403, 200]);
    },
  );

  test('answers no preflight, and lets no other origin read a response', async () => {
    const { browser } = await fixture.signIn();
    for (const init of [
      {},
      { method: 'OPTIONS' },
      { method: 'OPTIONS', headers: { 'Sec-Fetch-Site': 'cross-site' } },
    ]) {
      const { headers } = await browser.send(server, '/console/api/applications', init);
      expect([...headers.keys()].filter((name) => name.startsWith('access-control-'))).toEqual([]);
    }
  });

  test('the API takes no cookie, the console no key, and neither the credential of the other', async () => {
    const { browser } = await fixture.signIn();
    const statusOf = async (path: string, headers: Record<string, string>) =>
      (await fetch(server.url + path, { headers: { ...sameOrigin, ...headers } })).status;
    const cookie = (value: string) => ({ Cookie: `__Host-sallyport-session=${value}` });
    const [api, own] = ['/applications/key', '/console/api/applications/key'];
    expect(await statusOf(own, cookie(browser.session))).toBe(200);
    expect(await statusOf(api, cookie(browser.session))).toBe(401);
    expect(await statusOf(api, { 'SVC-API-KEY': browser.session })).toBe(401);
    const post = (path: string, headers: Record<string, string>, body: object) =>
      fetch(server.url + path, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', ...headers },
        body: JSON.stringify(body),
      });
    const bearer = { Authorization: `Bearer ${browser.session}` };
    expect((await post('/access/v1/evaluation', bearer, {})).status).toBe(401);
    const asked = { credential: browser.session, permission: 'application:read', resource: {} };
    const decided = await post('/decisions', { 'SVC-API-KEY': fixture.key }, asked);
    expect(await decided.json()).toMatchObject({ allowed: false });
    expect(await statusOf(own, { 'SVC-API-KEY': fixture.key })).toBe(401);
    expect(await statusOf(own, cookie(fixture.key))).toBe(401);
  });

  test('no response contains the session', async () => {
    const { browser } = await fixture.signIn();
    for (const path of ['session', 'applications/key', `applications/${app.id}/keys`, 'applications']) {
      const { body, headers } = await browser.send(server, `/console/api/${path}`);
      expect(JSON.stringify([body, ...headers])).not.toContain(browser.session.slice(-20));
    }
    expect(server.logged.join()).not.toContain('slp_con_');
  });

  test('a person can ask for decisions about the session', async () => {
    await fixture.application(
      { sign_in_priority: 1, claims: { sub: 'decider' } },
      { permissions: ['decision:create'] },
    );
    const { browser } = await fixture.signIn({ sub: 'decider' });
    const body = JSON.stringify({ credential: '', permission: 'decision:create' });
    const headers = { ...sameOrigin, 'Content-Type': 'application/json' };
    const decision = await browser.send(server, '/console/api/decisions', { method: 'POST', headers, body });
    expect([decision.status, decision.body.allowed]).toEqual([200, true]);
  });

  test('people who use the same idempotency key do not get the reply of each other', async () => {
    const [ours, theirs] = [
      { claims: { team: 'idempotent' } },
      { issuer: second.url, claims: { sub: 'alice' } },
    ];
    const { id: application } = await fixture.application(ours, {
      trusted_issuers: [ours, theirs].map(fixture.entry),
    });
    second.userInfo = {};
    const other = new TestBrowser();
    const location = await other.begin(server, `provider=2&tenant=${fixture.tag}`);
    await other.finish(server, second.authorize(location), 2);
    const signedIn = (sub: string) => fixture.signIn({ team: 'idempotent', sub });
    const [alice, bob] = [(await signedIn('alice')).browser, (await signedIn('bob')).browser];
    const create = async (browser: TestBrowser) => {
      const { status, body } = await browser.send(server, '/console/api/applications', {
        method: 'POST',
        headers: { ...sameOrigin, 'Content-Type': 'application/json', 'Idempotency-Key': 'one' },
        body: JSON.stringify({ name: 'x', type: 'private', permissions: ['token:read'] }),
      });
      return body.id ?? [status, body.code];
    };
    const id = await create(alice);
    expect([await create(alice), await create(bob), await create(other)]).toEqual([
      id,
      ...[bob, other].map(() => [422, 'idempotency_mismatch']),
    ]);
    await server.call('DELETE', `/applications/${application}`, { key: fixture.key });
  });

  describe('which application', async () => {
    const email = 'eva@acme.example';
    const verified = { email, email_verified: true };
    await fixture.application({ issuer: second.url, claims: { email } });
    const choose = async (claims: object) => {
      const { browser, to } = await fixture.signIn(claims);
      const { status, body } = await browser.send(server, '/console/api/applications/key');
      return status === 200 ? body.name : to;
    };

    test('the lowest priority decides, by equal claims or members of a list', async () => {
      const readers = { claims: { team: 'x', active: true }, sign_in_priority: 5 };
      await fixture.application(readers, { name: 'readers' });
      expect(await choose({ team: 'x', active: true, groups: ['admins'] })).toBe('readers');
      expect(await choose({ team: 'x', active: 'true' })).toBe('/console?sign_in=refused');
      expect(await choose({ team: ['x', 'y'], active: true })).toBe('readers');
      expect(await choose({ groups: 'admins' })).toBe(app.name);
      expect(await choose({ groups: 'admins,staff' })).toBe('/console?sign_in=refused');
      expect(await choose({ groups: [['admins']] })).toBe('/console?sign_in=refused');
    });

    test('an email address counts only if the provider has verified it', async () => {
      await fixture.application({ claims: { email: 'eve@acme.example' } }, { name: 'by email' });
      expect(await choose({ email: 'eve@acme.example' })).toBe('/console?sign_in=refused');
      expect(await choose({ email: 'eve@acme.example', email_verified: 'true' })).toBe(
        '/console?sign_in=refused',
      );
      expect(await choose({ email: 'eve@acme.example', email_verified: true })).toBe('by email');
    });

    test.each([
      ['an unverified address and another verified one', { email }, { email: 'x@x', email_verified: true }],
      ['an unverified address and the same verified one', { email }, { email, email_verified: true }, true],
      ['an address that one of them has not verified', { email, email_verified: false }, verified],
      ['a verified address in UserInfo only', {}, verified, true],
      ['a verified address in the ID token only', verified, { email: 'x@x' }, true],
      ['an address that only the other one has verified', { email_verified: true }, { email }],
    ] as [string, object, object, boolean?][])(
      'ID token and UserInfo with %s',
      async (_, ofToken, ofUserInfo, isAccepted = false) => {
        second.userInfo = ofUserInfo;
        const browser = new TestBrowser();
        const location = await browser.begin(server, `provider=2&tenant=${fixture.tag}`);
        const { to } = await browser.finish(server, second.authorize(location, ofToken), 2);
        expect(to).toBe(isAccepted ? '/console' : '/console?sign_in=refused');
        const { body } = await browser.send(server, '/console/api/session');
        expect(body.person?.email).toBe(isAccepted ? email : undefined);
      },
    );

    test('an address that is not verified is not in the audit log', async () => {
      const { browser } = await fixture.signIn({ ...admin, sub: 'mel', email, email_verified: false });
      const { body } = await browser.send(server, '/console/api/session');
      expect(body.person).toEqual({ subject: 'mel', name: 'Alice' });
      const entry = (await fixture.entries('person.sign_in')).find(
        ({ actor }: ApiResponse['body']) => actor.person?.subject === 'mel',
      );
      expect(entry.actor.person).toEqual({ subject: 'mel', name: 'Alice' });
    });

    test('an entry for workloads, of another client or of another tenant accepts no person', async () => {
      await fixture.application({ sign_in_priority: undefined, claims: { sub: 'job' } });
      await fixture.application({ audience: 'other', claims: { sub: 'other' } });
      const elsewhere = await openSignInFixture(server, provider);
      await elsewhere.application({ claims: { sub: 'elsewhere' } });
      for (const sub of ['job', 'other', 'elsewhere'])
        expect(await choose({ sub })).toBe('/console?sign_in=refused');
    });

    test('the token endpoint does not accept an entry for people', async () => {
      const claims = { sub: 'alice', groups: 'admins' };
      const jwt = provider.signer.jwt({ ...provider.claims(claims), jti: 'y', exp: now() + 60 });
      const exchanged = await server.call('POST', '/oauth/token', {
        headers: { 'Content-Type': 'application/x-www-form-urlencoded' },
        body: new URLSearchParams({
          grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
          client_id: `${fixture.tag}.${app.id}`,
          subject_token: jwt,
          subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
        }).toString(),
      });
      expect(exchanged.status).toBe(400);
    });

    test('refusals are in the audit log with the person', async () => {
      await choose({ sub: 'mallory', name: 'Mallory', groups: [] });
      const refused = (await fixture.entries('person.sign_in')).find(
        ({ actor }: ApiResponse['body']) => actor.person?.subject === 'mallory',
      );
      expect(refused).toMatchObject({
        result: 'denied',
        reason: 'sign_in_refused',
        decision: {
          reason: 'the sign-in was refused: no trusted issuer with sign_in_priority accepts the claims',
        },
      });
    });

    test('several tenants need a tag, and an unknown tag is refused', async () => {
      const browser = new TestBrowser();
      for (const query of ['provider=1', 'provider=1&tenant=zzzzzz'])
        expect((await browser.signIn(server, provider, admin, query)).to).toBe('/console?sign_in=tenant');
    });
  });

  const invalid: [string, object, object, string][] = [
    [
      'a private application',
      {},
      { type: 'private', permissions: ['token:read'] },
      'is only for management applications',
    ],
    ['a lifetime', { lifetime: 60 }, {}, 'cannot be combined with lifetime'],
  ];
  test.each(invalid)('rejects an entry with sign_in_priority and %s', async (_, changed, fields, problem) => {
    const trusted_issuers = [fixture.entry(changed)];
    const body = { name: 'x', type: 'management', permissions: ['log:read'], trusted_issuers, ...fields };
    const { body: rejected } = await server.call('POST', '/applications', { key: fixture.key, body });
    expect(rejected.errors).toEqual({ 'trusted_issuers.0.sign_in_priority': [problem] });
  });
});

test('without keys in the console, every use of a stored key of an application for people is recorded', async () => {
  const provider = new TestProvider();
  const settings = {
    ...TestProvider.settings(provider),
    SALLYPORT_CONSOLE_KEYS: 'off',
    SALLYPORT_METRICS_PORT: '0',
  };
  const server = await openTestServer(sqlite, settings);
  setRealTime(server);
  const fixture = await openSignInFixture(server, provider);
  const app = await fixture.application();
  const { browser } = await fixture.signIn();
  expect((await browser.send(server, '/console/api/session')).body.keys).toBe(false);
  expect((await browser.send(server, '/console/api/applications/key')).status).toBe(200);
  expect(await fixture.entries('key.break_glass')).toEqual([]);
  for (const _ of [1, 2]) await server.call('GET', '/applications/key', { key: app.key });
  await server.flush();
  const changes = await server.call('GET', '/logs?changes=true&size=100', { key: fixture.key });
  const operations = changes.body.data.map(({ operation }: { operation: string }) => operation);
  expect(operations).toContain('person.sign_in');
  expect(operations).not.toContain('key.break_glass');
  expect(await fixture.entries('key.break_glass')).toMatchObject([
    { actor: { id: app.id }, entity: { id: app.id } },
  ]);
  const metrics = await (await fetch(server.app.metricsUrl as string)).text();
  expect(metrics).toContain('sallyport_break_glass_total 2\n');
});

test.each(['/.well-known/openid-configuration', '/token', '/userinfo'])(
  'a reply of the provider at %s is limited to a mebibyte',
  async (path) => {
    const provider = new TestProvider();
    provider.userInfo = {};
    const server = await openTestServer(sqlite, TestProvider.settings(provider));
    setRealTime(server);
    const fixture = await openSignInFixture(server, provider);
    await fixture.application();
    provider.padded = path;
    const browser = new TestBrowser();
    const location = await browser.begin(server, `provider=1&tenant=${fixture.tag}`);
    if (path.startsWith('/.')) expect(location).toBe('/console?sign_in=failed');
    else expect((await browser.finish(server, provider.authorize(location, admin))).to).toMatch('failed');
    provider.padded = undefined;
    server.clock.advance(60_000);
    expect((await fixture.signIn()).to).toBe('/console');
  },
);

test('without a provider, the console offers keys only and has no other paths', async () => {
  const server = await openTestServer(sqlite);
  const browser = new TestBrowser();
  const session = await browser.send(server, '/console/api/session');
  expect(session.body).toEqual({ providers: [], keys: true });
  expect((await browser.send(server, '/console/api/applications')).status).toBe(404);
  expect(await browser.begin(server)).toBe('/console?sign_in=failed');
});
