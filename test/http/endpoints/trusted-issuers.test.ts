/** Issuers that an application trusts, and their keys. token-exchange.test.ts has the JWTs. */
import { describe, expect, test } from 'bun:test';
import { exchange, type Fixture, IssuerKey, local, openFixture, openIssuer } from '../../support/issuer.ts';
import { openTestServer, sqlite } from '../../support/test-server.ts';

describe('trusted issuers of an application', async () => {
  const server = await openTestServer(sqlite);
  const key = (await server.tenant()).key;

  const valid = { issuer: 'https://issuer.example', audience: 'a', claims: { sub: 'b' } };
  const create = (trusted_issuers: unknown, fields: object = {}) =>
    server.call('POST', '/applications', {
      key,
      body: { name: 'x', type: 'private', permissions: ['token:read'], trusted_issuers, ...fields },
    });

  test.each([
    ['a plain http URL', [{ ...valid, issuer: 'http://issuer.example' }], 'trusted_issuers.0.issuer'],
    [
      'credentials in the URL',
      [{ ...valid, issuer: 'https://a:b@issuer.example' }],
      'trusted_issuers.0.issuer',
    ],
    ['a query', [{ ...valid, issuer: 'https://issuer.example?x' }], 'trusted_issuers.0.issuer'],
    ['no claims', [{ ...valid, claims: {} }], 'trusted_issuers.0.claims'],
    ['a nested claim', [{ ...valid, claims: { a: { b: 1 } } }], 'trusted_issuers.0.claims.a'],
    [
      'a claim named __proto__',
      [{ ...valid, claims: JSON.parse('{"__proto__": "x", "sub": "b"}') }],
      'trusted_issuers.0.claims',
    ],
    ['an unknown field', [{ ...valid, audiences: [] }], 'trusted_issuers.0.audiences'],
    ['a long lifetime', [{ ...valid, lifetime: 3601 }], 'trusted_issuers.0.lifetime'],
    ['a jwks_uri on plain http', [{ ...valid, jwks_uri: 'http://10.0.0.1/' }], 'trusted_issuers.0.jwks_uri'],
    ['eleven issuers', Array(11).fill(valid), 'trusted_issuers'],
  ])('are rejected with %s', async (_, issuers, path) => {
    const { status, body } = await create(issuers);
    expect([status, Object.keys(body.errors)]).toEqual([400, [path]]);
  });

  test('are not for public applications', async () => {
    const { body } = await create([valid], { type: 'public', permissions: ['token:create'] });
    expect(Object.keys(body.errors)).toEqual(['trusted_issuers']);
  });

  test('can be changed only by a key that holds the management permissions of the application', async () => {
    const operator = await server.application(key, { type: 'management', permissions: ['log:read'] });
    const updater = await server.application(key, {
      type: 'management',
      permissions: ['application:update'],
    });
    const backend = await server.application(key);
    const update = (id: string, permissions: string[]) =>
      server.call('PUT', `/applications/${id}`, {
        key: updater.key,
        body: { name: 'x', permissions, trusted_issuers: [valid] },
      });
    const denied = await update(operator.id, ['log:read']);
    expect([denied.status, denied.body.code]).toEqual([403, 'grant_not_held']);
    expect((await update(backend.id, ['token:read'])).status).toBe(200);
    const [entry] = (await server.call('GET', '/logs?operation=application.update&result=success', { key }))
      .body.data;
    expect(entry.difference.trusted_issuers).toEqual({ to: [valid] });
  });
});

describe('the keys of an issuer', async () => {
  const [first, second] = [new IssuerKey('first'), new IssuerKey('second')];
  const issuer = openIssuer(first);
  const server = await openTestServer(sqlite, local);
  const fixture: Fixture = await openFixture(server, issuer, first);
  const app: { id: string } = await fixture.application();

  const status = async (signer = first) =>
    (await exchange(server, fixture.clientId(app), signer.jwt(fixture.claims()))).status;

  test('are fetched once, also by concurrent requests, and not for a JWT that cannot be accepted', async () => {
    await exchange(server, fixture.clientId(app), fixture.jwt({ sub: 'other' }));
    expect(issuer.requests).toEqual([]);
    expect(await Promise.all([status(), status(), status()])).toEqual([200, 200, 200]);
    expect(issuer.requests).toEqual(['/.well-known/openid-configuration', '/jwks']);
  });

  test('are fetched again for an unknown key, at most every 30 seconds', async () => {
    issuer.keys = [first, second];
    issuer.requests.length = 0;
    expect(await status(second)).toBe(400);
    server.clock.advance(30_000);
    expect(await status(second)).toBe(200);
    expect(issuer.requests).toHaveLength(2);
    expect(await status(new IssuerKey('third'))).toBe(400);
    expect(issuer.requests).toHaveLength(2);
  });

  test('are used for a day while the issuer cannot be reached, and then no longer', async () => {
    issuer.isDown = true;
    server.clock.advance(86_400_000 - 60_000);
    expect(await status()).toBe(200);
    server.clock.advance(60_000);
    expect(await status()).toBe(503);
    issuer.isDown = false;
    server.clock.advance(30_000);
    expect(await status()).toBe(200);
  });

  test('that the issuer removed are refused ten minutes later', async () => {
    issuer.keys = [second];
    expect(await status(first)).toBe(200);
    server.clock.advance(600_000);
    expect(await status(first)).toBe(400);
    expect(await status(second)).toBe(200);
    issuer.keys = [first];
    server.clock.advance(600_000);
  });

  test.each<[string, { issuer?: string; jwks_uri?: string }, object]>([
    ['a discovery document of another issuer', { issuer: 'https://other.example' }, {}],
    ['keys on another host', { jwks_uri: 'http://127.0.0.2:1/jwks' }, {}],
    ['a redirect', { jwks_uri: '/moved' }, {}],
    ['an address that is not allowed', {}, { jwks_uri: 'http://127.0.0.2:1/jwks' }],
  ])('are not accepted from %s', async (_, discovery, entry) => {
    const lone = openIssuer(first);
    const jwks_uri = new URL(discovery.jwks_uri ?? '/jwks', lone.url).href;
    lone.discovery = { issuer: lone.url, ...discovery, jwks_uri };
    const trusting = await openFixture(server, lone, first);
    const { id } = await trusting.application(entry);
    const answer = await exchange(server, trusting.clientId({ id }), trusting.jwt());
    expect(answer.status).toBe(503);
    expect(lone.requests).not.toContain('/jwks');
  });

  test('are fetched from jwks_uri without discovery', async () => {
    issuer.requests.length = 0;
    const { id } = await fixture.application({ jwks_uri: `${issuer.url}/jwks` });
    expect((await exchange(server, fixture.clientId({ id }), fixture.jwt())).status).toBe(200);
    expect(issuer.requests).toEqual(['/jwks']);
  });

  test('are not fetched from addresses that the operator did not allow', async () => {
    const strict = await openTestServer(sqlite);
    const trusting = await openFixture(strict, issuer, first);
    const { id } = await trusting.application();
    issuer.requests.length = 0;
    expect((await exchange(strict, trusting.clientId({ id }), trusting.jwt())).status).toBe(503);
    expect(issuer.requests).toEqual([]);
    expect(strict.logged.join()).toContain('set SALLYPORT_ISSUER_NETWORKS to allow it');
  });
});
