/** An OpenID Connect issuer on the loopback interface. Does not use the library that the service uses. */

import { createHmac, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { closeLater } from './cleanup.ts';
import { encode } from './dpop.ts';
import { type ApiResponse, type TestServer, testMasterKey } from './test-server.ts';

export const tokenExchange = {
  grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
  subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
};

export class IssuerKey {
  readonly kid: string;
  readonly alg: 'RS256' | 'ES256';
  readonly privateKey: KeyObject;
  readonly jwk: Record<string, unknown>;

  constructor(kid: string, alg: 'RS256' | 'ES256' = 'ES256') {
    const { privateKey, publicKey } =
      alg === 'ES256'
        ? generateKeyPairSync('ec', { namedCurve: 'P-256' })
        : generateKeyPairSync('rsa', { modulusLength: 2048 });
    this.kid = kid;
    this.alg = alg;
    this.privateKey = privateKey;
    this.jwk = { ...publicKey.export({ format: 'jwk' }), kid, alg, use: 'sig' };
  }

  jwt(claims: object, header: object = {}): string {
    const text = `${encode({ alg: this.alg, kid: this.kid, typ: 'JWT', ...header })}.${encode(claims)}`;
    const options = { key: this.privateKey, dsaEncoding: 'ieee-p1363' as const };
    return `${text}.${sign('sha256', Buffer.from(text), options).toString('base64url')}`;
  }
}

export interface TestIssuer {
  readonly url: string;
  /** The paths of the requests so far. */
  readonly requests: string[];
  /** Replace the responses. */
  discovery: object;
  keys: readonly IssuerKey[];
  isDown: boolean;
  close(): Promise<void>;
}

export function openIssuer(...keys: IssuerKey[]): TestIssuer {
  const requests: string[] = [];
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: (request) => {
      const { pathname } = new URL(request.url);
      requests.push(pathname);
      if (issuer.isDown) return new Response('down', { status: 503 });
      if (pathname === '/.well-known/openid-configuration') return Response.json(issuer.discovery);
      if (pathname === '/jwks') return Response.json({ keys: issuer.keys.map(({ jwk }) => jwk) });
      if (pathname === '/moved') return Response.redirect('/jwks');
      return new Response(null, { status: 404 });
    },
  });
  const url = `http://127.0.0.1:${server.port}`;
  const issuer: TestIssuer = {
    url,
    requests,
    discovery: { issuer: url, jwks_uri: `${url}/jwks` },
    keys,
    isDown: false,
    close: closeLater(() => server.stop(true)),
  };
  return issuer;
}

/** A JWT whose MAC uses the public key of the issuer as its secret. */
export function confusedJwt({ jwk, kid }: IssuerKey, claims: object): string {
  const text = `${encode({ alg: 'HS256', kid, typ: 'JWT' })}.${encode(claims)}`;
  return `${text}.${createHmac('sha256', JSON.stringify(jwk)).update(text).digest('base64url')}`;
}

/** A JWT without a signature. */
export function unsignedJwt(claims: object): string {
  return `${encode({ alg: 'none', typ: 'JWT' })}.${encode(claims)}.`;
}

/** Settings with which the service fetches keys from an issuer on the loopback interface. */
export const local = { SALLYPORT_MASTER_KEY: testMasterKey, SALLYPORT_ISSUER_NETWORKS: '127.0.0.1' };
export const audience = 'https://sallyport.example';
export const subject = 'repo:acme/shop:ref:refs/heads/main';

/** A tenant with an application that trusts the issuer, and JWTs for it. */
export async function openFixture(server: TestServer, issuer: TestIssuer, signer: IssuerKey) {
  const { key } = await server.tenant();
  const { tag } = (await server.call('GET', '/tenants/self', { key })).body;
  const entry = { issuer: issuer.url, audience, claims: { sub: subject } };
  const application = (fields: object = {}, extra: object = {}) =>
    server.application(key, {
      permissions: ['application:read'],
      trusted_issuers: [{ ...entry, ...fields }],
      ...extra,
    });
  const claims = (changed: object = {}) => {
    const now = server.clock.now() / 1000;
    const times = { iat: now, nbf: now, exp: now + 300 };
    return { iss: issuer.url, aud: audience, sub: subject, jti: crypto.randomUUID(), ...times, ...changed };
  };
  return {
    key,
    entry,
    application,
    claims,
    clientId: ({ id }: { id: string }) => `${tag}.${id}`,
    jwt: (changed: object = {}, header: object = {}) => signer.jwt(claims(changed), header),
  };
}
export type Fixture = Awaited<ReturnType<typeof openFixture>>;

export function exchange(
  server: TestServer,
  clientId: string,
  jwt: string,
  form: Record<string, string> = {},
  headers: Record<string, string> = {},
): Promise<ApiResponse> {
  const fields = { ...tokenExchange, client_id: clientId, subject_token: jwt, ...form };
  return server.call('POST', '/oauth/token', {
    body: new URLSearchParams(fields).toString(),
    headers: { 'Content-Type': 'application/x-www-form-urlencoded', ...headers },
  });
}
