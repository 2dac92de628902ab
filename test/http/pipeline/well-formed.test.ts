import { describe, expect, test } from 'bun:test';
import { z } from 'zod';
import { Sallyport } from '../../../sdk/src/sallyport.ts';
import { allRows, auditEntries } from '../../support/database.ts';
import { exchange, IssuerKey, local, openFixture, openIssuer } from '../../support/issuer.ts';
import { authenticatedRoutes, routeCaller } from '../../support/route-access.ts';
import { databases, openTestServer } from '../../support/test-server.ts';

const half = '\ud83d';
/** Texts with an emoji where a text of 200 or 300 units would be cut, and texts with half a surrogate pair. */
const texts = [199, 299].map((length) => `${'x'.repeat(length)}😀x`).concat(`x${half}`, `${half}x`, '\ude00');

/** The value, each time with one of its strings or names replaced. */
function* variants(value: unknown, by: string): Generator<unknown> {
  if (typeof value === 'string') yield by;
  if (typeof value !== 'object' || value === null) return;
  for (const [name, part] of Object.entries(value)) {
    const put = (changed: object) =>
      Array.isArray(value) ? Object.assign([...value], changed) : { ...value, ...changed };
    for (const changed of variants(part, by)) yield put({ [name]: changed });
    if (!Array.isArray(value)) yield put({ [name]: undefined, [by]: part });
  }
}

/** As a client sends it that encodes half a pair like any other code point. */
function percentEncode(text: string): string {
  return encodeURIComponent(text.toWellFormed()).replaceAll('%EF%BF%BD', '%ED%A0%BD');
}

const isSubject = (text: string) => text.isWellFormed() && text.length <= 256;
const isStored = (text: string) => /\ufffd|\\ud[89a-f][\da-f]{2}/i.test(text) || !text.isWellFormed();

describe.each(databases)('texts with half a surrogate pair on %s', async (_, database) => {
  const signer = new IssuerKey('one');
  const issuer = openIssuer(signer);
  const server = await openTestServer(database, local);
  const tenant: { id: string; key: string } = await server.tenant();

  const headers = (text: string) => {
    const sent = Buffer.from(text).toString('latin1');
    const names = ['User-Agent', 'Origin', 'SVC-Purpose', 'SVC-Request-ID', 'traceparent', 'DPoP'];
    return Object.fromEntries(names.map((name) => [name, sent]));
  };

  test('are stored from no part of a request to any route', async () => {
    const { prepare } = routeCaller(server.call);
    for (const route of authenticatedRoutes) {
      const { path, key, body } = await prepare(route, tenant);
      const send = (at: string, options: object) => server.call(route.method, at, { key, ...options });
      const names = route.query instanceof z.ZodObject ? Object.keys(route.query.shape) : ['x'];
      for (const [at, text] of texts.entries()) {
        const bodies = [...variants(body, text)].filter((_, index) => index % texts.length === at);
        for (const changed of bodies) await send(path, { body: JSON.stringify(changed) });
        const encoded = percentEncode(text);
        for (const name of names.filter((_, index) => index % texts.length === at))
          await send(`${path}${path.includes('?') ? '&' : '?'}${name}=${encoded}`, {});
      }
      for (const [name, value] of Object.entries(headers(texts[0] as string)))
        await send(path, { body, headers: { [name]: value } });
    }
    await server.flush();
    expect((await auditEntries(server.config.databaseUrl)).length).toBeGreaterThan(100);
    await expectWellFormed();
  });

  async function expectWellFormed(): Promise<void> {
    const entries = await auditEntries(server.config.databaseUrl);
    const rows = Object.values(await allRows(server.config.databaseUrl)).flat();
    expect([...entries.map((entry) => JSON.stringify(entry)), ...rows].filter(isStored)).toEqual([]);
  }

  test('are stored from no claim of a JWT, accepted or not', async () => {
    const fixture = await openFixture(server, issuer, signer);
    const app = await fixture.application({ claims: { kind: 'job' } });
    const missing = fixture.clientId({ id: crypto.randomUUID() });
    for (const text of texts)
      for (const claim of ['sub', 'iss', 'aud', 'jti', 'kind'])
        for (const client of [fixture.clientId(app), missing]) {
          // Each address can exchange a few JWTs per minute.
          server.clock.advance(60_000);
          const { status } = await exchange(server, client, fixture.jwt({ kind: 'job', [claim]: text }));
          const isAccepted = client !== missing && (claim === 'jti' || (claim === 'sub' && isSubject(text)));
          expect([claim, text, status]).toEqual([claim, text, isAccepted ? 200 : 400]);
        }
    await server.flush();
    await expectWellFormed();
  });

  test('name no subject, whose sessions could be those of another', async () => {
    const { key } = tenant;
    const replaced = 'user:\ufffd';
    const web = await server.application(key, { type: 'public' });
    const { nonce, session_key } = (await server.call('POST', '/sessions', { key: web.key })).body;
    const authorize = (subject: string) =>
      server.call('POST', '/sessions/authorize', {
        key,
        body: JSON.stringify({ nonce, subject, permissions: ['token:read'] }),
      });
    expect((await authorize(`user:${half}`)).body.errors.subject).toEqual(['must be well-formed Unicode']);
    expect((await authorize(replaced)).status).toBe(204);
    const end = await server.call('DELETE', `/sessions?subject=user:${percentEncode(half)}`, { key });
    expect([end.status, end.body.errors]).toEqual([400, { query: ['must be percent-encoded UTF-8'] }]);
    const client = new Sallyport({ url: server.url, key });
    expect(() => client.sessions.endAll({ subject: `user:${half}` })).toThrow('well-formed Unicode');
    expect((await server.call('GET', '/tokens', { key: session_key })).status).toBe(200);
  });
});
