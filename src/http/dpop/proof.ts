/**
 * A DPoP proof (RFC 9449) is a JWT that the holder of a private key signs for one request. It contains the method and
 * the URL of the request and, for a bound session, the hash of the session key.
 */
import { createHash, createPublicKey, verify } from 'node:crypto';
import { z } from 'zod';
import type { ProofErrorCode } from '../../domain/dpop.ts';

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
const maxProofLength = 4096;
const maxJtiLength = 256;

const shape = /^([\w-]+)\.([\w-]+)\.([\w-]+)$/;

const coordinate = z.string().regex(/^[\w-]{43}$/);
export const PublicKey = z.union([
  z.object({ kty: z.literal('EC'), crv: z.literal('P-256'), x: coordinate, y: coordinate }),
  z.object({ kty: z.literal('OKP'), crv: z.literal('Ed25519'), x: coordinate }),
]);
/** Members of private and symmetric keys in RFC 7518 and RFC 8037. */
const secretMembers = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k', 'priv'];

const Header = z.object({
  typ: z.literal('dpop+jwt', 'has another `typ` than dpop+jwt'),
  alg: z.enum(['ES256', 'EdDSA'], 'has another `alg` than ES256 and EdDSA'),
  jwk: z.record(z.string(), z.unknown(), 'has no `jwk`'),
  crit: z.undefined('has extensions in `crit`').optional(),
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
  readonly verifies: (signed: string, signature: string) => boolean;
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
  verify(jwt: string, request: ProvenRequest, checkNonce: (nonce: string | undefined) => void): Proof {
    const [, header, payload, signature] = jwt.length <= maxProofLength ? (shape.exec(jwt) ?? []) : [];
    if (header === undefined || payload === undefined || signature === undefined)
      throw new ProofError('is not one JWT');
    const cached = this.#keys.get(header);
    const signer = cached ?? readSigningKey(header);
    const claims = parse(Claims, payload);
    checkClaims(claims, signer, request);
    checkNonce(claims.nonce);
    if (!signer.verifies(`${header}.${payload}`, signature)) throw new ProofError('has an invalid signature');
    if (!cached) this.#save(header, signer);
    return { jkt: signer.jkt, jti: claims.jti, nonce: claims.nonce };
  }

  #save(header: string, signer: SigningKey): void {
    if (this.#keys.size >= maxKeys) this.#keys.clear();
    this.#keys.set(header, signer);
  }
}

export function readSigningKey(encodedHeader: string): SigningKey {
  const { alg, jwk: given } = parse(Header, encodedHeader);
  if (secretMembers.some((member) => Object.hasOwn(given, member)))
    throw new ProofError('has a `jwk` with members of a private or symmetric key');
  const { data: jwk } = PublicKey.safeParse(given);
  if (jwk?.kty !== (alg === 'ES256' ? 'EC' : 'OKP'))
    throw new ProofError('has a `jwk` that is not a public key for its `alg`');
  const problem = pointProblem(jwk);
  if (problem !== undefined) throw new ProofError(`has a \`jwk\` that is ${problem}`);
  const key = { key: createPublicKey({ key: jwk, format: 'jwk' }), dsaEncoding: 'ieee-p1363' } as const;
  const hash = alg === 'ES256' ? 'sha256' : null;
  return {
    jkt: thumbprint(jwk),
    verifies: (signed, signature) =>
      verify(hash, Buffer.from(signed), key, Buffer.from(signature, 'base64url')),
  };
}

/** RFC 7638: the hash of the required members in alphabetical order. */
function thumbprint({ crv, kty, x, ...rest }: z.infer<typeof PublicKey>): string {
  return createHash('sha256')
    .update(JSON.stringify({ crv, kty, x, ...rest }))
    .digest('base64url');
}

/**
 * Says what is wrong with the point of a public key. Invalid keys must not be imported: if an import fails, Bun throws
 * the error again from the next HMAC computation, which can belong to another request.
 */
export function pointProblem(jwk: z.infer<typeof PublicKey>): string | undefined {
  if (jwk.kty === 'EC') return isOnP256(jwk) ? undefined : 'not a point of the curve';
  return isSmallOrderEd25519(jwk.x) ? 'a point of small order' : undefined;
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

const p25519 = 2n ** 255n - 19n;

/** The eight points of order 1, 2, 4 or 8 have five y coordinates: 1, -1, 0, `order8` and its negative. */
const order8 = 0x05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826n;
const smallOrderY: ReadonlySet<bigint> = new Set([1n, p25519 - 1n, 0n, order8, p25519 - order8]);

/**
 * Detects Ed25519 public keys that are points of small order. Anyone can compute signatures that such a key accepts for
 * many messages, without a private key. A proof that is signed with such a key proves nothing.
 *
 * `x` of the JWK: in base64url, the y coordinate (little endian) and the sign of the x coordinate (highest bit).
 */
function isSmallOrderEd25519(x: string): boolean {
  const bytes = Buffer.from(x, 'base64url').reverse();
  const y = BigInt(`0x${bytes.toString('hex')}`) & (2n ** 255n - 1n);
  // Encodings of y + p25519 denote the same point.
  return smallOrderY.has(y % p25519);
}

/** Whether both are the same http or https URL, without query and fragment, after normalization (RFC 3986). */
function sameUrl(one: string, other: string): boolean {
  const normalized = normalize(other);
  return normalized !== undefined && normalize(one) === normalized;
}

/** Returns undefined if the text is not an absolute http or https URL, or has credentials. */
function normalize(text: string): string | undefined {
  const url = URL.parse(text);
  if (!url || !/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '') return undefined;
  return url.origin + url.pathname.replace(/%[0-9a-f]{2}/gi, normalizeEscape);
}

/** Percent-encoded unreserved characters equal the characters themselves. */
function normalizeEscape(encoded: string): string {
  const character = String.fromCharCode(Number.parseInt(encoded.slice(1), 16));
  return /[A-Za-z0-9._~-]/.test(character) ? character : encoded.toUpperCase();
}

const pP256 = 2n ** 256n - 2n ** 224n + 2n ** 192n + 2n ** 96n - 1n;
const bP256 = 0x5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604bn;

/**
 * Whether a public key is a point of the curve P-256: y² = x³ - 3x + b (mod p).
 *
 * `x` and `y` are coordinates in base64url.
 */
function isOnP256({ x, y }: { readonly x: string; readonly y: string }): boolean {
  const [left, right] = [toNumber(x), toNumber(y)];
  if (left === undefined || right === undefined) return false;
  return (right * right - (left * left * left - 3n * left + bP256)) % pP256 === 0n;
}

function toNumber(text: string): bigint | undefined {
  const bytes = Buffer.from(text, 'base64url');
  if (bytes.length !== 32) return undefined;
  const value = BigInt(`0x${bytes.toString('hex')}`);
  return value < pP256 ? value : undefined;
}
