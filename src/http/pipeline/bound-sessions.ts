/** Bound sessions: their requests need a DPoP proof, and a proof on `POST /sessions` binds the new session. */
import { Denial } from '../../domain/denial.ts';
import { fail, throwIfInvalid } from '../../domain/error.ts';
import type { Principal } from '../../domain/principal.ts';
import { ProofError } from '../dpop/proof.ts';
import { pathOf, type RequestInfo } from './request-info.ts';
import type { HandlerContext } from './route.ts';

const header = 'dpop';

/**
 * Throws `unauthenticated`, with a challenge in the response headers, if the request has no valid proof. Called only
 * for bound sessions.
 */
export async function requireProof(
  { jkt, digest, now }: Principal,
  request: Request,
  requestInfo: RequestInfo,
  { proofs, publicUrl }: HandlerContext,
): Promise<void> {
  const { method } = request;
  const ath = digest.toString('base64url');
  try {
    const jwt = request.headers.get(header);
    if (jwt === null) throw new ProofError('is missing');
    const proven = { method, url: urlOf(request, publicUrl), ath, jkt };
    const { newNonce } = await proofs.check(jwt, proven, now);
    if (newNonce !== undefined) requestInfo.dpop = { nonce: newNonce };
  } catch (error) {
    if (!(error instanceof ProofError)) throw error;
    requestInfo.dpop = { nonce: proofs.newNonce(now), error: error.code };
    // Every client starts without a DPoP nonce, so a missing or old one is not recorded as a denial.
    if (error.code === 'use_dpop_nonce') throw fail('unauthenticated', { expected: true });
    throw new Denial('unauthenticated', undefined, { reason: `the DPoP proof ${error.message}` });
  }
}

/**
 * Returns the thumbprint of the key to which the new session is bound, or undefined if the request has no proof.
 * Throws `validation_failed` if the proof is invalid, or if it is missing and the application requires one.
 */
export async function keyOfNewSession(
  principal: Principal,
  request: Request,
  requestInfo: RequestInfo,
  { proofs, publicUrl }: HandlerContext,
): Promise<string | undefined> {
  const jwt = request.headers.get(header);
  if (jwt === null) {
    const required = principal.kind === 'application' && principal.application.require_bound_sessions;
    if (required) throwIfInvalid({ [header]: [missing] });
    return undefined;
  }
  requestInfo.dpop = { nonce: proofs.newNonce(principal.now) };
  const url = urlOf(request, publicUrl);
  try {
    return (await proofs.checkNewKey(jwt, { method: request.method, url }, principal.now)).jkt;
  } catch (error) {
    if (!(error instanceof ProofError)) throw error;
    const expected =
      error.message === 'is for another URL'
        ? `: expected ${url}; if a proxy changes the URL, the operator must set SALLYPORT_PUBLIC_URL`
        : '';
    throw fail('validation_failed', { errors: { [header]: [error.message + expected] } });
  }
}

const missing =
  'is required: this application can create only bound sessions, so send a DPoP proof (RFC 9449)';

/** The URL that the client used. Ignores forwarded headers, because any client can send them. */
function urlOf({ url }: Request, publicUrl: string | undefined): string {
  return publicUrl === undefined ? url : publicUrl + pathOf(url);
}
