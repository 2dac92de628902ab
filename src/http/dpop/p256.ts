/** Whether a public key is a point of the curve P-256: y² = x³ - 3x + b (mod p). */

const p = 2n ** 256n - 2n ** 224n + 2n ** 192n + 2n ** 96n - 1n;
const b = 0x5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604bn;

/** `x` and `y` are coordinates in base64url. */
export function isOnP256({ x, y }: { readonly x: string; readonly y: string }): boolean {
  const [left, right] = [coordinate(x), coordinate(y)];
  if (left === undefined || right === undefined) return false;
  return (right * right - (left * left * left - 3n * left + b)) % p === 0n;
}

function coordinate(text: string): bigint | undefined {
  const bytes = Buffer.from(text, 'base64url');
  if (bytes.length !== 32) return undefined;
  const value = BigInt(`0x${bytes.toString('hex')}`);
  return value < p ? value : undefined;
}
