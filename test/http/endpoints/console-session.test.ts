import { describe, expect, test } from 'bun:test';
import { IssuerKey } from '../../support/issuer.ts';
import {
  openSignInFixture,
  publicUrl,
  type SignInFixture,
  sameOrigin,
  setRealTime,
  TestBrowser,
  TestProvider,
} from '../../support/sign-in.ts';
import { type ApiResponse, databases, openTestServer, testMasterKey } from '../../support/test-server.ts';

const idle = 1_800_000;
const max = 43_200_000;

describe.each(databases)('people in the console on two nodes with %s', async (_, database) => {
  const provider = new TestProvider();
  const settings = { SALLYPORT_MASTER_KEY: testMasterKey, ...TestProvider.settings(provider) };
  const server = await openTestServer(database, settings);
  const node = await openTestServer(server.config.databaseUrl, settings);
  setRealTime(server, node);
  const fixture: SignInFixture = await openSignInFixture(server, provider);
  const app: ApiResponse['body'] = await fixture.application();

  const read = async (browser: TestBrowser, at = node) =>
    (await browser.send(at, '/console/api/applications/key')).status;
  const advance = (milliseconds: number) => {
    for (const { clock } of [server, node]) clock.advance(milliseconds);
  };

  const at = () => server.clock.now() / 1000;
  const logoutToken = (changed: object) => {
    const { name: _, sub, sid, ...claims } = provider.claims({ iat: at(), exp: at() + 120 });
    const events = { 'http://schemas.openid.net/event/backchannel-logout': {} };
    const jti = crypto.randomUUID();
    return provider.signer.jwt({ ...claims, events, jti, ...changed }, { typ: 'logout+jwt' });
  };
  const logOut = (jwt: string, { url } = node) =>
    fetch(`${url}/console/api/back-channel-logout`, {
      method: 'POST',
      body: new URLSearchParams({ logout_token: jwt }),
    });

  test('a person signs in on one node, works on the other, and is in the audit log', async () => {
    const { browser, to, cookie } = await fixture.signIn();
    expect(to).toBe('/console');
    expect(cookie).toMatch(
      /^__Host-sallyport-session=slp_con_\w{55}; Path=\/; Secure; HttpOnly; SameSite=Strict$/,
    );
    const own = await browser.send(node, '/console/api/applications/key');
    expect([own.status, own.body.id]).toEqual([200, app.id]);
    const session = await browser.send(node, '/console/api/session');
    const person = { subject: 'alice', name: 'Alice' };
    expect(session.body).toMatchObject({ keys: true, person });
    const created = await browser.send(node, '/console/api/applications', {
      method: 'POST',
      headers: { ...sameOrigin, 'Content-Type': 'application/json' },
      body: JSON.stringify({ name: 'made by alice', type: 'private', permissions: ['application:read'] }),
    });
    expect(created.status).toBe(201);
    const [signedIn] = await fixture.entries('person.sign_in');
    expect(signedIn).toMatchObject({
      result: 'success',
      entity: { id: app.id },
      actor: { id: app.id, person },
    });
    await node.flush();
    const [made] = await fixture.entries('application.create');
    expect(made.actor).toMatchObject({ id: app.id, issuer: provider.url, person });
    expect(provider.tokenRequests.at(-1)?.get('redirect_uri')).toBe(`${publicUrl}/console/api/callback/1`);
  });

  test('use renews a session until its end, and without use it ends earlier', async () => {
    const [used, unused] = [(await fixture.signIn()).browser, (await fixture.signIn()).browser];
    for (let elapsed = 0; elapsed + idle / 2 < max; elapsed += idle / 2) {
      expect(await read(used, elapsed % idle ? server : node)).toBe(200);
      advance(idle / 2);
      if (elapsed === 0) expect(await read(unused)).toBe(200);
    }
    expect([await read(used), await read(unused)]).toEqual([200, 401]);
    advance(idle / 2);
    expect([await read(used, server), await read(used)]).toEqual([401, 401]);
  });

  test('signing out ends the session on every node, also while it is renewed', async () => {
    const { browser } = await fixture.signIn();
    const stolen = new TestBrowser();
    stolen.cookies.set('__Host-sallyport-session', browser.session);
    advance(120_000);
    const meanwhile = Array.from({ length: 6 }, (_, at) => read(stolen, at % 2 ? server : node));
    const out = await browser.send(server, '/console/api/sign-out', { method: 'POST' });
    expect([out.status, browser.session]).toEqual([204, '']);
    expect(await Promise.all([read(stolen, server), read(stolen, node)])).toEqual([401, 401]);
    await Promise.all(meanwhile);
    expect(await Promise.all([read(stolen, server), read(stolen, node)])).toEqual([401, 401]);
    const [entry] = await fixture.entries('person.sign_out');
    expect(entry).toMatchObject({ entity: { id: app.id }, actor: { person: { subject: 'alice' } } });
    expect((await browser.send(node, '/console/api/sign-out', { method: 'POST' })).status).toBe(204);
  });

  test('removing or changing the entry ends its sessions on every node', async () => {
    for (const trusted_issuers of [[], [fixture.entry({ claims: { groups: 'owners' } })]]) {
      const mapped = await fixture.application({ sign_in_priority: 1 });
      const { browser } = await fixture.signIn();
      expect(await read(browser)).toBe(200);
      const renamed = { name: 'renamed', trusted_issuers: mapped.trusted_issuers };
      expect((await fixture.update(mapped, renamed)).status).toBe(200);
      expect(await read(browser)).toBe(200);
      expect((await fixture.update(mapped, { trusted_issuers })).status).toBe(200);
      expect([await read(browser), await read(browser, server)]).toEqual([401, 401]);
      await server.call('DELETE', `/applications/${mapped.id}`, { key: fixture.key });
    }
  });

  test('deleting the application or revoking its keys ends its sessions, and quarantine limits them', async () => {
    const mapped = await fixture.application({ sign_in_priority: 1 });
    const open = `/applications/${mapped.id}`;
    const { browser: first } = await fixture.signIn();
    await server.call('POST', `${open}/regenerate`, { key: fixture.key, body: {} });
    expect(await read(first)).toBe(401);
    const { browser } = await fixture.signIn();
    await server.call('POST', `${open}/quarantine`, { key: fixture.key, body: {} });
    const change = { method: 'DELETE', headers: sameOrigin };
    const denied = await browser.send(node, `/console/api/applications/${app.id}`, change);
    expect([denied.status, denied.body.code]).toEqual([403, 'quarantined']);
    expect((await fixture.signIn()).to).toBe('/console?sign_in=refused');
    await server.call('DELETE', open, { key: fixture.key });
    expect(await read(browser)).toBe(401);
  });

  test('keys that expire after a rotation take the sessions with them, and a request does not renew them', async () => {
    const mapped = await fixture.application({ sign_in_priority: 1 });
    const { browser } = await fixture.signIn();
    const old_keys_expire_at = new Date(server.clock.now() + idle + 60_000).toISOString();
    const body = { old_keys_expire_at };
    await server.call('POST', `/applications/${mapped.id}/regenerate`, { key: fixture.key, body });
    advance(idle - 60_000);
    expect(await read(browser)).toBe(200);
    advance(120_000);
    expect(await read(browser)).toBe(401);
    await server.call('DELETE', `/applications/${mapped.id}`, { key: fixture.key });
  });

  test.each([false, true])(
    'a sign-in can be finished once, on any node (codes work twice: %p)',
    async (reuses) => {
      provider.reusesCodes = reuses;
      const browser = new TestBrowser();
      const query = provider.authorize(await browser.begin(server, `provider=1&tenant=${fixture.tag}`), {
        groups: ['admins'],
      });
      const copy = new TestBrowser();
      for (const [name, value] of browser.cookies) copy.cookies.set(name, value);
      const [one, other] = await Promise.all([browser.finish(server, query), copy.finish(node, query)]);
      expect([one.to, other.to].sort()).toEqual(['/console', '/console?sign_in=failed']);
      expect([browser.session, copy.session].filter(Boolean)).toHaveLength(1);
      const again = new TestBrowser();
      for (const [name, value] of browser.cookies) again.cookies.set(name, value);
      expect((await again.finish(node, query)).cookie).toBeNull();
      provider.reusesCodes = false;
    },
  );

  test('the provider ends one session by its sid, or all of a person', async () => {
    const people = [{ sid: 'a' }, { sid: 'b' }, { sid: 'c', sub: 'bob' }, { sid: undefined, sub: 'carl' }];
    const signedIn = await Promise.all(people.map((each) => fixture.signIn({ groups: ['admins'], ...each })));
    const statuses = () => Promise.all(signedIn.map(({ browser }) => read(browser, server)));
    const other = new IssuerKey('one');
    const refused = {
      'without the event': logoutToken({ sub: 'alice', events: {} }),
      'with a nonce': logoutToken({ sub: 'alice', nonce: 'n' }),
      'about nobody': logoutToken({}),
      'for another client': logoutToken({ sub: 'alice', aud: 'other' }),
      expired: logoutToken({ sub: 'alice', exp: at() - 60 }),
      old: logoutToken({ sub: 'alice', iat: at() - 340 }),
      'of the future': logoutToken({ sub: 'alice', iat: at() + 40 }),
      'without a jti': logoutToken({ sub: 'alice', jti: undefined }),
      'of half a surrogate pair': logoutToken({ sub: '\ud800' }),
      'of another issuer': logoutToken({ sub: 'alice', iss: 'https://other.example' }),
      'with another key': other.jwt({ ...provider.claims(), events: {} }),
      'an ID token': provider.signer.jwt(provider.claims()),
      'not a JWT': 'x',
    };
    for (const [name, jwt] of Object.entries(refused))
      expect([name, (await logOut(jwt)).status]).toEqual([name, 400]);
    expect(await statuses()).toEqual([200, 200, 200, 200]);
    expect((await logOut(logoutToken({ sid: 'a', sub: 'alice' }))).status).toBe(200);
    expect(await statuses()).toEqual([401, 200, 200, 200]);
    expect((await logOut(logoutToken({ sub: 'alice' }))).status).toBe(200);
    expect(await statuses()).toEqual([401, 401, 200, 200]);
    expect((await logOut(logoutToken({ sid: 'unknown', sub: 'carl' }))).status).toBe(200);
    expect(await statuses()).toEqual([401, 401, 200, 401]);
    expect((await logOut(logoutToken({ sid: 'c', sub: 'dora' }))).status).toBe(200);
    expect(await statuses()).toEqual([401, 401, 200, 401]);
    expect((await logOut(logoutToken({ sid: 'c' }))).status).toBe(200);
    expect(await statuses()).toEqual([401, 401, 401, 401]);
    // PostgreSQL cannot store NUL: the session begins as if the provider had sent no sid.
    const { browser } = await fixture.signIn({ groups: ['admins'], sid: 'a\0b', sub: 'eve' });
    expect(await read(browser)).toBe(200);
    expect((await logOut(logoutToken({ sid: 'a\0b' }))).status).toBe(400);
    expect((await logOut(logoutToken({ sid: 'a', sub: 'eve' }))).status).toBe(200);
    expect(await read(browser)).toBe(401);
  });

  test('a logout token works once on all nodes, and ends no session that began after it', async () => {
    const jwt = logoutToken({ sub: 'dora' });
    const before = await fixture.signIn({ groups: ['admins'], sub: 'dora' });
    advance(2000);
    const after = await fixture.signIn({ groups: ['admins'], sub: 'dora' });
    expect((await logOut(jwt)).status).toBe(200);
    expect([await read(before.browser), await read(after.browser)]).toEqual([401, 200]);
    const late = logoutToken({ sub: 'dora' });
    const used = await Promise.all([logOut(late), logOut(late, server), logOut(jwt, server)]);
    expect(used.map(({ status }) => status).sort()).toEqual([200, 400, 400]);
    expect(await used[2]?.json()).toMatchObject({
      error_description: expect.stringContaining('used before'),
    });
    expect(await read(after.browser)).toBe(401);
  });

  test('the eleventh session of a person ends the oldest one, and none of another person', async () => {
    const mapped = await fixture.application({ sign_in_priority: 1 });
    const signIn = async (sub: string) => (await fixture.signIn({ groups: ['admins'], sub })).browser;
    const other = await signIn('olga');
    const browsers: TestBrowser[] = [];
    for (let at = 0; at < 12; at++) browsers.push(await signIn('mona'));
    const statuses = await Promise.all([other, ...browsers].map((each) => read(each)));
    expect(statuses).toEqual([200, 401, 401, ...Array(10).fill(200)]);
    const ended = (await fixture.entries('person.sign_out')).filter(
      ({ entity }: ApiResponse['body']) => entity.id === mapped.id,
    );
    const person = { subject: 'mona', name: 'Alice' };
    expect(ended).toMatchObject([{ actor: { person } }, { actor: { person } }]);
    await server.call('DELETE', `/applications/${mapped.id}`, { key: fixture.key });
  });

  test('the session works from the networks of the application only', async () => {
    await fixture.application({ sign_in_priority: 1 }, { allowed_networks: ['192.0.2.0/24'] });
    expect((await fixture.signIn()).to).toBe('/console?sign_in=refused');
  });
});
