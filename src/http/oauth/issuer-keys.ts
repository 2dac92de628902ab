/**
 * The public keys of trusted issuers, from their discovery documents (OpenID Connect Discovery) and JSON Web Key Sets.
 * They are cached, so that an issuer that cannot be reached does not stop workloads.
 */
import type { JWK } from 'jose';
import { z } from 'zod';
import { clockTolerance, type TrustedIssuer } from '../../domain/trusted-issuer.ts';
import type { Log } from '../../telemetry/log.ts';
import { PublicKey, pointProblem } from '../dpop/proof.ts';

type Issuer = Pick<TrustedIssuer, 'issuer' | 'audience' | 'jwks_uri'>;

/** Returns the body of a response with the status 200. Throws otherwise. */
export type FetchDocument = (url: URL) => Promise<string>;

/** Milliseconds after which keys are fetched again. A key that the issuer has removed is accepted that long. */
const refreshAfter = 600_000;
/** Milliseconds for which known keys are used while the issuer cannot be reached. */
const maxAge = 24 * 3_600_000;
/** Minimum milliseconds between two attempts, so that JWTs with unknown keys cause few requests. */
const retryAfter = 30_000;
/** Maximum issuers in memory. The least recently used one is dropped. */
const maxIssuers = 1000;
const maxKeys = 100;

/**
 * Asymmetric signatures only, by the type of their key. A MAC would need a secret, and issuers publish none. Bun must
 * not import other curves, see `pointProblem`.
 */
const algorithms: Readonly<Record<string, readonly string[]>> = {
  RSA: ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  EC: ['ES256'],
  OKP: ['EdDSA', 'Ed25519'],
};

/** Milliseconds after which a logout token is refused. Providers send it immediately, and may repeat it after a failure. */
export const maxLogoutAge = 300_000;

/** The `typ` and the claims of the JWTs that are accepted. Older providers send logout tokens with the type JWT. */
const uses = {
  identity: { types: /^(jwt|jose)$/i, requiredClaims: ['exp', 'sub'] },
  logout: {
    types: /^(jwt|logout\+jwt)$/i,
    requiredClaims: ['exp', 'jti', 'events'],
    maxTokenAge: maxLogoutAge / 1000,
  },
};

const Discovery = z.object({ issuer: z.string(), jwks_uri: z.string() });
const KeySet = z.object({ keys: z.array(z.unknown()).max(maxKeys) });
const usage = {
  kid: z.string().optional(),
  alg: z.string().optional(),
  use: z.literal('sig').optional(),
};
/** A modulus of 2048 to 8192 bits. Every issuer uses this exponent; with 1, anyone could sign. */
const RsaKey = z.object({
  kty: z.literal('RSA'),
  n: z.string().regex(/^[\w-]{342,1366}$/),
  e: z.literal('AQAB'),
  ...usage,
});
const [EcKey, OkpKey] = PublicKey.options;
const Jwk = z.union([RsaKey, EcKey.extend(usage), OkpKey.extend(usage)]);
type Jwk = z.infer<typeof Jwk>;

interface JwtHeader {
  readonly alg: string;
  readonly kid?: string | undefined;
}

interface KnownKeys {
  keys: readonly Jwk[];
  /** When the keys were fetched. Undefined before the first success. */
  fetchedAt: number | undefined;
  triedAt: number | undefined;
  fetching: Promise<void> | undefined;
}

/** A refused JWT. The message continues "the JWT was refused: …", and is only for the audit log. */
export class JwtRefusal extends Error {}

export type Claims = Readonly<Record<string, unknown>>;

/** The claims of a JWT, not verified. Throws `JwtRefusal` if it is not a JWT. */
export async function decodeClaims(jwt: string): Promise<Claims> {
  const { decodeJwt, decodeProtectedHeader } = await import('jose');
  try {
    decodeProtectedHeader(jwt);
    return decodeJwt(jwt);
  } catch {
    throw new JwtRefusal('it is not a JWT');
  }
}

/** No keys of the issuer are known, and it cannot be reached. */
export class IssuerUnreachable extends Error {}

export class IssuerKeys {
  readonly #known = new Map<string, KnownKeys>();
  readonly #fetch: FetchDocument;
  readonly #now: () => number;
  readonly #log: Pick<Log, 'warn'>;

  constructor(fetch: FetchDocument, now: () => number, log: Pick<Log, 'warn'>) {
    this.#fetch = fetch;
    this.#now = now;
    this.#log = log;
  }

  /** Throws `JwtRefusal` if the issuer did not sign the JWT, and `IssuerUnreachable`. */
  async verify(jwt: string, issuer: Issuer, now: number, use: keyof typeof uses = 'identity'): Promise<void> {
    const { decodeProtectedHeader, jwtVerify } = await import('jose');
    const { alg = '', kid, typ = 'JWT' } = decodeProtectedHeader(jwt);
    if (!Object.values(algorithms).flat().includes(alg)) throw new JwtRefusal('its algorithm is not allowed');
    const { types, ...required } = uses[use];
    if (!types.test(typ)) throw new JwtRefusal('its typ is not JWT');
    const key = await this.#find(issuer, { alg, kid });
    if (!key) throw new JwtRefusal('the issuer has no key for its header');
    try {
      await jwtVerify(jwt, key, {
        algorithms: [alg],
        issuer: issuer.issuer,
        audience: issuer.audience,
        currentDate: new Date(now),
        clockTolerance: clockTolerance / 1000,
        ...required,
      });
    } catch {
      throw new JwtRefusal(
        `its ${use === 'logout' ? 'signature, time or a claim' : 'signature'} is not valid`,
      );
    }
  }

  /** The key that can have signed a JWT with this header. Undefined if the issuer has none. */
  async #find(issuer: Issuer, header: JwtHeader): Promise<JWK | undefined> {
    const known = this.#entryOf(issuer);
    const isFresh = known.fetchedAt !== undefined && this.#now() - known.fetchedAt < refreshAfter;
    if (!isFresh || !signerOf(known.keys, header)) await this.#refresh(issuer, known);
    if (known.fetchedAt === undefined || this.#now() - known.fetchedAt >= maxAge)
      throw new IssuerUnreachable(`the keys of ${issuer.issuer} are not known`);
    return signerOf(known.keys, header) as JWK | undefined;
  }

  #entryOf({ issuer, jwks_uri }: Issuer): KnownKeys {
    const name = `${issuer} ${jwks_uri ?? ''}`;
    const known = this.#known.get(name) ?? {
      keys: [],
      fetchedAt: undefined,
      triedAt: undefined,
      fetching: undefined,
    };
    this.#known.delete(name);
    this.#known.set(name, known);
    if (this.#known.size > maxIssuers) this.#known.delete(this.#known.keys().next().value as string);
    return known;
  }

  /** Concurrent calls share a request. Never rejects. */
  #refresh(issuer: Issuer, known: KnownKeys): Promise<void> {
    if (known.fetching) return known.fetching;
    const time = this.#now();
    if (known.triedAt !== undefined && time - known.triedAt < retryAfter) return Promise.resolve();
    known.triedAt = time;
    const fetch = async () => {
      try {
        known.keys = await this.#fetchKeys(issuer);
        known.fetchedAt = time;
      } catch (error) {
        this.#log.warn('could not fetch the keys of a trusted issuer', { issuer: issuer.issuer, error });
      } finally {
        known.fetching = undefined;
      }
    };
    known.fetching = fetch();
    return known.fetching;
  }

  async #fetchKeys(issuer: Issuer): Promise<readonly Jwk[]> {
    const url = issuer.jwks_uri ?? (await this.#discover(issuer.issuer));
    const { keys } = KeySet.parse(JSON.parse(await this.#fetch(new URL(url))));
    const usable = keys.flatMap((key) => Jwk.safeParse(key).data ?? []);
    return usable.filter((key) => key.kty === 'RSA' || pointProblem(key) === undefined);
  }

  /** The host is pinned: the keys must be on the origin of the issuer. */
  async #discover(issuer: string): Promise<string> {
    const url = new URL(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`);
    const found = Discovery.parse(JSON.parse(await this.#fetch(url)));
    if (found.issuer !== issuer) throw new Error(`the discovery document is of another issuer`);
    if (new URL(found.jwks_uri).origin !== url.origin)
      throw new Error(`jwks_uri is on another host: if that is correct, set jwks_uri of the trusted issuer`);
    return found.jwks_uri;
  }
}

/** Without a `kid`, the key must be the only one for the algorithm. */
function signerOf(keys: readonly Jwk[], { alg, kid }: JwtHeader): Jwk | undefined {
  const fitting = keys.filter((key) => algorithms[key.kty]?.includes(alg) && (key.alg ?? alg) === alg);
  if (kid === undefined) return fitting.length === 1 ? fitting[0] : undefined;
  return fitting.find((key) => key.kid === kid);
}
