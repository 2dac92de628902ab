/**
 * A server nonce (RFC 9449, section 8) is the time at which it was issued, with a MAC. Every node computes the same
 * MAC, so nodes accept each other's nonces without storing them. The age of a proof is that of its nonce, by the clock
 * of the database. The clock of the browser (`iat`) is ignored.
 */
import { hkdfSync, timingSafeEqual } from 'node:crypto';

const timeBytes = 6;
const macBytes = 16;

/** Milliseconds for which a nonce is accepted. */
export const nonceLifetime = 120_000;
/** Milliseconds after which a nonce is still accepted, but the response contains a new one. */
export const nonceRenewal = nonceLifetime / 2;

export class ServerNonces {
  readonly #key: Uint8Array;

  constructor(secret: Uint8Array) {
    this.#key = new Uint8Array(hkdfSync('sha256', secret, '', 'sallyport dpop nonce', 32));
  }

  issue(now: number): string {
    const bytes = Buffer.alloc(timeBytes + macBytes);
    bytes.writeUIntBE(now, 0, timeBytes);
    bytes.set(this.#mac(bytes.subarray(0, timeBytes)), timeBytes);
    return bytes.toString('base64url');
  }

  /** Returns when the nonce was issued. Undefined if it is forged or has expired. */
  timeOf(nonce: string, now: number): number | undefined {
    const bytes = Buffer.from(nonce, 'base64url');
    if (bytes.length !== timeBytes + macBytes) return undefined;
    const expected = this.#mac(bytes.subarray(0, timeBytes));
    if (!timingSafeEqual(expected, bytes.subarray(timeBytes))) return undefined;
    const time = bytes.readUIntBE(0, timeBytes);
    // The time may be slightly later than `now`, because concurrent requests read the clock in any order.
    return Math.abs(now - time) < nonceLifetime ? time : undefined;
  }

  #mac(time: Uint8Array): Uint8Array {
    return new Bun.CryptoHasher('sha256', this.#key).update(time).digest().subarray(0, macBytes);
  }
}
