import { describe, expect, test } from 'bun:test';
import { routes } from '../../../src/http/routes.ts';
import { unknownKey } from '../../support/keys.ts';
import { rawRequest } from '../../support/raw-http.ts';
import { databases, openTestServer } from '../../support/test-server.ts';

const requestId = 'SVC-REQUEST-ID: fixed';
const someId = '0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5d';
const all = { permissions: ['application:read', 'application:update', 'application:create'] };
const guarded = routes
  .filter(({ kind }) => kind !== 'open')
  .map(({ method, path }) => `${method} ${path.replace(':id', someId)}`);

describe.each(databases)('authentication on %s', async (_, database) => {
  const server = await openTestServer(database);
  /** Header lines with every kind of invalid key. */
  const bad: Record<string, string[]> = await badKeys();

  async function session(web: { key: string }, backend: string): Promise<string> {
    const { body } = await server.call('POST', '/sessions', { key: web.key });
    const grant = { nonce: body.nonce, permissions: ['application:read'] };
    expect((await server.call('POST', '/sessions/authorize', { key: backend, body: grant })).status).toBe(
      204,
    );
    return body.session_key;
  }

  async function badKeys(): Promise<Record<string, string[]>> {
    const { key } = await server.tenant();
    const remove = ({ id }: { id: string }) => server.call('DELETE', `/applications/${id}`, { key });
    const soon = { ...all, expires_at: new Date(server.clock.now() + 1000).toISOString() };

    const regenerated = await server.application(key, all);
    await server.call('POST', `/applications/${regenerated.id}/regenerate`, { key });
    const deleted = await server.application(key, all);
    await remove(deleted);
    const expired = await server.application(key, soon);
    const [stays, goes] = [
      await server.application(key, { type: 'public' }),
      await server.application(key, { type: 'public' }),
    ];
    const orphan = await session(goes, key);
    await remove(goes);
    const authorizer = await server.application(key, { permissions: ['application:read'] });
    const abandoned = await session(stays, authorizer.key);
    await remove(authorizer);
    const late = await session(stays, key);
    const { nonce } = (await server.call('POST', '/sessions', { key: stays.key })).body;
    server.clock.advance(180_000);
    const unusedNonce = (await server.call('POST', '/sessions', { key: stays.key })).body.nonce;

    const one = (value: string) => [`SVC-API-KEY: ${value}`];
    return {
      missing: [],
      empty: one(''),
      short: one('x'),
      long: one('x'.repeat(5000)),
      doubled: [...one(key), ...one(key)],
      'joined by a comma': one(`${key}, ${key}`),
      'with a scheme': one(`Bearer ${key}`),
      quoted: one(`"${key}"`),
      'in lower case': one(key.toLowerCase()),
      'one character too short': one(key.slice(0, -1)),
      'one character too long': one(`${key}0`),
      'with one wrong character': one(`${key.slice(0, -8)}${key.at(-8) === 'a' ? 'b' : 'a'}${key.slice(-7)}`),
      'of another kind': one(key.replace('slp_mgt_', 'slp_pvt_')),
      'never issued': one(unknownKey('mgt').secret.reveal()),
      'session key, never issued': one(unknownKey('ses').secret.reveal()),
      'used nonce': one(nonce),
      'unused nonce': one(unusedNonce),
      regenerated: one(regenerated.key),
      deleted: one(deleted.key),
      expired: one(expired.key),
      'session key, expired': one(late),
      'session key, application deleted': one(orphan),
      'session key, authorizer deleted': one(abandoned),
      'in another header': [
        `Authorization: Bearer ${key}`,
        `X-API-KEY: ${key}`,
        `Cookie: SVC-API-KEY=${key}`,
      ],
    };
  }

  test('every invalid key gets the same response, byte for byte', async () => {
    const undated = (head: string) => head.replace(/\r\nDate: [^\r]*/, '');
    const first = await rawRequest(server.url, 'GET /applications', [requestId]);
    expect(first.status).toBe(401);
    expect(first.head).toContain('WWW-Authenticate: ');
    expect(JSON.parse(first.body).code).toBe('unauthenticated');
    for (const [what, headers] of Object.entries(bad)) {
      const { head, body } = await rawRequest(server.url, 'GET /applications', [requestId, ...headers]);
      expect({ what, head: undated(head), body }).toEqual({
        what,
        head: undated(first.head),
        body: first.body,
      });
    }
  });

  test.each(guarded)('%s rejects invalid keys', async (line) => {
    const bodies = new Set<string>();
    for (const headers of Object.values(bad)) {
      // The AuthZEN endpoints accept bearer keys, so `Authorization` is not sent to them here.
      const sent = line.includes('/access/v1/')
        ? headers.filter((each) => !each.startsWith('Auth'))
        : headers;
      const { status, body } = await rawRequest(server.url, line, [requestId, ...sent]);
      expect(status).toBe(401);
      bodies.add(body);
    }
    expect(bodies.size).toBe(1);
  });

  test('the key is checked before the input', async () => {
    const body = 'not JSON';
    const headers = { 'Content-Type': 'text/plain' };
    expect((await server.call('POST', '/applications', { body, headers })).status).toBe(401);
    expect((await server.call('GET', '/applications?colour=red')).status).toBe(401);
    expect((await server.call('GET', '/applications/7')).status).toBe(401);
    const large = await server.call('POST', '/applications', { body: 'x'.repeat(70_000) });
    expect(large.status).toBe(401);
  });

  test('a key in the URL is ignored', async () => {
    const { key } = await server.tenant();
    expect((await server.call('GET', `/applications?SVC-API-KEY=${key}`)).status).toBe(401);
  });

  test('the header name is case-insensitive', async () => {
    const { key } = await server.tenant();
    for (const name of ['svc-api-key', 'Svc-Api-Key', 'SVC-API-KEY']) {
      const { status } = await rawRequest(server.url, 'GET /applications', [`${name}: ${key}`]);
      expect(status).toBe(200);
    }
  });

  test('the permission is checked before the input', async () => {
    const { key } = await server.tenant();
    const weak = await server.application(key);
    expect((await server.call('GET', '/applications/7', { key: weak.key })).status).toBe(403);
    expect((await server.call('POST', '/applications', { key: weak.key, body: 'x' })).status).toBe(403);
  });
});
