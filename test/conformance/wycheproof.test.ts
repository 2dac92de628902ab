/**
 * Test vectors of Project Wycheproof against the functions with which the service verifies, decrypts and authenticates.
 * The vectors are a selection, see the first lines of the file.
 */
import { describe, expect, test } from 'bun:test';
import { createPrivateKey, sign } from 'node:crypto';
import { decrypt } from '../../src/db/keys/cipher.ts';
import { ProofError, readSigningKey } from '../../src/http/dpop/proof.ts';
import { decodeClaims, IssuerKeys, JwtRefusal } from '../../src/http/oauth/issuer-keys.ts';
import { hmac } from '../../src/store/token-search.ts';
import { encode } from '../support/dpop.ts';
import vectors from './wycheproof.json';

type Jwk = JsonWebKey & { kid?: string; alg?: string };
type SignatureTest = [id: number, comment: string, message: string, signature: string, isValid: boolean];
type JwsTest = [id: number, comment: string, jws: string, isValid: boolean];

const hex = (text: string) => Buffer.from(text, 'hex');
/** The functions take texts, but pass bytes on unchanged. */
const asText = (text: string) => hex(text) as unknown as string;

describe.each(['ES256', 'EdDSA'] as const)('signatures of DPoP proofs with %s', (alg) => {
  test.each(vectors[alg].map((group, index) => [index + 1, group] as const))(
    'group %p',
    (_, { key, tests }) => {
      const verifies = verifierOf(alg, key as Jwk);
      for (const [id, comment, message, signature, isValid] of tests as SignatureTest[]) {
        const isAccepted = verifies(asText(message), hex(signature).toString('base64url'));
        expect([id, comment, isAccepted]).toEqual([id, comment, isValid]);
      }
    },
  );
});

/** A key that is refused verifies nothing. */
function verifierOf(alg: string, jwk: Jwk): (signed: string, signature: string) => boolean {
  try {
    return readSigningKey(encode({ typ: 'dpop+jwt', alg, jwk })).verifies;
  } catch (error) {
    if (error instanceof ProofError) return () => false;
    throw error;
  }
}

test('AES-256-GCM decrypts valid ciphertexts with nonces of 12 bytes, and nothing else', () => {
  type Test = [
    number,
    string,
    key: string,
    nonce: string,
    aad: string,
    text: string,
    cipher: string,
    tag: string,
    boolean,
  ];
  for (const [id, comment, key, nonce, aad, text, cipher, tag, isValid] of vectors['AES-256-GCM'] as Test[]) {
    const plaintext = decrypt(hex(key), asText(aad), hex(nonce + cipher + tag))?.toString('hex');
    const hasOurNonce = nonce.length === 24;
    expect([id, comment, plaintext]).toEqual([id, comment, isValid && hasOurNonce ? text : undefined]);
  }
});

test('HMAC-SHA256 computes the valid tags, and never an invalid one', () => {
  type Test = [number, string, key: string, text: string, tag: string, boolean];
  for (const [id, comment, key, text, tag, isValid] of vectors['HMAC-SHA256'] as Test[]) {
    const isEqual = hmac(hex(key), asText(text)).toString('hex') === tag;
    expect([id, comment, isEqual]).toEqual([id, comment, isValid]);
  }
});

const now = Date.parse('2026-01-01T00:00:00Z');
const issuer = {
  issuer: 'https://issuer.example',
  audience: 'sallyport',
  jwks_uri: 'https://issuer.example/jwks',
};
const claims = { iss: issuer.issuer, aud: issuer.audience, sub: 'x', exp: now / 1000 + 60 };

/** Like the endpoints: a JWT whose header or claims cannot be read is refused before its signature is checked. */
async function outcome(jwt: string, keys: readonly Jwk[]): Promise<unknown> {
  const document = JSON.stringify({ keys });
  const verifier = new IssuerKeys(
    async () => document,
    () => now,
    { warn: () => {} },
  );
  try {
    await verifier.verify(jwt, issuer, now);
    return 'accepted';
  } catch (error) {
    if (error instanceof JwtRefusal) return 'refused';
    const refusal = await decodeClaims(jwt).catch((reason: unknown) => reason);
    return refusal instanceof JwtRefusal ? 'refused' : error;
  }
}

/** A JWT with all claims that the service requires, signed with the private key of a vector. */
function signed(jwk: Jwk): string {
  const { alg = '', kid } = jwk;
  const text = `${encode({ alg, kid, typ: 'JWT' })}.${encode(claims)}`;
  const key = createPrivateKey({ key: jwk, format: 'jwk' });
  const options = alg.startsWith('PS') ? { padding: 6, saltLength: Number(alg.slice(2)) / 8 } : {};
  const hash = `sha${/[0-9]{3}$/.exec(alg)?.[0]}`;
  const signature = sign(hash, Buffer.from(text), { key, dsaEncoding: 'ieee-p1363', ...options });
  return `${text}.${signature.toString('base64url')}`;
}

interface KeySetGroup {
  readonly name: string;
  readonly keys: readonly Jwk[];
  readonly tests: readonly JwsTest[];
}
const { JWS, JWK } = vectors as unknown as { JWS: (KeySetGroup & { key: Jwk })[]; JWK: KeySetGroup[] };
const keySets = [...JWS.map((group) => ({ ...group, keys: [group.key] })), ...JWK];

/** Key sets whose keys must be refused for valid claims too. The private keys of all other invalid ones are unusable. */
const refusedKeys = ['keysize_too_small', 'invalid_algorithm', 'invalid_use'];
/** The algorithms and curves that the service supports. */
const isSupported = ({ alg = '' }: Jwk) => /^(ES256|[RP]S(256|384|512))$/.test(alg);
const isSound = ({ name, keys, tests }: KeySetGroup) =>
  keys.every(isSupported) && (tests.some(([, , , isValid]) => isValid) || refusedKeys.includes(name));

describe('JWTs of trusted issuers', () => {
  test.each(keySets.map((group) => [group.name, group] as const))(
    '%s: no JWS of the vectors is accepted, because none has claims',
    async (_, { keys, tests }) => {
      for (const [id, comment, jws] of tests)
        expect([id, comment, await outcome(jws, keys)]).toEqual([id, comment, 'refused']);
    },
  );

  test.each(keySets.filter(isSound).map((group) => [group.name, group] as const))(
    '%s: claims that the key signed are accepted, unless the key must be refused',
    async (name, { keys }) => {
      const [key] = keys as [Jwk];
      expect(await outcome(signed(key), keys)).toBe(refusedKeys.includes(name) ? 'refused' : 'accepted');
    },
  );

  test('a key with the ROCA weakness is accepted: the service trusts the keys that an issuer publishes', async () => {
    const { keys } = JWK.find(({ name }) => name === 'jws_rsa_roca_key') as KeySetGroup;
    expect(await outcome(signed(keys[0] as Jwk), keys)).toBe('accepted');
  });
});
