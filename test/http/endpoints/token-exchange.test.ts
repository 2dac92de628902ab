import { describe, expect, test } from 'bun:test';
import { Prover } from '../../support/dpop.ts';
import {
  audience,
  confusedJwt,
  exchange,
  type Fixture,
  IssuerKey,
  local,
  openFixture,
  openIssuer,
  subject,
  unsignedJwt,
} from '../../support/issuer.ts';
import {
  type ApiResponse,
  databases,
  openTestServer,
  sqlite,
  type TestServer,
} from '../../support/test-server.ts';
import { runSql } from '../../support/test-store.ts';

const refusal = {
  error: 'invalid_request',
  error_description:
    'The subject token was not accepted. The audit log of the tenant says why, if the application exists.',
};
async function entries(server: TestServer, key: string): Promise<ApiResponse['body'][]> {
  await server.flush();
  return (await server.call('GET', '/logs?operation=key.exchange', { key })).body.data;
}

describe.each(databases)('exchanging a JWT on two nodes with %s', async (_, database) => {
  const signer = new IssuerKey('one');
  const issuer = openIssuer(signer);
  const server = await openTestServer(database, local);
  const node = await openTestServer(server.config.databaseUrl, local);
  const fixture: Fixture = await openFixture(server, issuer, signer);

  const status = async (key: string) => (await node.call('GET', '/applications/key', { key })).status;
  const issue = async (application: { id: string }, changed: object = {}) =>
    (await exchange(server, fixture.clientId(application), fixture.jwt(changed))).body.access_token as string;

  test('returns a key of the application that expires, with the workload in every entry', async () => {
    const { key, application, clientId, jwt } = fixture;
    const app = await application(
      { lifetime: 60 },
      { permissions: ['application:read', 'application:create'] },
    );
    const { status: code, body } = await exchange(server, clientId(app), jwt());
    expect([code, body]).toEqual([
      200,
      {
        access_token: expect.stringMatching(/^slp_pvt_/),
        issued_token_type: 'urn:ietf:params:oauth:token-type:access_token',
        token_type: 'N_A',
        expires_in: 60,
      },
    ]);
    expect((await node.call('GET', '/applications/key', { key: body.access_token })).body.id).toBe(app.id);
    await node.application(body.access_token);
    await node.flush();
    const actor = { kind: 'application', id: app.id, application_id: app.id, subject, issuer: issuer.url };
    const found = await server.call('GET', `/logs?subject=${encodeURIComponent(subject)}`, { key });
    expect(found.body.data.map((entry: ApiResponse['body']) => [entry.operation, entry.actor])).toEqual([
      ['application.create', actor],
      ['key.exchange', actor],
    ]);
    const [issued] = (await entries(server, key)).filter(({ entity }) => entity?.id === app.id);
    expect(issued).toMatchObject({
      result: 'success',
      difference: { keys: { to: { ending: body.access_token.slice(-4) } } },
    });
    expect(JSON.stringify(issued)).not.toContain(body.access_token);
    server.clock.advance(59_999);
    node.clock.advance(59_999);
    expect(await status(body.access_token)).toBe(200);
    server.clock.advance(1);
    node.clock.advance(1);
    expect(await status(body.access_token)).toBe(401);
  });

  test('exactly one of thirty concurrent exchanges of a JWT on both nodes succeeds', async () => {
    const app = await fixture.application();
    const other = await fixture.application();
    const jwt = fixture.jwt();
    const answers = await Promise.all(
      Array.from({ length: 30 }, (_, at) =>
        exchange(at % 2 === 0 ? server : node, fixture.clientId(at % 3 === 0 ? other : app), jwt),
      ),
    );
    expect(answers.map((answer) => answer.status).sort()).toEqual([200, ...Array(29).fill(400)]);
    for (const { status: code, body } of answers) if (code === 400) expect(body).toEqual(refusal);
  });

  test('a JWT without jti, or of an issuer with once: false, works until it expires', async () => {
    const plain = await fixture.application();
    const repeated = await fixture.application({ once: false });
    const withoutJti = fixture.jwt({ jti: undefined });
    const jwt = fixture.jwt();
    for (const at of [server, node]) {
      expect((await exchange(at, fixture.clientId(plain), withoutJti)).status).toBe(200);
      expect((await exchange(at, fixture.clientId(repeated), jwt)).status).toBe(200);
    }
    const strict = await fixture.application({ once: true });
    expect((await exchange(server, fixture.clientId(strict), withoutJti)).body).toEqual(refusal);
  });

  test('issued keys do not count as keys of the application, and end when they are regenerated', async () => {
    const { key, application } = fixture;
    const app = await application();
    const issued = [await issue(app), await issue(app), await issue(app), await issue(app)];
    const listed = await server.call('GET', `/applications/${app.id}/keys`, { key });
    expect(listed.body.data).toHaveLength(1);
    expect((await server.call('POST', `/applications/${app.id}/keys`, { key })).status).toBe(201);
    expect(await Promise.all(issued.map(status))).toEqual([200, 200, 200, 200]);
    const [first, ...others] = issued as [string, ...string[]];
    await server.call('POST', '/keys/revoke', { body: { key: first } });
    expect(await status(first)).toBe(401);
    await server.call('POST', `/applications/${app.id}/regenerate`, { key });
    expect(await Promise.all(others.map(status))).toEqual([401, 401, 401]);
  });

  test('keys end when their entry is changed or removed, and the keys of other entries do not', async () => {
    const { key, entry, clientId, jwt } = fixture;
    const second = { ...entry, audience: 'other' };
    const app = await fixture.application({}, { trusted_issuers: [entry, second] });
    const update = (trusted_issuers: object[]) =>
      server.call('PUT', `/applications/${app.id}`, {
        key,
        body: { name: 'trusting', permissions: ['application:read'], trusted_issuers },
      });
    const one = await issue(app);
    const two = await issue(app, { aud: 'other' });
    expect((await update([second])).body.trusted_issuers).toEqual([second]);
    expect([await status(one), await status(two)]).toEqual([401, 200]);
    expect((await exchange(server, clientId(app), jwt())).body).toEqual(refusal);
    await update([{ ...second, claims: { sub: subject, ref: 'main' } }]);
    expect(await status(two)).toBe(401);
    const three = await issue(app, { aud: 'other', ref: 'main' });
    expect(await status(three)).toBe(200);
    const removed = (await update([])).body;
    expect('trusted_issuers' in removed).toBe(false);
    expect(await status(three)).toBe(401);
  });

  test('sessions and delegations of issued keys end with their entry, also after the key has expired', async () => {
    const { key, entry } = fixture;
    const second = { ...entry, audience: 'other' };
    const permissions = ['session:authorize', 'application:read'];
    const app = await fixture.application({}, { permissions, trusted_issuers: [entry, second] });
    const page = await server.application(key, { type: 'public' });
    const advance = (milliseconds: number) => {
      for (const { clock } of [server, node]) clock.advance(milliseconds);
    };
    const authorized = async (by: string) => {
      const { nonce, session_key } = (await server.call('POST', '/sessions', { key: page.key })).body;
      const body = { nonce, permissions: ['token:read'], expires_at: '2026-11-16T12:00:00Z' };
      expect((await server.call('POST', '/sessions/authorize', { key: by, body })).status).toBe(204);
      return session_key as string;
    };
    const update = (trusted_issuers: object[]) =>
      server.call('PUT', `/applications/${app.id}`, {
        key,
        body: { name: 'x', permissions, trusted_issuers },
      });
    const works = async (credential: string) =>
      (await node.call('GET', '/permissions/own', { key: credential })).status === 200;
    const early = await authorized(await issue(app));
    advance(3_600_000);
    await server.flush();
    const issued = await issue(app);
    const delegation = await server.call('POST', '/delegations', {
      key: issued,
      body: { permissions: ['application:read'] },
    });
    const ended = [early, await authorized(issued), delegation.body.key];
    const others = [await authorized(await issue(app, { aud: 'other' })), await authorized(app.key)];
    expect(await Promise.all([...ended, ...others].map(works))).toEqual([true, true, true, true, true]);
    await update([second]);
    expect(await Promise.all(ended.map(works))).toEqual([false, false, false]);
    const { body } = await server.call('GET', `/sessions?authorized_by=${app.id}`, { key });
    expect(body.data).toHaveLength(2);
    advance(1000);
    await update([entry, second]);
    others.push(await authorized(await issue(app)));
    expect(await Promise.all(ended.map(works))).toEqual([false, false, false]);
    expect(await Promise.all(others.map(works))).toEqual([true, true, true]);
  });

  test('an application in quarantine, deleted, or outside its networks gets no key', async () => {
    const { key, application, clientId, jwt } = fixture;
    const quarantined = await application();
    await server.call('POST', `/applications/${quarantined.id}/quarantine`, { key });
    const deleted = await application();
    await server.call('DELETE', `/applications/${deleted.id}`, { key });
    const elsewhere = await application({}, { allowed_networks: ['10.0.0.0/8'] });
    const inside = await application({}, { allowed_networks: ['127.0.0.1'] });
    for (const app of [quarantined, deleted, elsewhere])
      expect((await exchange(server, clientId(app), jwt())).body).toEqual(refusal);
    expect(await status(await issue(inside))).toBe(200);
  });

  test('a key never outlives its application or the maximum lifetime of the tenant', async () => {
    const { application, clientId, jwt } = fixture;
    const expires_at = new Date(server.clock.now() + 120_000).toISOString();
    const app = await application({}, { expires_at });
    expect((await exchange(server, clientId(app), jwt())).body.expires_in).toBe(120);
    const tenant = await openFixture(server, issuer, signer);
    const limited = await tenant.application();
    await server.app.maintenance.tenants.limitLifetime(limited.tenant_id, 90_000);
    const { body } = await exchange(server, tenant.clientId(limited), tenant.jwt());
    expect(body.expires_in).toBe(90);
  });

  test('the sweep removes used JWTs and expired keys', async () => {
    const rows = (table: string) => runSql(server.config.databaseUrl, `select 1 from ${table}`);
    const tables = ['used_jwts', 'application_keys where trust is not null'];
    await issue(await fixture.application());
    for (const table of tables) expect(await rows(table)).not.toEqual([]);
    server.clock.advance(2 * 3_600_000);
    node.clock.advance(2 * 3_600_000);
    await server.flush();
    for (const table of tables) expect(await rows(table)).toEqual([]);
  });
});

describe('a JWT is refused', async () => {
  const signer = new IssuerKey('one');
  const stranger = new IssuerKey('one');
  const rsa = new IssuerKey('two', 'RS256');
  const issuer = openIssuer(signer, rsa);
  const server = await openTestServer(sqlite, local);
  const fixture: Fixture = await openFixture(server, issuer, signer);
  const app: { id: string } = await fixture.application({ claims: { sub: subject, admin: true } });

  const good = { admin: true };
  const now = () => server.clock.now() / 1000;
  const jwt = (claims: object, header: object = {}) => fixture.jwt({ ...good, ...claims }, header);
  const cases: Record<string, [make: () => string, reason: string]> = {
    'that is not one': [() => 'abc', 'it is not a JWT'],
    'of another issuer': [() => jwt({ iss: 'https://evil.example' }), 'its issuer is not trusted'],
    'whose issuer differs by a slash': [() => jwt({ iss: `${issuer.url}/` }), 'its issuer is not trusted'],
    'for another audience': [() => jwt({ aud: 'other' }), 'it is for another audience'],
    'for another audience, too': [() => jwt({ aud: [audience, 'other'] }), 'it is for another audience'],
    'without an audience': [() => jwt({ aud: undefined }), 'it is for another audience'],
    'of another subject': [() => jwt({ sub: `${subject}x` }), 'the claim sub differs'],
    'whose claim has another type': [() => jwt({ admin: 'true' }), 'the claim admin differs'],
    'that has expired': [() => jwt({ exp: now() - 30 }), 'it has expired'],
    'without an expiry': [() => jwt({ exp: undefined }), 'it has no exp'],
    'that is valid for days': [() => jwt({ exp: now() + 86_401 }), 'it is valid for more than a day'],
    'that is not valid yet': [() => jwt({ nbf: now() + 31 }), 'its nbf is in the future'],
    'from the future': [() => jwt({ iat: now() + 31 }), 'its iat is in the future'],
    'whose jti is a number': [() => jwt({ jti: 7 }), 'its jti is not a text'],
    'whose jti is a list': [() => jwt({ jti: ['a'] }), 'its jti is not a text'],
    'whose jti is null': [() => jwt({ jti: null }), 'its jti is not a text'],
    'whose jti is empty': [() => jwt({ jti: '' }), 'its jti is not a text'],
    'with a wrong signature': [() => stranger.jwt(fixture.claims(good)), 'its signature is not valid'],
    'that was changed': [
      () => {
        const [head, , signature] = jwt({}).split('.');
        return [head, jwt({ extra: 1 }).split('.')[1], signature].join('.');
      },
      'its signature is not valid',
    ],
    'without a signature': [() => unsignedJwt(fixture.claims(good)), 'its algorithm is not allowed'],
    'with a MAC': [() => confusedJwt(signer, fixture.claims(good)), 'its algorithm is not allowed'],
    'of an unknown key': [() => jwt({}, { kid: 'three' }), 'the issuer has no key for its header'],
    'with the key of another algorithm': [
      () => jwt({}, { kid: 'two' }),
      'the issuer has no key for its header',
    ],
    'for sign-out': [() => jwt({}, { typ: 'logout+jwt' }), 'its typ is not JWT'],
    'with an unknown critical header': [() => jwt({}, { crit: ['x'], x: 1 }), 'its signature is not valid'],
    'with a key in its header': [
      () => stranger.jwt(fixture.claims(good), { jwk: stranger.jwk, jku: 'https://evil.example/' }),
      'its signature is not valid',
    ],
  };

  test.each(Object.entries(cases))('%s, always with the same response', async (_, [make, reason]) => {
    const { status, body } = await exchange(server, fixture.clientId(app), make());
    expect([status, body]).toEqual([400, refusal]);
    const [entry] = await entries(server, fixture.key);
    expect(entry).toMatchObject({
      actor: { kind: 'anonymous' },
      result: 'denied',
      reason: 'jwt_refused',
      entity: { kind: 'application', id: app.id },
    });
    expect(entry.decision.reason).toStartWith(`the JWT was refused: ${reason}; it says that its issuer is `);
    server.clock.advance(60_000);
  });

  test('for an application that does not exist, without an entry in any tenant', async () => {
    const before = (await entries(server, fixture.key)).length;
    const id = crypto.randomUUID();
    for (const clientId of [id, `AAAAAA.${id}`, fixture.clientId({ id }), fixture.clientId({ id: 'x' })])
      expect((await exchange(server, clientId, fixture.jwt(good))).body).toEqual(refusal);
    expect(await entries(server, fixture.key)).toHaveLength(before);
  });

  test('for the application of another tenant, which trusts the same issuer with other claims', async () => {
    const other = await openFixture(server, issuer, signer);
    const theirs = await other.application({ claims: { sub: 'someone else' } });
    expect((await exchange(server, other.clientId(theirs), fixture.jwt(good))).body).toEqual(refusal);
    const mixed = `${other.clientId(theirs).split('.')[0]}.${app.id}`;
    expect((await exchange(server, mixed, fixture.jwt(good))).body).toEqual(refusal);
  });

  test('while the same JWT is accepted with a tolerance of 30 seconds, and with RSA', async () => {
    const early = { ...good, nbf: now() + 30, iat: now() + 30, exp: now() + 60 };
    expect((await exchange(server, fixture.clientId(app), fixture.jwt(early))).status).toBe(200);
    const late = { ...good, exp: now() - 29 };
    expect((await exchange(server, fixture.clientId(app), fixture.jwt(late))).status).toBe(200);
    expect((await exchange(server, fixture.clientId(app), rsa.jwt(fixture.claims(good)))).status).toBe(200);
  });
});

describe('the token endpoint', async () => {
  const signer = new IssuerKey('one');
  const issuer = openIssuer(signer);
  const server = await openTestServer(sqlite, { ...local, SALLYPORT_EXCHANGES_PER_MINUTE: '100' });
  const fixture: Fixture = await openFixture(server, issuer, signer);
  const app: { id: string } = await fixture.application();

  test.each([
    [{ grant_type: 'client_credentials' }, 'unsupported_grant_type'],
    [{ grant_type: '' }, 'invalid_request'],
    [{ client_id: '' }, 'invalid_request'],
    [{ subject_token_type: 'urn:ietf:params:oauth:token-type:saml2' }, 'invalid_request'],
    [{ requested_token_type: 'urn:ietf:params:oauth:token-type:refresh_token' }, 'invalid_request'],
    [{ scope: 'token:read' }, 'invalid_scope'],
    [{ audience: 'x' }, 'invalid_target'],
    [{ resource: 'https://x.example' }, 'invalid_target'],
    [{ actor_token: 'x' }, 'invalid_request'],
  ])('answers %j with %s and leaves the JWT usable', async (form, error) => {
    const jwt = fixture.jwt();
    const refused = await exchange(server, fixture.clientId(app), jwt, form);
    expect([refused.status, refused.body.error]).toEqual([400, error]);
    expect((await exchange(server, fixture.clientId(app), jwt, { unknown: 'ignored' })).status).toBe(200);
  });

  test('rejects repeated parameters, JSON and large bodies', async () => {
    const send = (body: string, type = 'application/x-www-form-urlencoded') =>
      server.call('POST', '/oauth/token', { body, headers: { 'Content-Type': type } });
    expect((await send('client_id=a&client_id=b')).body.error).toBe('invalid_request');
    expect((await send('{}', 'application/json')).status).toBe(415);
    expect((await send(`subject_token=${'x'.repeat(33_000)}`)).status).toBe(413);
    expect((await send('&'.repeat(1000))).status).toBe(413);
  });

  test('limits requests by address', async () => {
    server.clock.advance(60_000);
    const answers = await Promise.all(Array.from({ length: 101 }, () => exchange(server, 'unknown', 'x')));
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(1);
    server.clock.advance(60_000);
  });

  test('binds the key to the key of a DPoP proof', async () => {
    const prover = new Prover();
    const url = `${server.url}/oauth/token`;
    const dpop = (proof: string) =>
      exchange(server, fixture.clientId(app), fixture.jwt(), {}, { DPoP: proof });
    const { body, headers } = await dpop(prover.proof({ method: 'POST', url }));
    expect(body.token_type).toBe('DPoP');
    const key = body.access_token;
    const path = '/applications/key';
    expect((await server.call('GET', path, { key })).status).toBe(401);
    const nonce = headers.get('dpop-nonce') ?? undefined;
    const proof = prover.proof({ url: server.url + path, key, nonce });
    expect((await server.call('GET', path, { key, headers: { DPoP: proof } })).status).toBe(200);
    const stolen = new Prover().proof({ url: server.url + path, key, nonce });
    expect((await server.call('GET', path, { key, headers: { DPoP: stolen } })).status).toBe(401);
    const wrong = await dpop(prover.proof({ method: 'POST', url: `${server.url}/sessions` }));
    expect(wrong.body.error).toBe('invalid_dpop_proof');
  });
});
