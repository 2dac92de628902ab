import { afterEach, describe, expect, setSystemTime, test } from 'bun:test';
import {
  ExchangeError,
  githubToken,
  Sallyport,
  UnavailableError,
  workloadKey,
} from '../../sdk/src/sallyport.ts';
import { IssuerKey, openIssuer } from '../support/issuer.ts';
import { openTestServer, sqlite, startTime } from '../support/test-server.ts';

describe('SDK with workload identity:', async () => {
  const signer = new IssuerKey('one');
  const issuer = openIssuer(signer);
  const server = await openTestServer(sqlite, { SALLYPORT_ISSUER_NETWORKS: '127.0.0.1' });
  const { key } = await server.tenant();
  const application: { id: string } = await server.application(key, {
    permissions: ['application:read'],
    trusted_issuers: [{ issuer: issuer.url, audience: 'sdk', claims: { sub: 'job' }, lifetime: 100 }],
  });
  const clientId = `${key.slice(8, 14)}.${application.id}`;
  afterEach(() => {
    setSystemTime();
  });

  /** Counts exchanges. `fail` makes the next ones fail. */
  function open() {
    const state = { tokens: 0, fail: false };
    const token = () => {
      state.tokens++;
      if (state.fail) throw new Error('no token');
      const now = server.clock.now() / 1000;
      return signer.jwt({ iss: issuer.url, aud: 'sdk', sub: 'job', jti: crypto.randomUUID(), exp: now + 60 });
    };
    const key = workloadKey({ url: server.url, clientId, token });
    return { state, key, client: new Sallyport({ url: server.url, key }) };
  }

  function pass(seconds: number): void {
    server.clock.advance(seconds * 1000);
    setSystemTime(Date.now() + seconds * 1000);
  }

  test('concurrent requests share a key, which is renewed before it expires', async () => {
    setSystemTime(startTime);
    const { state, client } = open();
    const answers = await Promise.all([1, 2, 3].map(() => client.applications.current()));
    expect(answers.map(({ id }) => id)).toEqual([application.id, application.id, application.id]);
    pass(79);
    await client.applications.current();
    expect(state.tokens).toBe(1);
    pass(1);
    await client.applications.current();
    expect(state.tokens).toBe(2);
  });

  test('the old key is used while a renewal fails, until it expires', async () => {
    setSystemTime(startTime);
    const { state, key } = open();
    const first = await key();
    state.fail = true;
    pass(99);
    expect(await key()).toBe(first);
    pass(1);
    expect(key()).rejects.toThrow('no token');
    state.fail = false;
    expect(await key()).not.toBe(first);
  });

  test('a refused JWT is an error with its code, and is not sent again', async () => {
    let tokens = 0;
    const key = workloadKey({ url: server.url, clientId, token: () => `${++tokens}` });
    const error = await key().catch((thrown) => thrown);
    expect([error instanceof ExchangeError, error.code, tokens]).toEqual([true, 'invalid_request', 1]);
  });

  test('an exchange is retried with a new JWT', async () => {
    let tokens = 0;
    const problem = { code: 'unavailable', status: 503, title: '', detail: '', request_id: '' };
    const fetch = async () => Response.json(problem, { status: 503, headers: { 'Retry-After': '0' } });
    const key = workloadKey({
      url: server.url,
      clientId,
      token: () => `${++tokens}`,
      retries: 1,
      fetch: fetch as unknown as typeof globalThis.fetch,
    });
    expect(await key().catch((thrown) => thrown)).toBeInstanceOf(UnavailableError);
    expect(tokens).toBe(2);
  });

  test('githubToken needs the variables of a job', () => {
    expect(() => githubToken('sdk', {})).toThrow('id-token: write');
  });
});
