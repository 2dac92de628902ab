/** Checks proofs: signature and claims, the age of the nonce, and whether the proof was used before. */

import { createHash, hkdfSync, timingSafeEqual } from 'node:crypto';
import { type Proof, ProofError, ProofVerifier, type ProvenRequest } from './proof.ts';

const timeBytes = 6;
const macBytes = 16;

/** Milliseconds for which a nonce is accepted. */
export const nonceLifetime = 120_000;
/** Milliseconds after which a nonce is still accepted, but the response contains a new one. */
const nonceRenewal = nonceLifetime / 2;

/**
 * A server nonce (RFC 9449, section 8) is the time at which it was issued, with a MAC. Every node computes the same
 * MAC, so nodes accept each other's nonces without storing them. The age of a proof is that of its nonce, by the clock
 * of the database. The clock of the browser (`iat`) is ignored.
 */
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

/** `nonce_too_old`: the proof may have been used before, so it needs a newer nonce. */
type ProofUse = 'first' | 'replay' | 'nonce_too_old';

/** Maximum proofs in memory, about 100 bytes each. */
const maxProofs = 200_000;

/** Proofs are dropped together with all others whose nonces were issued in the same second. */
const period = 1000;

/**
 * The proofs that this process has accepted, to refuse replays. Processes do not share them.
 *
 * Invariant: every accepted proof whose nonce was issued at `#oldest` or later is in memory, and proofs with an older
 * nonce are refused. Dropping proofs raises `#oldest`, so a dropped proof is never accepted again. This also holds for
 * concurrent requests, which may read the clock in any order. Clients with an older nonce get a new one.
 *
 * Proofs are dropped when their nonce has expired, and when there are too many. A process sets `#oldest` to the time of
 * its first request. If the clock is set back, `#oldest` can be in the future, and new nonces are refused until then.
 * If `#oldest` is further ahead than the lifetime of a nonce, the process drops all proofs and sets `#oldest` to the
 * current time. It can then accept an earlier proof once more, if the clock has shown that time before.
 */
export class UsedProofs {
  readonly #max: number;
  /** For each period in which nonces were issued: hashes of proofs, each with the hash of its purpose. */
  readonly #periods = new Map<number, Map<string, string>>();
  #size = 0;
  /** Nonces that were issued before this time are refused. */
  #oldest: number | undefined;

  constructor(max = maxProofs) {
    this.#max = max;
  }

  /** Whether a nonce that was issued at `time` is recent enough. */
  accepts(time: number, now: number): boolean {
    if (this.#oldest === undefined || this.#oldest > now + nonceLifetime) this.#startOver(now);
    return time >= (this.#oldest as number);
  }

  /** Records a proof by its key and id. The proof may be used again with the same `purpose`, if that is not empty. */
  use({ jkt, jti }: { jkt: string; jti: string }, purpose: string, time: number, now: number): ProofUse {
    if (!this.accepts(time, now)) return 'nonce_too_old';
    const at = Math.floor(time / period);
    const proofs = this.#periods.get(at) ?? this.#addPeriod(at, now);
    const name = hash(`${jkt} ${jti}`);
    const purposeHash = purpose === '' ? '' : hash(purpose);
    const earlier = proofs.get(name);
    if (earlier !== undefined) return purpose !== '' && earlier === purposeHash ? 'first' : 'replay';
    proofs.set(name, purposeHash);
    this.#size++;
    if (this.#size > this.#max) this.#drop(Math.min(...this.#periods.keys()));
    return 'first';
  }

  #startOver(now: number): void {
    this.#periods.clear();
    this.#size = 0;
    this.#oldest = now;
  }

  #addPeriod(at: number, now: number): Map<string, string> {
    for (const other of this.#periods.keys()) if (endOf(other) <= now - nonceLifetime) this.#drop(other);
    const proofs = new Map<string, string>();
    this.#periods.set(at, proofs);
    return proofs;
  }

  #drop(at: number): void {
    this.#oldest = Math.max(this.#oldest ?? 0, endOf(at));
    this.#size -= this.#periods.get(at)?.size ?? 0;
    this.#periods.delete(at);
  }
}

function endOf(at: number): number {
  return (at + 1) * period;
}

function hash(text: string): string {
  return createHash('sha256').update(text).digest('latin1').slice(0, 16);
}

export class Proofs {
  readonly #verifier = new ProofVerifier();
  readonly #used = new UsedProofs();
  readonly #nonces: ServerNonces;

  /**
   * `secret` must be the same on all nodes. The service uses the key of the audit chain, which the master key wraps and
   * which does not change when the master key is rotated.
   */
  constructor(secret: Uint8Array) {
    this.#nonces = new ServerNonces(secret);
  }

  newNonce(now: number): string {
    this.#used.accepts(now, now);
    return this.#nonces.issue(now);
  }

  /**
   * Throws `ProofError` if the proof is not valid for this request, has no recent nonce, or was used before. Returns a
   * new nonce if the client should replace its own. A proof may be used again for the same non-empty `purpose`.
   */
  check(jwt: string, request: ProvenRequest, now: number, purpose = ''): { newNonce: string | undefined } {
    let time = 0;
    const proof = this.#verifier.verify(jwt, request, (nonce) => {
      time = this.#timeOf(nonce, now);
    });
    const use = this.#used.use(proof, purpose, time, now);
    if (use === 'replay') throw new ProofError('was used before');
    if (use === 'nonce_too_old') throw oldNonce();
    return { newNonce: now - time > nonceRenewal ? this.newNonce(now) : undefined };
  }

  /**
   * Throws `ProofError` if the proof is not valid for a request that creates a session. The proof needs no nonce and
   * may be replayed: a session that an attacker creates with it is useless without the client's private key.
   */
  checkNewKey(jwt: string, request: ProvenRequest, now: number): Proof {
    return this.#verifier.verify(jwt, request, (nonce) => {
      if (nonce !== undefined) this.#timeOf(nonce, now);
    });
  }

  /** Returns when the nonce was issued. Throws `ProofError` if it is missing, forged or too old. */
  #timeOf(nonce: string | undefined, now: number): number {
    if (nonce === undefined) throw new ProofError('has no `nonce`', 'use_dpop_nonce');
    const time = this.#nonces.timeOf(nonce, now);
    if (time === undefined || !this.#used.accepts(time, now)) throw oldNonce();
    return time;
  }
}

function oldNonce(): ProofError {
  return new ProofError('has a `nonce` that is not valid or too old', 'use_dpop_nonce');
}
