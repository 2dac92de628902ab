/**
 * The proofs that this process has accepted, to refuse a replay. Other processes have their own memory.
 *
 * A proof is remembered while its nonce is accepted. Memory is bounded: if there are too many proofs, those
 * with the oldest nonces are forgotten, and from then on nonces of that age are refused. So a forgotten proof is never
 * accepted again, and clients with an older nonce get a new one. A process that starts also refuses older nonces.
 */
import { createHash } from 'node:crypto';
import { nonceLifetime } from './nonces.ts';

/** `nonce_too_old`: the proof may have been used before, so it needs a newer nonce. */
export type ProofUse = 'first' | 'replay' | 'nonce_too_old';

/** About 100 bytes each. */
export const maxProofs = 200_000;

/** Nonces are forgotten together with all others of the same second. */
const period = 1000;

export class UsedProofs {
  readonly #max: number;
  /** By the period of the nonce: the hash of the proof, with what it was used for. */
  readonly #periods = new Map<number, Map<string, string>>();
  #size = 0;
  /** Nonces that were issued earlier are refused. */
  #oldest: number | undefined;

  constructor(max = maxProofs) {
    this.#max = max;
  }

  /** Whether a nonce that was issued at `time` is recent enough. */
  accepts(time: number, now: number): boolean {
    // Later than `now` only if the clock was set back, or if a whole period was just forgotten.
    if (this.#oldest === undefined || this.#oldest > now + period) this.#oldest = now;
    return time >= this.#oldest;
  }

  /** Remembers a proof by its key and id. It may be used again for the same `purpose`, unless that is empty. */
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
    if (this.#size > this.#max) this.#forgetOldest();
    return 'first';
  }

  #addPeriod(at: number, now: number): Map<string, string> {
    for (const [other, proofs] of this.#periods) {
      if ((other + 1) * period > now - nonceLifetime) continue;
      this.#periods.delete(other);
      this.#size -= proofs.size;
    }
    const proofs = new Map<string, string>();
    this.#periods.set(at, proofs);
    return proofs;
  }

  #forgetOldest(): void {
    const first = Math.min(...this.#periods.keys());
    this.#size -= this.#periods.get(first)?.size ?? 0;
    this.#periods.delete(first);
    this.#oldest = Math.max(this.#oldest ?? 0, (first + 1) * period);
  }
}

function hash(text: string): string {
  return createHash('sha256').update(text).digest('latin1').slice(0, 16);
}
