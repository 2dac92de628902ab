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
import { createHash } from 'node:crypto';
import { nonceLifetime } from './nonces.ts';

/** `nonce_too_old`: the proof may have been used before, so it needs a newer nonce. */
export type ProofUse = 'first' | 'replay' | 'nonce_too_old';

/** Maximum proofs in memory, about 100 bytes each. */
export const maxProofs = 200_000;

/** Proofs are dropped together with all others whose nonces were issued in the same second. */
const period = 1000;

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
    for (const other of this.#periods.keys()) {
      if (endOf(other) <= now - nonceLifetime) this.#drop(other);
    }
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
