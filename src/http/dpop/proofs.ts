/** Checks proofs: signature and claims, the age of the nonce, and whether the proof was used before. */
import { nonceRenewal, ServerNonces } from './nonces.ts';
import { type Proof, ProofError, ProofVerifier, type ProvenRequest } from './proof.ts';
import { UsedProofs } from './used-proofs.ts';

export class Proofs {
  readonly #verifier = new ProofVerifier();
  readonly #used: UsedProofs;
  readonly #nonces: ServerNonces;

  /**
   * `secret` must be the same on all nodes. The service uses the key of the audit chain, which the master key wraps and
   * which does not change when the master key is rotated.
   */
  constructor(secret: Uint8Array, used = new UsedProofs()) {
    this.#nonces = new ServerNonces(secret);
    this.#used = used;
  }

  newNonce(now: number): string {
    this.#used.accepts(now, now);
    return this.#nonces.issue(now);
  }

  /**
   * Throws `ProofError` if the proof is not valid for this request, has no recent nonce, or was used before. Returns a
   * new nonce if the client should replace its own. A proof may be used again for the same non-empty `purpose`.
   */
  async check(
    jwt: string,
    request: ProvenRequest,
    now: number,
    purpose = '',
  ): Promise<{ newNonce: string | undefined }> {
    let time = 0;
    const proof = await this.#verifier.verify(jwt, request, (nonce) => {
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
  checkNewKey(jwt: string, request: ProvenRequest, now: number): Promise<Proof> {
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
