/** Finds the principal of a credential that a backend received from its client and sends for a decision. */
import type { DpopResponse, PresentedProof } from '../../domain/dpop.ts';
import { parseKey } from '../../domain/key.ts';
import type { Principal } from '../../domain/principal.ts';
import { ProofError } from '../dpop/proof.ts';
import type { Call, HandlerContext } from '../pipeline/route.ts';

/** The backend that sent the request. */
export type Caller = Pick<Call, 'principal' | 'requestInfo'>;

export interface FoundCredential {
  /** Undefined if the credential is invalid, belongs to another tenant, or is bound and has no valid proof. */
  readonly principal?: Principal;
  readonly dpop?: DpopResponse;
  /** Why the proof of a bound session is not accepted. */
  readonly reason?: string;
}

/** Records an invalid proof in the audit log as a denial, except a missing or old DPoP nonce. */
export async function findPresented(
  credential: string,
  proof: PresentedProof | undefined,
  { principal: caller, requestInfo }: Caller,
  { store, proofs, trail }: Pick<HandlerContext, 'store' | 'proofs' | 'trail'>,
): Promise<FoundCredential> {
  const key = parseKey(credential);
  const principal =
    key && key.kind !== 'con' && key.tag === caller.tenantTag ? await store.credentials.find(key) : undefined;
  if (principal?.tenantId !== caller.tenantId) return {};
  const { jkt, digest, now } = principal;
  if (jkt === undefined) return { principal };
  try {
    if (!proof) throw new ProofError('is missing');
    const { jwt, method, url, request } = proof;
    const proven = { method, url, ath: digest.toString('base64url'), jkt };
    const purpose = request === undefined ? '' : `${caller.applicationId} ${request}`;
    const { newNonce } = proofs.check(jwt, proven, now, purpose);
    return { principal, ...(newNonce !== undefined && { dpop: { nonce: newNonce } }) };
  } catch (error) {
    if (!(error instanceof ProofError)) throw error;
    const dpop = { nonce: proofs.newNonce(now), error: error.code };
    if (error.code !== 'use_dpop_nonce') {
      const decision = { reason: `the DPoP proof ${error.message}` };
      const by = { caller, client: requestInfo, actor: principal, reportedBy: caller.applicationId };
      const refusal = { operation: 'decision.create', reason: 'unauthenticated', decision };
      trail.record([{ kind: 'denial', ...by, ...refusal }]);
    }
    return { dpop, reason: `the session is bound, and the DPoP proof ${error.message}` };
  }
}
