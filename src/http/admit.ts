/**
 * Admission: whether a key may make a request now. A request can wait, for its body or for a connection to a destination,
 * and its key may be revoked or lose access in that time. Each wait ends with the same check as before it.
 */
import { type Awaitable, then } from '../domain/awaitable.ts';
import { Denial } from '../domain/denial.ts';
import { fail, throwIfInvalid } from '../domain/error.ts';
import { cut } from '../domain/escape.ts';
import { type ParsedKey, parseKey, redactSecrets } from '../domain/key.ts';
import { forPurpose } from '../domain/policy.ts';
import {
  denyQuarantined,
  holds,
  identityOf,
  mustHold,
  ownerOf,
  type Principal,
} from '../domain/principal.ts';
import type { Credentials, StoreTransaction } from '../store/store.ts';
import { ProofError } from './dpop/proof.ts';
import { cookieIn, type RequestInfo, sessionCookie, urlOf } from './pipeline/request-info.ts';
import type { HandlerContext, KeyedRoute } from './pipeline/route.ts';

const maxOriginLength = 200;

/** A request with a well-formed key. */
export interface Applicant {
  readonly route: KeyedRoute;
  readonly request: Request;
  readonly requestInfo: RequestInfo;
  readonly key: ParsedKey;
  /** Whom the last check found. Undefined if the key was not valid. */
  principal?: Principal | undefined;
  /** The thumbprint of the key whose DPoP proof was checked. A proof is valid once, so it is not checked again. */
  proven?: string | undefined;
}

/**
 * Returns the principal, for the purpose of the request. Throws the 400, 401 or 403 of a request that is not admitted.
 * Within a transaction, pass its credentials.
 *
 * Not async: on SQLite the result is often cached. An `await` adds 6 % to the CPU time of GET /applications/key.
 */
export function admit(
  applicant: Applicant,
  context: HandlerContext,
  credentials: Pick<Credentials, 'find'> = context.store.credentials,
): Awaitable<Principal> {
  applicant.principal = undefined;
  return then(credentials.find(applicant.key), (found) => {
    if (!found) throw fail('unauthenticated');
    const { route, request, requestInfo, proven } = applicant;
    const principal = forPurpose(found, requestInfo.purpose);
    applicant.principal = principal;
    if (principal.jkt !== proven) {
      requireProof(route, principal, request, requestInfo, context); // 401
      applicant.proven = principal.jkt;
    }
    requireAccess(route, principal, request.headers, requestInfo, context); // 403
    if (route.servedTo === 'console' && !context.signIn.accepts(principal)) throw fail('unauthenticated');
    requestInfo.checkPurpose(principal); // 400
    return principal;
  });
}

/**
 * The key in `SVC-API-KEY`, or under /console/api/ the one in the cookie. Neither place accepts keys of the other. A
 * repeated header arrives as values joined by a comma, which is not a valid key.
 */
export function presentedKey(headers: Headers, { conventions, servedTo }: KeyedRoute): ParsedKey {
  const onConsole = servedTo === 'console';
  const key = parseKey(
    onConsole
      ? cookieIn(headers, sessionCookie)
      : (headers.get('svc-api-key') ?? conventions?.otherKey(headers) ?? ''),
  );
  if (!key || (key.kind === 'con') !== onConsole) throw fail('unauthenticated');
  return key;
}

function requireAccess(
  { kind, callers, permission, servedTo, failures }: KeyedRoute,
  principal: Principal,
  headers: Headers,
  requestInfo: RequestInfo,
  { framesUrl }: HandlerContext,
): void {
  if (principal.isAllowedFrom?.(requestInfo.certainAddress()) === false)
    throw new Denial('network_refused', undefined, { reason: networkReason(requestInfo.address()) });
  const refused = refusedOrigin(principal, headers, servedTo === 'frames' ? framesUrl : undefined);
  if (refused !== undefined) throw new Denial('origin_refused', undefined, { reason: originReason(refused) });
  const owner = ownerOf(principal);
  if (callers && !callers.includes(owner)) {
    const presented = principal.kind === 'application' ? `a ${owner} application` : `a ${owner}`;
    const required = `the key of a ${callers.join(' or ')} application`;
    throw new Denial(
      'key_type_refused',
      `This operation requires ${required}. You sent the key of ${presented}.`,
      { reason: `this operation requires ${required}, and this is the key of ${presented}` },
    );
  }
  // In quarantine, an application does not lack a permission that it had.
  const isSuspended = permission && failures?.includes('quarantined') && !holds(principal, permission);
  if (kind === 'change' || isSuspended) denyQuarantined(principal);
  if (permission) mustHold(principal, permission);
}

const ancestorHeader = 'svc-frame-ancestor';

/**
 * The origin that may not use this key, or undefined. Browsers set `Origin` reliably. Other clients can omit or forge it,
 * so a missing `Origin` is allowed. With `framesUrl`, the request is a call of a frame, which reports the origin of the
 * page that embeds it. Pages themselves cannot make such calls, because CORS does not allow them this header.
 */
function refusedOrigin(
  { origins }: Principal,
  headers: Headers,
  framesUrl: string | undefined,
): string | undefined {
  if (framesUrl === undefined && !origins) return undefined;
  const origin = headers.get('origin');
  if (framesUrl === undefined) return origin === null || origins?.includes(origin) ? undefined : origin;
  if (origin !== null && origin !== framesUrl) return origin;
  const page = headers.get(ancestorHeader) ?? 'unknown';
  return origins?.includes(page) ? undefined : page;
}

function networkReason(address = 'unknown'): string {
  return `the address ${address} is not in allowed_networks of the application`;
}

function originReason(origin: string): string {
  return `the origin ${cut(redactSecrets(origin), maxOriginLength)} is not in allowed_origins of the application`;
}

const dpopHeader = 'dpop';

/**
 * Throws `unauthenticated`, with a challenge in the response headers, if the request has no valid proof. Called only
 * for bound keys, of sessions and of workloads.
 */
function requireProof(
  route: KeyedRoute,
  { jkt, digest, now }: Principal,
  request: Request,
  requestInfo: RequestInfo,
  context: HandlerContext,
): void {
  const { proofs } = context;
  const { method } = request;
  const ath = digest.toString('base64url');
  try {
    const jwt = request.headers.get(dpopHeader);
    if (jwt === null) throw new ProofError('is missing');
    const proven = { method, url: urlOf(request, baseOf(route, context)), ath, jkt };
    const { newNonce } = proofs.check(jwt, proven, now);
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
 * Returns the thumbprint of the key to which the new session is bound, or undefined if the request has no proof. Throws
 * `validation_failed` if the proof is invalid, or if it is missing and the application requires one.
 */
export function keyOfNewSession(
  { request, requestInfo, route, principal }: Applicant,
  context: HandlerContext,
): string | undefined {
  const { proofs } = context;
  const { now } = principal as Principal;
  const jwt = request.headers.get(dpopHeader);
  if (jwt === null) {
    if (principal?.kind === 'application' && principal.application.require_bound_sessions)
      throwIfInvalid({
        [dpopHeader]: [
          'is required: this application can create only bound sessions, so send a DPoP proof (RFC 9449)',
        ],
      });
    return undefined;
  }
  requestInfo.dpop = { nonce: proofs.newNonce(now) };
  const url = urlOf(request, baseOf(route, context));
  try {
    return proofs.checkNewKey(jwt, { method: request.method, url }, now).jkt;
  } catch (error) {
    if (!(error instanceof ProofError)) throw error;
    const expected =
      error.message === 'is for another URL'
        ? `: expected ${url}; if a proxy changes the URL, the operator must set SALLYPORT_PUBLIC_URL`
        : '';
    throw fail('validation_failed', { errors: { [dpopHeader]: [error.message + expected] } });
  }
}

/** The URL of the origin that serves the route, if it is configured. */
function baseOf({ servedTo }: KeyedRoute, { publicUrl, framesUrl }: HandlerContext): string | undefined {
  return servedTo === 'frames' ? framesUrl : publicUrl;
}

export function isLimited(principal: Principal): boolean {
  return principal.kind !== 'application' && principal.isLimited === true;
}

export async function spendUse(principal: Principal, { sessions }: StoreTransaction): Promise<void> {
  if (await sessions.spendUse(principal.tenantId, identityOf(principal).id)) return;
  throw new Denial('unauthenticated', undefined, { reason: 'the delegation has no use left' });
}
