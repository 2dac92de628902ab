import { describe, expect, test } from 'bun:test';
import { challengeOf, invalidProof, openBound, useNonce } from '../../support/bound-client.ts';
import { Prover } from '../../support/dpop.ts';
import { databases, openTestServer, type TestServer, testMasterKey } from '../../support/test-server.ts';

const path = '/applications/key';

describe.each(databases)('bound sessions on nodes with one %s', async (_, database) => {
  const env = { SALLYPORT_MASTER_KEY: testMasterKey, SALLYPORT_PUBLIC_URL: 'https://keys.example/v1/' };
  const opened = await openTestServer(database, env);
  const nodes = [opened, await openTestServer(opened.config.databaseUrl, env)] as const;

  /** A client that uses the public URL in its proofs. */
  async function open(node: TestServer) {
    const { key } = await node.tenant();
    const web = await node.application(key, { type: 'public' });
    const atPublicUrl = { url: 'https://keys.example/v1', call: node.call };
    return openBound(atPublicUrl, web.key, { key, permissions: ['application:read'] });
  }
  const at = (node: TestServer) => ({ url: 'https://keys.example/v1', call: node.call });

  test('a node accepts the nonces of another, and each refuses the replay of a proof that it has seen', async () => {
    const [first, second] = nodes;
    const client = await open(first);
    const proof = client.proof('GET', path);
    const there = client.at(at(second));
    expect((await client.call('GET', path, { proof })).status).toBe(200);
    // Nodes do not share the proofs that they have seen. docs/guides/bound-sessions.md describes the consequences.
    expect((await there.call('GET', path, { proof })).status).toBe(200);
    for (const one of [client, there])
      expect(challengeOf(await one.call('GET', path, { proof }))).toEqual(invalidProof);
  });

  test('a node that was restarted refuses nonces from before, so it accepts no proof a second time', async () => {
    const [first] = nodes;
    const client = await open(first);
    const proof = client.proof('GET', path);
    expect((await client.call('GET', path, { proof })).status).toBe(200);
    const restarted = await openTestServer(first.config.databaseUrl, {
      SALLYPORT_MASTER_KEY: testMasterKey,
      SALLYPORT_PUBLIC_URL: 'https://keys.example/v1',
    });
    restarted.clock.advance(1);
    const challenged = await client.at(at(restarted)).call('GET', path, { proof });
    expect(challengeOf(challenged)).toEqual(useNonce);
    const nonce = challenged.headers.get('dpop-nonce') as string;
    const again = await client.at(at(restarted)).call('GET', path, { proof: { nonce } });
    expect(again.status).toBe(200);
  });

  test('with a public URL, proofs for the own address and forwarded headers are refused', async () => {
    const [node] = nodes;
    const client = await open(node);
    const host = new URL(node.url).host;
    for (const [url, headers] of [
      [node.url + path, {}],
      [
        `https://evil.example/v1${path}`,
        { 'X-Forwarded-Host': 'evil.example', 'X-Forwarded-Proto': 'https' },
      ],
      [`https://${host}${path}`, { Forwarded: `host=${host};proto=https` }],
    ] as [string, Record<string, string>][])
      expect(challengeOf(await client.call('GET', path, { proof: { url }, headers }))).toEqual(invalidProof);
    expect((await client.call('GET', `${path}/`)).status).toBe(200);
  });

  test('a proof for another URL on POST /sessions is rejected with the expected one', async () => {
    const [node] = nodes;
    const { key } = await node.tenant();
    const web = await node.application(key, { type: 'public' });
    const headers = { DPoP: new Prover().proof({ method: 'POST', url: `${node.url}/sessions` }) };
    const { status, body } = await node.call('POST', '/sessions', { key: web.key, headers });
    expect([status, body.errors.dpop[0]]).toEqual([
      400,
      expect.stringContaining('expected https://keys.example/v1/sessions; if a proxy changes the URL'),
    ]);
  });
});

describe('without a public URL', () => {
  test('forwarded headers do not change the expected URL', async () => {
    const server = await openTestServer(databases[0]?.[1] as (typeof databases)[0][1], {
      SALLYPORT_TRUSTED_PROXIES: '127.0.0.1',
    });
    const { key } = await server.tenant();
    const web = await server.application(key, { type: 'public' });
    const client = await openBound(server, web.key, { key, permissions: ['application:read'] });
    const headers = { 'X-Forwarded-Host': 'keys.example', 'X-Forwarded-Proto': 'https' };
    const proof = { url: `https://keys.example${path}` };
    expect(challengeOf(await client.call('GET', path, { proof, headers }))).toEqual(invalidProof);
    expect((await client.call('GET', path, { headers })).status).toBe(200);
  });
});
