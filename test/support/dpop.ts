/** Makes DPoP proofs, valid and forged. Does not use the library that the service uses. */
import { createHash, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';

export interface ProofOptions {
  readonly method?: string;
  readonly url: string;
  /** The session key. Without it, the proof has no `ath`. */
  readonly key?: string | undefined;
  readonly nonce?: string | undefined;
  /** Replace or remove claims and members of the header. */
  readonly claims?: Record<string, unknown>;
  readonly header?: Record<string, unknown>;
}

export function encode(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}

export function sha256(text: string): string {
  return createHash('sha256').update(text).digest('base64url');
}

/** A client with a key pair. */
export class Prover {
  readonly alg: 'ES256' | 'EdDSA';
  readonly privateKey: KeyObject;
  readonly jwk: Record<string, string>;

  constructor(alg: 'ES256' | 'EdDSA' = 'ES256') {
    const { privateKey, publicKey } =
      alg === 'ES256' ? generateKeyPairSync('ec', { namedCurve: 'P-256' }) : generateKeyPairSync('ed25519');
    this.alg = alg;
    this.privateKey = privateKey;
    this.jwk = publicKey.export({ format: 'jwk' }) as Record<string, string>;
  }

  /** RFC 7638: the required members in alphabetical order. */
  get jkt(): string {
    const { crv, kty, x, y } = this.jwk;
    return sha256(JSON.stringify({ crv, kty, x, ...(y && { y }) }));
  }

  proof({ method = 'GET', url, key, nonce, claims, header }: ProofOptions): string {
    const head = encode({ typ: 'dpop+jwt', alg: this.alg, jwk: this.jwk, ...header });
    const payload = encode({
      htm: method,
      htu: url,
      iat: 1,
      jti: crypto.randomUUID(),
      ...(key !== undefined && { ath: sha256(key) }),
      ...(nonce !== undefined && { nonce }),
      ...claims,
    });
    return `${head}.${payload}.${this.sign(`${head}.${payload}`)}`;
  }

  sign(text: string): string {
    const options = { key: this.privateKey, dsaEncoding: 'ieee-p1363' as const };
    return sign(this.alg === 'ES256' ? 'sha256' : null, Buffer.from(text), options).toString('base64url');
  }
}
