/**
 * Sign-in to the console by OpenID Connect: authorization code with PKCE, state and nonce. The library is loaded on the
 * first sign-in. See docs/decisions/0039-sign-in-by-name.md.
 */
import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';
import type { Configuration } from 'openid-client';
import { z } from 'zod';
import { configuredProviders, type Provider, redirectUri, type SignInConfig } from '../../config/sign-in.ts';
import { newId } from '../../domain/key.ts';
import type { Principal } from '../../domain/principal.ts';
import { collect } from '../../domain/received-bytes.ts';
import { subjectShape } from '../../domain/trusted-issuer.ts';
import type { Store, StoreTransaction } from '../../store/store.ts';
import type { Log } from '../../telemetry/log.ts';
import { type Claims, decodeClaims, type IssuerKeys, JwtRefusal, maxLogoutAge } from './issuer-keys.ts';

/** The kind of message that the console shows about a sign-in that did not succeed. */
export type Outcome = 'failed' | 'refused' | 'tenant';

/** A sign-in that did not succeed. The message continues "the sign-in was refused: …", and is only for logs. */
export class SignInRefusal extends Error {
  readonly outcome: Outcome;
  /** The verified claims about the person, and the tenant of the sign-in. */
  readonly claims: Claims;
  readonly tenantId: string | undefined;
  constructor(message: string, outcome: Outcome = 'failed', claims: Claims = {}, tenantId?: string) {
    super(message);
    this.outcome = outcome;
    this.claims = claims;
    this.tenantId = tenantId;
  }
}

/** A sign-in between its two requests. It is in a cookie, so that every node can finish it. */
const Begun = z.strictObject({
  provider: z.int(),
  tag: z.string().optional(),
  id: z.string(),
  expiresAt: z.number(),
});
type Begun = z.infer<typeof Begun>;

/** Milliseconds that a person has to sign in at the provider. */
const signInTime = 600_000;
/** Milliseconds after which the discovery document is fetched again. */
const discoveryAge = 3_600_000;
/** Seconds that the provider has to answer a request of the service. */
const requestTimeout = 5;
/** Maximum bytes of a reply of the provider. */
const maxReply = 131_072;
/** A session is renewed if that gains at least so many milliseconds, to write less often. */
const renewalStep = 60_000;

const logoutEvent = 'http://schemas.openid.net/event/backchannel-logout';

export interface SignedInPerson {
  /** The tag of the tenant, if the sign-in began with one. */
  readonly tag: string | undefined;
  readonly provider: Provider;
  /** The claims of the ID token and of the UserInfo endpoint. */
  readonly claims: Claims;
  /** Identifies this sign-in, which works once. */
  readonly nonce: string;
  readonly expiresAt: number;
}

export class SignIn {
  readonly providers: readonly Provider[];
  /** Milliseconds without a request after which a session ends, and after which it ends in any case. */
  readonly idle: number;
  readonly max: number;
  readonly acceptsKeys: boolean;
  readonly #config: SignInConfig;
  readonly #key: Uint8Array;
  readonly #issuerKeys: IssuerKeys;
  /** By the clock of the database or of this machine, which all nodes share. */
  readonly now: () => number;
  readonly #log: Pick<Log, 'warn'>;
  readonly #discovered = new Map<Provider, { readonly at: number; readonly found: Promise<Configuration> }>();

  /** Every node must have the same `secret`. `issuerKeys` may connect to private addresses: the operator chose them. */
  constructor(
    config: SignInConfig,
    secret: Uint8Array,
    issuerKeys: IssuerKeys,
    now: () => number,
    log: Pick<Log, 'warn'>,
  ) {
    this.providers = configuredProviders(config);
    this.idle = config.consoleSessionIdle;
    this.max = config.consoleSessionMax;
    this.acceptsKeys = config.consoleKeys === 'on';
    this.#config = config;
    this.#key = new Uint8Array(hkdfSync('sha256', secret, '', 'sallyport sign-in', 32));
    this.#issuerKeys = issuerKeys;
    this.now = now;
    this.#log = log;
  }

  /** Returns the redirect and the cookie for the browser. Throws `SignInRefusal`. */
  async begin(provider: number, tag: string | undefined): Promise<{ url: URL; cookie: string }> {
    const { buildAuthorizationUrl, calculatePKCECodeChallenge } = await import('openid-client');
    const configuration = await this.#configurationOf(this.#provider(provider));
    const now = this.now();
    const begun: Begun = { provider, tag, id: newId(now), expiresAt: now + signInTime };
    const payload = Buffer.from(JSON.stringify(begun)).toString('base64url');
    const url = buildAuthorizationUrl(configuration, {
      redirect_uri: redirectUri(this.#config, provider),
      scope: this.#config.oidcScope,
      state: this.#derive('state', payload),
      nonce: this.#derive('nonce', payload),
      code_challenge: await calculatePKCECodeChallenge(this.#derive('verifier', payload)),
      code_challenge_method: 'S256',
    });
    return { url, cookie: `${payload}.${this.#derive('cookie', payload)}` };
  }

  /**
   * Verifies the response of the provider, `query`, to the sign-in that the browser began. Throws `SignInRefusal`. The
   * caller must accept each `nonce` once.
   */
  async finish(number: number, query: string, cookie: string): Promise<SignedInPerson> {
    const { payload, begun } = this.#open(cookie);
    // Each provider has its own redirect URI, so that one cannot get the code of another (RFC 9700, section 4.4).
    if (begun.provider !== number) throw new SignInRefusal('it began at another provider');
    const provider = this.#provider(number);
    const configuration = await this.#configurationOf(provider);
    const nonce = this.#derive('nonce', payload);
    const url = new URL(redirectUri(this.#config, number) + query);
    const { authorizationCodeGrant, fetchUserInfo } = await import('openid-client');
    try {
      const tokens = await authorizationCodeGrant(configuration, url, {
        expectedState: this.#derive('state', payload),
        expectedNonce: nonce,
        pkceCodeVerifier: this.#derive('verifier', payload),
        idTokenExpected: true,
      });
      const { jwks_uri, userinfo_endpoint } = configuration.serverMetadata();
      await this.#issuerKeys.verify(tokens.id_token as string, issuerOf(provider, jwks_uri), this.now());
      const own = tokens.claims() as Claims & { readonly sub: string };
      const more = userinfo_endpoint && (await fetchUserInfo(configuration, tokens.access_token, own.sub));
      return {
        tag: begun.tag,
        provider,
        claims: merged(own, more || {}),
        nonce,
        expiresAt: begun.expiresAt,
      };
    } catch (error) {
      throw new SignInRefusal(describe(error));
    }
  }

  /**
   * Verifies a logout token of a provider, and returns whose sessions end, and before when they began. Throws
   * `JwtRefusal`. The caller must accept each `jti` once.
   */
  async checkLogout(jwt: string) {
    const claims = await decodeClaims(jwt);
    const provider = this.providers.find(
      ({ issuer, clientId }) => issuer === claims.iss && [claims.aud].flat().includes(clientId),
    );
    if (!provider) throw new JwtRefusal('it is of another issuer');
    const { jwks_uri } = (await this.#configurationOf(provider)).serverMetadata();
    await this.#issuerKeys.verify(jwt, issuerOf(provider, jwks_uri), this.now(), 'logout');
    const { events, nonce, sub, sid, jti } = claims;
    const isLogout = typeof events === 'object' && events !== null && logoutEvent in events;
    if (!isLogout || nonce !== undefined) throw new JwtRefusal('it is not a logout token');
    const issuedAt = Math.floor(claims.iat as number) * 1000;
    const person = {
      issuer: provider.issuer,
      subject: identifierIn(sub),
      sid: identifierIn(sid),
      // Times in JWTs are seconds: a session that began in the same second ends, too.
      before: issuedAt + 1000,
      jti: `logout ${jti}`,
      expiresAt: issuedAt + maxLogoutAge,
    };
    if (person.subject === undefined && person.sid === undefined)
      throw new JwtRefusal('it has no sub and no sid');
    return person;
  }

  /** Whether the session of the principal may be used: its provider is still configured. */
  accepts(principal: Principal): boolean {
    if (principal.kind !== 'application' || !principal.person) return false;
    return this.providers.some(({ issuer }) => issuer === principal.issuer);
  }

  /** Gives a session that is in use more time. If that fails, for example on a full disk, the next request tries again. */
  async renew(principal: Principal, store: Pick<Store, 'change'>): Promise<void> {
    const session = principal.kind === 'application' ? principal.session : undefined;
    const { tenantId, applicationId, authority } = principal;
    if (!session || !authority) return;
    const next = Math.min(principal.now + this.idle, session.endsAt);
    if (next - session.expiresAt < renewalStep) return;
    const renew = (tx: StoreTransaction) =>
      tx.keys.renew(tenantId, authority.applicationId, authority.keyId, next);
    await store.change(tenantId, renew, applicationId).catch(() => {});
  }

  #provider(number: number): Provider {
    const provider = this.providers[number - 1];
    if (!provider) throw new SignInRefusal('the provider is not configured');
    return provider;
  }

  /** A value that only nodes of this installation can compute. */
  #derive(purpose: string, payload: string): string {
    return createHmac('sha256', this.#key).update(`${purpose} ${payload}`).digest('base64url');
  }

  #open(cookie: string): { payload: string; begun: Begun } {
    const [payload = '', mac = ''] = cookie.split('.');
    const [given, expected] = [mac, this.#derive('cookie', payload)].map((text) => Buffer.from(text));
    if (given?.length !== expected?.length || !timingSafeEqual(given as Buffer, expected as Buffer))
      throw new SignInRefusal('this browser did not begin it');
    const begun = Begun.parse(JSON.parse(Buffer.from(payload, 'base64url').toString()));
    if (begun.expiresAt <= this.now()) throw new SignInRefusal('it took too long');
    return { payload, begun };
  }

  /** The endpoints of the provider. Concurrent calls share a request. */
  async #configurationOf(provider: Provider): Promise<Configuration> {
    const known = this.#discovered.get(provider);
    const at = this.now();
    const found = known && at - known.at < discoveryAge ? known.found : discover(provider);
    this.#discovered.set(provider, { at: found === known?.found ? known.at : at, found });
    try {
      return await found;
    } catch (error) {
      this.#discovered.delete(provider);
      this.#log.warn('could not fetch the discovery document of a provider', {
        issuer: provider.issuer,
        error,
      });
      throw new SignInRefusal('the provider cannot be reached');
    }
  }
}

async function discover({ issuer, clientId, clientSecret }: Provider): Promise<Configuration> {
  const library = await import('openid-client');
  const url = new URL(issuer);
  const secret = clientSecret.reveal();
  const authenticate: import('openid-client').ClientAuth = (server, ...request) => {
    // Preferred, because providers disagree on the encoding of special characters in the other method.
    const usePost = server.token_endpoint_auth_methods_supported?.includes('client_secret_post');
    (usePost ? library.ClientSecretPost : library.ClientSecretBasic)(secret)(server, ...request);
  };
  const found = await library.discovery(url, clientId, undefined, authenticate, {
    timeout: requestTimeout,
    [library.customFetch]: boundedFetch,
    // The settings accept plain HTTP only for loopback addresses.
    execute: url.protocol === 'http:' ? [library.allowInsecureRequests] : [],
  });
  if (found.serverMetadata().issuer !== issuer)
    throw new Error('the discovery document is of another issuer');
  return found;
}

const boundedFetch: import('openid-client').CustomFetch = async (url, options) => {
  const headers = new Headers(options.headers);
  headers.set('accept-encoding', 'identity');
  // `fetch` would decompress a reply of any size in one step.
  const reply = await fetch(url, { ...(options as RequestInit), headers, decompress: false });
  const refuse = (problem: string) => new Error(`the reply of the provider ${problem}`);
  const body = reply.body && (await collect(reply.body, maxReply, refuse));
  return new Response(body?.length ? body : null, reply);
};

function issuerOf({ issuer, clientId }: Provider, jwks_uri: string | undefined) {
  return { issuer, audience: clientId, jwks_uri };
}

/** Errors of the library contain the response of the provider only in `cause`. */
function describe(error: unknown): string {
  const { message, code, error: given } = error as { message?: string; code?: string; error?: string };
  return [message ?? 'unknown error', code, given].filter((part) => typeof part === 'string').join(' ');
}

/** Undefined for a claim that cannot be stored. */
export function identifierIn(claim: unknown): string | undefined {
  return typeof claim === 'string' && subjectShape.test(claim) ? claim : undefined;
}

/** The claims of the ID token and of UserInfo. `email_verified` is only about the address in the same document. */
function merged(own: Claims, more: Claims): Claims {
  const claims = { ...more, ...own };
  if (own.email === more.email) return claims;
  return { ...claims, email_verified: (own.email === undefined ? more : own).email_verified };
}
