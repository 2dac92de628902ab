/**
 * A DPoP proof (RFC 9449) is a JWT that the holder of a private key signs for one request. It contains the method and
 * the URL of the request and, for a bound session, the hash of the session key.
 */
import { z } from 'zod';
import type { ProofErrorCode } from '../../domain/dpop.ts';
import { isSmallOrderEd25519 } from './ed25519.ts';
import { isOnP256 } from './p256.ts';
import { sameUrl } from './proof-url.ts';

/** Why a proof is not accepted. The message continues "the proof …". It contains no value from the proof. */
export class ProofError extends Error {
  readonly code: ProofErrorCode;
  constructor(message: string, code: ProofErrorCode = 'invalid_dpop_proof') {
    super(message);
    this.code = code;
  }
}

/** The request that a proof must be for. */
export interface ProvenRequest {
  readonly method: string;
  /** Query and fragment are ignored. */
  readonly url: string;
  /** SHA-256 of the session key, in base64url. Undefined for a request without a session. */
  readonly ath?: string | undefined;
  /** The thumbprint of the key that must have signed the proof. Undefined if any key is accepted. */
  readonly jkt?: string | undefined;
}

export interface Proof {
  /** RFC 7638 thumbprint of the key that signed the proof. */
  readonly jkt: string;
  readonly jti: string;
  readonly nonce: string | undefined;
}

/** Maximum characters of a proof. A proof with a long URL has about 1,000. */
export const maxProofLength = 4096;
const maxJtiLength = 256;

const shape = /^([\w-]+)\.([\w-]+)\.[\w-]+$/;

const coordinate = z.string().regex(/^[\w-]{43}$/);
const PublicKey = z.union([
  z.object({ kty: z.literal('EC'), crv: z.literal('P-256'), x: coordinate, y: coordinate }),
  z.object({ kty: z.literal('OKP'), crv: z.literal('Ed25519'), x: coordinate }),
]);
/** Members of private and symmetric keys in RFC 7518 and RFC 8037. */
const secretMembers = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k', 'priv'];

const Header = z.object({
  typ: z.literal('dpop+jwt', 'has another `typ` than dpop+jwt'),
  alg: z.enum(['ES256', 'EdDSA'], 'has another `alg` than ES256 and EdDSA'),
  jwk: z.record(z.string(), z.unknown(), 'has no `jwk`'),
});

const Claims = z.object({
  htm: z.string('has no `htm`'),
  htu: z.string('has no `htu`'),
  iat: z.number('has no `iat`'),
  jti: z.string('has no `jti`').min(1, 'has no `jti`').max(maxJtiLength, 'has a `jti` that is too long'),
  nonce: z.string('has a `nonce` that is not a string').optional(),
  ath: z.string('has an `ath` that is not a string').optional(),
});

interface SigningKey {
  readonly jkt: string;
  /** Rejects if the signature is not valid. */
  readonly verify: (jwt: string) => Promise<unknown>;
}

/** Maximum imported keys in memory. When it is reached, all are dropped. */
const maxKeys = 10_000;

/** Verifies proofs. The caller checks that the nonce is recent and that the proof was not used before. */
export class ProofVerifier {
  /** Keys of valid proofs, by the encoded JWT header, which is the same in all proofs of a client. */
  readonly #keys = new Map<string, SigningKey>();

  /**
   * Throws `ProofError` if the proof is invalid. Calls `checkNonce`, which may throw too. Verifies the signature last,
   * because that is the slowest step.
   */
  async verify(
    jwt: string,
    request: ProvenRequest,
    checkNonce: (nonce: string | undefined) => void,
  ): Promise<Proof> {
    const [, header, payload] = jwt.length <= maxProofLength ? (shape.exec(jwt) ?? []) : [];
    if (header === undefined || payload === undefined) throw new ProofError('is not one JWT');
    const cached = this.#keys.get(header);
    const signer = cached ?? (await readSigningKey(header));
    const claims = parse(Claims, payload);
    checkClaims(claims, signer, request);
    checkNonce(claims.nonce);
    try {
      await signer.verify(jwt);
    } catch {
      throw new ProofError('has an invalid signature');
    }
    if (!cached) this.#save(header, signer);
    return { jkt: signer.jkt, jti: claims.jti, nonce: claims.nonce };
  }

  #save(header: string, signer: SigningKey): void {
    if (this.#keys.size >= maxKeys) this.#keys.clear();
    this.#keys.set(header, signer);
  }
}

/** Loads the library only when it is needed, because most installations have no bound sessions. */
async function readSigningKey(encodedHeader: string): Promise<SigningKey> {
  const { alg, jwk: given } = parse(Header, encodedHeader);
  if (secretMembers.some((member) => Object.hasOwn(given, member)))
    throw new ProofError('has a `jwk` with members of a private or symmetric key');
  const { data: jwk } = PublicKey.safeParse(given);
  if (jwk?.kty !== (alg === 'ES256' ? 'EC' : 'OKP'))
    throw new ProofError('has a `jwk` that is not a public key for its `alg`');
  // Invalid keys must not reach the import. If an import fails, Bun throws the error again from the next HMAC
  // computation, which can belong to another request.
  if (jwk.kty === 'EC' && !isOnP256(jwk))
    throw new ProofError('has a `jwk` that is not a point of the curve');
  if (jwk.kty === 'OKP' && isSmallOrderEd25519(jwk.x))
    throw new ProofError('has a `jwk` that is a point of small order');
  const { calculateJwkThumbprint, compactVerify, importJWK } = await import('jose');
  try {
    const key = await importJWK(jwk, alg);
    const verify = (jwt: string) => compactVerify(jwt, key, { algorithms: [alg] });
    return { jkt: await calculateJwkThumbprint(jwk), verify };
  } catch {
    throw new ProofError('has a `jwk` that cannot be imported');
  }
}

function checkClaims(
  { htm, htu, ath }: z.infer<typeof Claims>,
  { jkt }: SigningKey,
  request: ProvenRequest,
): void {
  if (request.jkt !== undefined && jkt !== request.jkt) throw new ProofError('is signed by another key');
  if (htm !== request.method) throw new ProofError('is for another method');
  if (!sameUrl(htu, request.url)) throw new ProofError('is for another URL');
  if (request.ath !== undefined && ath !== request.ath) throw new ProofError('is for another session key');
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

function parse<T>(schema: z.ZodType<T>, encoded: string): T {
  const { data, error } = schema.safeParse(decode(encoded));
  if (error) throw new ProofError(error.issues[0]?.message ?? 'is not valid');
  return data as T;
}

function decode(encoded: string): unknown {
  try {
    return JSON.parse(utf8.decode(Buffer.from(encoded, 'base64url')));
  } catch {
    throw new ProofError('is not a JWT');
  }
}
