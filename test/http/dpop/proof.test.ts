import { describe, expect, test } from 'bun:test';
import { createHmac } from 'node:crypto';
import { ProofError, ProofVerifier } from '../../../src/http/dpop/proof.ts';
import { encode, type ProofOptions, Prover, sha256 } from '../../support/dpop.ts';

const url = 'https://keys.example/tokens/card-42';
const key = 'slp_ses_example';
const prover = new Prover();
const request = { method: 'GET', url, ath: sha256(key), jkt: prover.jkt };

function verify(jwt: string, asked: Partial<typeof request> = {}): string {
  try {
    return new ProofVerifier().verify(jwt, { ...request, ...asked }, () => {}).jkt;
  } catch (error) {
    if (error instanceof ProofError) return error.message;
    throw error;
  }
}
const outcome = (options: Partial<ProofOptions>) => verify(prover.proof({ url, key, ...options }));

describe('a proof', () => {
  test.each(['ES256', 'EdDSA'] as const)('with %s is accepted, and its key has the thumbprint', (alg) => {
    const signer = new Prover(alg);
    expect(verify(signer.proof({ url, key }), { jkt: signer.jkt })).toBe(signer.jkt);
  });

  test('has the thumbprint of RFC 7638 for the key of RFC 9449', () => {
    const jwk = {
      kty: 'EC',
      crv: 'P-256',
      x: 'l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs',
      y: '9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA',
    };
    const thumbprint = '0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I';
    const jwt = prover.proof({ url, key, header: { jwk } });
    expect(verify(jwt, { jkt: thumbprint })).toBe('has an invalid signature');
    expect(verify(jwt)).toBe('is signed by another key');
  });

  test('with a key that is not on the curve is rejected before it is imported', () => {
    const { x = '' } = prover.jwk as { x?: string };
    const p = 'ffffffff00000001000000000000000000000000ffffffffffffffffffffffff';
    const tooLarge = Buffer.from(p, 'hex').toString('base64url');
    for (const wrong of [{ y: x }, { x: tooLarge }, { y: tooLarge }]) {
      const jwt = prover.proof({ url, key, header: { jwk: { ...prover.jwk, ...wrong } } });
      expect(verify(jwt)).toBe('has a `jwk` that is not a point of the curve');
      // After a failed import, Bun would throw its error again from this HMAC.
      expect(new Bun.CryptoHasher('sha256', new Uint8Array(32)).update('x').digest()).toHaveLength(32);
    }
  });

  test('with an Ed25519 key of small order is rejected, because its signatures can be forged', () => {
    const order8 = '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05';
    const itsNegative = 'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a';
    const nearPrime = (lowest: string) => `${lowest}${'ff'.repeat(30)}7f`;
    const [zero, one] = ['00', '01'].map((lowest) => lowest + '00'.repeat(31)) as [string, string];
    const points = [one, zero, order8, itsNegative, ...['ec', 'ed', 'ee'].map(nearPrime)];
    // A signature that is valid for every message under the key `one`: R is the neutral element, and S is 0.
    const forged = Buffer.from(one + zero, 'hex').toString('base64url');
    for (const point of points) {
      for (const sign of [0, 0x80]) {
        const bytes = Buffer.from(point, 'hex');
        bytes[31] = (bytes[31] as number) | sign;
        const jwk = { kty: 'OKP', crv: 'Ed25519', x: bytes.toString('base64url') };
        const jkt = sha256(JSON.stringify({ crv: jwk.crv, kty: jwk.kty, x: jwk.x }));
        const jwt = new Prover('EdDSA').proof({ url, key, header: { jwk } });
        expect(verify(jwt.replace(/[^.]*$/, forged), { jkt })).toBe(
          'has a `jwk` that is a point of small order',
        );
      }
    }
  });

  test('may have other members in its header and its claims', () => {
    const jwk = { ...prover.jwk, ext: true, key_ops: ['verify'], use: 'sig' };
    expect(outcome({ header: { jwk, kid: 'x' }, claims: { exp: 1, aud: 'x' } })).toBe(prover.jkt);
  });

  test.each<[string, Partial<ProofOptions>]>([
    ['is for another method', { method: 'POST' }],
    ['is for another method', { method: 'get' }],
    ['is for another URL', { url: `${url}3` }],
    ['is for another URL', { url: 'http://keys.example/tokens/card-42' }],
    ['is for another URL', { url: 'https://keys.example:8443/tokens/card-42' }],
    ['is for another URL', { url: 'https://user@keys.example/tokens/card-42' }],
    ['is for another URL', { url: '/tokens/card-42' }],
    ['is for another session key', { key: `${key}x` }],
    ['is for another session key', { key: undefined }],
    ['has no `htm`', { claims: { htm: undefined } }],
    ['has no `htu`', { claims: { htu: 1 } }],
    ['has no `iat`', { claims: { iat: undefined } }],
    ['has no `iat`', { claims: { iat: '1' } }],
    ['has no `jti`', { claims: { jti: undefined } }],
    ['has no `jti`', { claims: { jti: '' } }],
    ['has a `jti` that is too long', { claims: { jti: 'x'.repeat(257) } }],
    ['has a `nonce` that is not a string', { claims: { nonce: 1 } }],
    ['has another `typ` than dpop+jwt', { header: { typ: 'JWT' } }],
    ['has another `alg` than ES256 and EdDSA', { header: { alg: 'none' } }],
    ['has another `alg` than ES256 and EdDSA', { header: { alg: 'HS256' } }],
    ['has another `alg` than ES256 and EdDSA', { header: { alg: 'RS256' } }],
    ['has no `jwk`', { header: { jwk: undefined } }],
    ['has a `jwk` that is not a public key for its `alg`', { header: { alg: 'EdDSA' } }],
    ['has a `jwk` that is not a public key for its `alg`', { header: { jwk: { kty: 'oct' } } }],
    [
      'has a `jwk` that is not a point of the curve',
      { header: { jwk: { ...prover.jwk, x: 'A'.repeat(43) } } },
    ],
    ['has extensions in `crit`', { header: { crit: ['exp'], exp: 1 } }],
    ['is not one JWT', { claims: { jti: 'x'.repeat(4096) } }],
  ])('that %s is rejected', (reason, options) => {
    expect(outcome(options)).toBe(reason);
  });

  test.each(['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k', 'priv'])(
    'with the private member %p in its jwk is rejected',
    (member) => {
      const jwk = { ...prover.jwk, [member]: 'AAAA' };
      expect(outcome({ header: { jwk } })).toContain('private or symmetric key');
    },
  );

  test('signed by a key other than the one in its header is rejected', () => {
    expect(verify(new Prover().proof({ url, key, header: { jwk: prover.jwk } }))).toBe(
      'has an invalid signature',
    );
  });

  test('signed with the public key as a symmetric key is rejected', () => {
    const head = encode({ typ: 'dpop+jwt', alg: 'HS256', jwk: prover.jwk });
    const [, payload] = prover.proof({ url, key }).split('.');
    const mac = createHmac('sha256', JSON.stringify(prover.jwk)).update(`${head}.${payload}`);
    expect(verify(`${head}.${payload}.${mac.digest('base64url')}`)).toContain('another `alg`');
  });

  test('that was changed after signing is rejected, also if its key is known', () => {
    const verifier = new ProofVerifier();
    const jwt = prover.proof({ url, key });
    verifier.verify(jwt, request, () => {});
    const [head, , signature] = jwt.split('.');
    const payload = prover.proof({ url, key }).split('.')[1];
    for (const changed of [`${head}.${payload}.${signature}`, jwt.slice(0, -4)])
      expect(() => verifier.verify(changed, request, () => {})).toThrow('has an invalid signature');
  });

  test.each(['', 'x', 'a.b', 'a.b.c.d', '..', 'a..c', '{}', 'ä.b.c'])('%p is rejected', (jwt) => {
    expect(verify(jwt)).toMatch(/^is not (one|a) JWT$/);
  });

  test('sent twice is rejected', () => {
    const jwt = prover.proof({ url, key });
    expect(verify(`${jwt}, ${jwt}`)).toBe('is not one JWT');
  });

  test.each([
    'https://KEYS.example:443/tokens/card-42',
    `${url}?x=1#y`,
    'https://keys.example/tokens/%63ard-42',
  ])('for %s matches the URL after normalization', (htu) => {
    expect(outcome({ url: htu })).toBe(prover.jkt);
  });

  test('is checked for its nonce before its signature', () => {
    const forged = `${prover.proof({ url, key, nonce: 'n' }).split('.').slice(0, 2).join('.')}.AAAA`;
    const checked: unknown[] = [];
    const stop = (nonce: unknown) => {
      checked.push(nonce);
      throw new ProofError('is old', 'use_dpop_nonce');
    };
    expect(() => new ProofVerifier().verify(forged, request, stop)).toThrow('is old');
    expect(checked).toEqual(['n']);
  });
});
