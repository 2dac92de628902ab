/** Finds the principal of a credential that a backend received from a client and asks about. */
import type { DpopResponse, PresentedProof } from '../../domain/dpop.ts';
import { parseKey } from '../../domain/key.ts';
import type { Principal } from '../../domain/principal.ts';
import { ProofError } from '../dpop/proof.ts';
import type { HandlerContext } from '../pipeline/route.ts';

export interface FoundCredential {
  /** Undefined if the credential is invalid, belongs to another tenant, or is bound and has no valid proof. */
  readonly principal?: Principal;
  readonly dpop?: DpopResponse;
  /** Why the proof of a bound session is not accepted. */
  readonly reason?: string;
}

export async function findPresented(
  credential: string,
  proof: PresentedProof | undefined,
  caller: Principal,
  { store, proofs }: Pick<HandlerContext, 'store' | 'proofs'>,
): Promise<FoundCredential> {
  const key = parseKey(credential);
  const principal = key && (await store.credentials.find(key.kind, key.digest));
  if (principal?.tenantId !== caller.tenantId) return {};
  const { jkt, digest, now } = principal;
  if (jkt === undefined) return { principal };
  try {
    if (!proof) throw new ProofError('is missing');
    const { jwt, method, url, request } = proof;
    const proven = { method, url, ath: digest.toString('base64url'), jkt };
    const purpose = request === undefined ? '' : `${caller.applicationId} ${request}`;
    const { newNonce } = await proofs.check(jwt, proven, now, purpose);
    return { principal, ...(newNonce !== undefined && { dpop: { nonce: newNonce } }) };
  } catch (error) {
    if (!(error instanceof ProofError)) throw error;
    const dpop = { nonce: proofs.newNonce(now), error: error.code };
    return { dpop, reason: `the session is bound, and the DPoP proof ${error.message}` };
  }
}
