/**
 * Detects Ed25519 public keys that are points of small order. Anyone can compute signatures that such a key accepts for
 * many messages, without a private key. A proof that is signed with such a key proves nothing.
 */

const p = 2n ** 255n - 19n;

/** The eight points of order 1, 2, 4 or 8 have five y coordinates: 1, -1, 0, `order8` and its negative. */
const order8 = 0x05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826n;
const smallOrderY: ReadonlySet<bigint> = new Set([1n, p - 1n, 0n, order8, p - order8]);

/** `x` of the JWK: in base64url, the y coordinate (little endian) and the sign of the x coordinate (highest bit). */
export function isSmallOrderEd25519(x: string): boolean {
  const bytes = Buffer.from(x, 'base64url').reverse();
  const y = BigInt(`0x${bytes.toString('hex')}`) & (2n ** 255n - 1n);
  // Encodings of y + p denote the same point.
  return smallOrderY.has(y % p);
}
