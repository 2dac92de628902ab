/** The field `trusted_issuers` of an application. What a trusted issuer is for is in token-exchange.test.ts. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { openTestServer, sqlite, type TestServer } from '../../support/test-server.ts';

describe('trusted issuers of an application', () => {
  let server: TestServer;
  let key: string;
  beforeAll(async () => {
    server = await openTestServer(sqlite);
    key = (await server.tenant()).key;
  });
  afterAll(() => server.close());

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
