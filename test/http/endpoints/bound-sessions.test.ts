import { describe, expect, test } from 'bun:test';
import { challengeOf, invalidProof, openBound, useNonce } from '../../support/bound-client.ts';
import { type ProofOptions, Prover } from '../../support/dpop.ts';
import { rawRequest } from '../../support/raw-http.ts';
import { databases, manyConnections, openTestServer } from '../../support/test-server.ts';

const path = '/applications/key';
const lifetime = 120_000;

describe.each(databases)('bound sessions on %s', async (_, database) => {
  const server = await openTestServer(database, { SALLYPORT_SESSION_TTL: '100000', ...manyConnections });

  async function scene() {
    const { key } = await server.tenant();
    const web = await server.application(key, { type: 'public', permissions: ['mine:x'] });
    const grant = { key, permissions: ['application:read', 'token:read'] };
    return { key, web, grant, client: await openBound(server, web.key, grant) };
  }
  const sessionsOf = async (key: string) => (await server.call('GET', '/sessions', { key })).body.data;

  test('a proof on POST /sessions binds the session', async () => {
    const { key, web, client } = await scene();
    const prover = new Prover('EdDSA');
    const headers = { DPoP: prover.proof({ method: 'POST', url: `${server.url}/sessions` }) };
    const created = await server.call('POST', '/sessions', { key: web.key, headers });
    expect([created.status, created.body.bound]).toEqual([201, true]);
    expect(created.headers.get('dpop-nonce')).toMatch(/^[\w-]{30}$/);
    const unbound = await server.call('POST', '/sessions', { key: web.key });
    expect(Object.keys(unbound.body)).not.toContain('bound');
    expect(unbound.headers.get('dpop-nonce')).toBeNull();
    const listed = await sessionsOf(key);
    expect(listed.map(({ bound }: { bound: boolean }) => bound)).toEqual([false, true, true]);
    expect((await client.call('GET', path)).status).toBe(200);
  });

  test('the audit entry says that a session is bound', async () => {
    const { key } = await scene();
    const { body } = await server.call('GET', '/logs?operation=session.create', { key });
    expect(body.data[0].difference).toEqual({ bound: { to: true } });
  });

  test.each<[string, Partial<ProofOptions> | string]>([
    ['for another method', { method: 'GET' }],
    ['for another URL', { url: 'https://other.example/sessions' }],
    ['with a private key', { header: { jwk: { ...new Prover().jwk, d: 'AAAA' } } }],
    ['with alg none', { header: { alg: 'none' } }],
    ['with an unknown nonce', { nonce: 'AAAA' }],
    ['that is empty', ''],
    ['that is no JWT', 'x'],
  ])('an invalid proof, one %s, is rejected and creates no session', async (_, change) => {
    const { key, web } = await scene();
    const url = `${server.url}/sessions`;
    const jwt = typeof change === 'string' ? change : new Prover().proof({ method: 'POST', url, ...change });
    const head = [`SVC-API-KEY: ${web.key}`, `DPoP: ${jwt}`, 'Content-Length: 0'];
    const { status, body } = await rawRequest(server.url, 'POST /sessions', head);
    expect([status, Object.keys(JSON.parse(body).errors)]).toEqual([400, ['dpop']]);
    expect(await sessionsOf(key)).toHaveLength(1);
  });

  test('two proofs on POST /sessions are rejected', async () => {
    const { web } = await scene();
    const jwt = new Prover().proof({ method: 'POST', url: `${server.url}/sessions` });
    const head = [`SVC-API-KEY: ${web.key}`, `DPoP: ${jwt}`, `DPoP: ${jwt}`, 'Content-Length: 0'];
    expect((await rawRequest(server.url, 'POST /sessions', head)).status).toBe(400);
  });

  test('without a proof, the key of a bound session gets the same 401 as an invalid key', async () => {
    const { client } = await scene();
    const id = { headers: { 'SVC-REQUEST-ID': 'fixed' } };
    const invalid = await server.call('GET', path, { key: 'x', ...id });
    const unproven = await client.call('GET', path, { proof: null, ...id });
    expect(unproven.body).toEqual(invalid.body);
    expect(challengeOf(unproven)).toEqual(invalidProof);
    expect(unproven.headers.get('dpop-nonce')).not.toBeNull();
    expect(invalid.headers.get('dpop-nonce')).toBeNull();
    const headers = [...unproven.headers.keys()].filter((name) => name !== 'dpop-nonce');
    expect(headers).toEqual([...invalid.headers.keys()]);
  });

  test('a stolen proof is refused for every other request', async () => {
    const { client, web, grant } = await scene();
    const stolen = client.proof('GET', path);
    const other = await openBound(server, web.key, grant);
    const sameKey = await openBound(server, web.key, grant, client.prover);
    const attempts = [
      client.call('GET', '/tokens', { proof: stolen }),
      client.call('HEAD', path, { proof: stolen }),
      client.call('POST', '/decisions', { proof: stolen, body: {} }),
      other.call('GET', path, { proof: stolen }),
      sameKey.call('GET', path, { proof: stolen }),
      client.call('GET', path, { proof: other.proof('GET', path, { key: client.key }) }),
      client.call('GET', path, { proof: { header: { jwk: other.prover.jwk } } }),
      client.call('GET', path, { proof: { header: { alg: 'none' } } }),
    ];
    for (const response of await Promise.all(attempts)) expect(challengeOf(response)).toEqual(invalidProof);
    expect((await client.call('GET', path, { proof: stolen })).status).toBe(200);
    expect(challengeOf(await client.call('GET', path, { proof: stolen }))).toEqual(invalidProof);
  });

  test('a proof for another path is refused, also with a Host header that contains that path', async () => {
    const { client } = await scene();
    const { host } = new URL(server.url);
    const get = async (hosts: string[], proof: string) => {
      const headers = [
        `SVC-API-KEY: ${client.key}`,
        `DPoP: ${proof}`,
        ...hosts.map((name) => `Host: ${name}`),
      ];
      return (await rawRequest(server.url, `GET ${path}`, headers)).status;
    };
    const stolen = client.proof('GET', '/harmless');
    for (const suffix of ['', '/harmless?', '/harmless#', '/harmless;', '\\harmless?', '@', '%2fharmless?'])
      expect([suffix, await get([host + suffix], stolen)]).toEqual([suffix, 401]);
    expect(await get([host, `${host}/harmless?`], stolen)).toBe(401);
    expect(await get([host], client.proof('GET', path))).toBe(200);
  });

  test('concurrent replays of one proof succeed once', async () => {
    const { client } = await scene();
    const proof = client.proof('GET', path);
    const replies = await Promise.all(Array.from({ length: 20 }, () => client.call('GET', path, { proof })));
    expect(replies.filter(({ status }) => status === 200)).toHaveLength(1);
  });

  test('a proof without a nonce, or with an old one, gets a challenge with a new nonce', async () => {
    const { client } = await scene();
    for (const nonce of [undefined, 'unknown', client.nonce]) {
      if (nonce === client.nonce) server.clock.advance(lifetime);
      const challenged = await client.call('GET', path, { proof: { nonce } });
      expect(challengeOf(challenged)).toEqual(useNonce);
      const fresh = challenged.headers.get('dpop-nonce') as string;
      expect((await client.call('GET', path, { proof: { nonce: fresh } })).status).toBe(200);
    }
  });

  test('a response has a new nonce when the current one is half way to its end', async () => {
    const { client } = await scene();
    expect((await client.call('GET', path)).headers.get('dpop-nonce')).toBeNull();
    server.clock.advance(lifetime / 2 + 1);
    for (const [asked, status] of [
      [path, 200],
      ['/applications/7', 400],
      ['/sessions', 403],
    ] as const) {
      const response = await client.call('GET', asked);
      expect([response.status, response.headers.get('dpop-nonce')]).toEqual([status, expect.any(String)]);
    }
  });

  test('the clock of the client does not matter', async () => {
    const { client } = await scene();
    for (const iat of [0, -1, 1.5, 9_999_999_999])
      expect((await client.call('GET', path, { proof: { claims: { iat } } })).status).toBe(200);
  });

  test('a pending bound session needs a proof, too', async () => {
    const { web } = await scene();
    const client = await openBound(server, web.key);
    expect(challengeOf(await client.call('GET', path, { proof: null }))).toEqual(invalidProof);
    expect((await client.call('GET', path)).status).toBe(403);
  });

  test('a proof does not help an ended session', async () => {
    const { key, client } = await scene();
    const [{ id }] = await sessionsOf(key);
    await server.call('DELETE', `/sessions/${id}`, { key });
    const response = await client.call('GET', path);
    expect(challengeOf(response)).toEqual([401, 'ApiKey header="SVC-API-KEY"']);
  });

  test('keys that are not bound ignore a proof', async () => {
    const { key } = await scene();
    expect((await server.call('GET', path, { key, headers: { DPoP: 'x' } })).status).toBe(200);
  });

  test('refused proofs are in the audit log with the reason, and challenges for a nonce are not', async () => {
    const { key, client } = await scene();
    await client.call('GET', path, { proof: { nonce: undefined } });
    await client.call('GET', path, { proof: { url: 'https://other.example/' } });
    await server.flush();
    const { body } = await server.call('GET', '/logs?result=denied', { key });
    const reasons = body.data.map(({ reason, decision }: { reason: string; decision: object }) => ({
      reason,
      ...decision,
    }));
    expect(reasons).toEqual([{ reason: 'the DPoP proof is for another URL' }]);
    expect(body.data[0].actor.kind).toBe('session');
  });
});
