/** Records in the audit log which requests were denied (403) or had no valid key (401). */
import type { EntryDecision, EntryResource } from '../../domain/audit.ts';
import { Denial } from '../../domain/denial.ts';
import { Failure, problem } from '../../domain/error.ts';
import { hasTrait } from '../../domain/permission.ts';
import { actorOf, aggregatedBy, type Principal } from '../../domain/principal.ts';
import { canonicalContainer } from '../../domain/rule.ts';
import { signInEntries } from '../../domain/trusted-issuer.ts';
import type { AuditRecorder } from './audit-recorder.ts';
import { networkOf } from './client-address.ts';
import { type NamedRequest, namedResource, pathIds } from './named-resource.ts';
import type { RoutedRequest } from './read-input.ts';
import { auditFields, type RequestInfo } from './request-info.ts';
import { type HandlerContext, type KeyedRoute, operationOf, type Reply } from './route.ts';

interface DeniedRequest extends NamedRequest {
  /** Undefined if the key was not valid. */
  readonly principal: Principal | undefined;
  readonly error: unknown;
  readonly requestInfo: RequestInfo;
}

/** Ignores failures marked as `expected`, and errors other than 401 and 403. Never rejects. */
export async function recordDenial(
  { auditRecorder, store }: Pick<HandlerContext, 'auditRecorder' | 'store'>,
  denied: DeniedRequest,
): Promise<void> {
  const { route, principal, error, requestInfo } = denied;
  if (!(error instanceof Failure) || error.expected) return;
  const { code: reason } = error;
  const { status } = problem(reason);
  if (status !== 401 && status !== 403) return;
  const operation = operationOf(route);
  if (!principal) {
    addUnauthenticated(auditRecorder, operation, reason, requestInfo);
    return;
  }
  const denial = error instanceof Denial ? error : undefined;
  const decision = denial?.decision ?? { reason: error.detail };
  const event = { operation, reason, decision, actor: principal };
  if (denial?.resource) {
    const { resource, isStored, createdBy } = denial;
    addDenial(auditRecorder, { ...event, resource, isStored, createdBy }, principal, requestInfo);
    return;
  }
  const { resource, isStored = false, createdBy } = (await namedResource(denied, principal, store)) ?? {};
  addDenial(
    auditRecorder,
    { ...event, decision: withContainer(decision, resource), resource, isStored, createdBy },
    principal,
    requestInfo,
  );
}

/** Adds the container of the request to the missing grant, because a grant on that container would be enough. */
function withContainer(decision: EntryDecision, resource: EntryResource | undefined): EntryDecision {
  const { missing } = decision;
  const container = resource?.container;
  if (!missing || container === undefined || !hasTrait(missing.permission, 'scoped')) return decision;
  return { ...decision, missing: { container, ...missing } };
}

function addUnauthenticated(
  recorder: AuditRecorder,
  operation: string,
  reason: string,
  requestInfo: RequestInfo,
): void {
  const address = requestInfo.address();
  const group = {
    quota: 'anonymous',
    name: JSON.stringify([operation, reason, address && networkOf(address)]),
    coarseName: JSON.stringify([operation, reason]),
  };
  recorder.add(group, undefined, (at) => ({
    at,
    actor: { kind: 'anonymous' },
    from: requestInfo.from(),
    request_id: requestInfo.requestId,
    operation,
    result: 'failed',
    reason,
  }));
}

/** Whether the missing grant is for another container than the token's. This happens if a request moves the token. */
function isMove({ missing }: EntryDecision, resource: EntryResource | undefined): boolean {
  return (
    missing?.container !== undefined &&
    resource?.container !== undefined &&
    canonicalContainer(missing.container) !== resource.container
  );
}

/** An operation that was denied to `actor`. */
export interface AccessDenial {
  readonly actor: Principal;
  readonly operation: string;
  /** The error code. */
  readonly reason: string;
  readonly decision: EntryDecision;
  readonly resource: EntryResource | undefined;
  /** Whether the ids and container in `resource` are those of stored tokens. Otherwise the caller chose them. */
  readonly isStored: boolean;
  /** The application that created the stored tokens, if it is known and the same for all. */
  readonly createdBy?: string | undefined;
  /** Of a reported denial, if it is not that of the caller. */
  readonly purpose?: string | undefined;
  /** The application that reported the denial. Undefined if this service denied the request. */
  readonly reportedBy?: string;
}

/**
 * Counts a denial. `caller` sent the request. Denials about tokens that other applications created have a separate
 * quota, which a caller cannot use up with its own tokens or with made-up ids and containers. Events with different
 * purposes, reasons or missing grants can be in one group, because the caller can choose parts of these. The entry has
 * those of its first event.
 */
export function addDenial(
  recorder: AuditRecorder,
  denial: AccessDenial,
  caller: Principal,
  requestInfo: RequestInfo,
): void {
  const { actor, operation, reason, decision, purpose, resource, isStored, createdBy, reportedBy } = denial;
  const identity = actorOf(actor);
  const address = requestInfo.address();
  const kind = !isStored ? 'named' : createdBy === actor.applicationId ? 'own' : 'stored';
  const group = {
    quota: JSON.stringify([kind, aggregatedBy(actor), reportedBy]),
    name: JSON.stringify([
      operation,
      reason,
      identity.id,
      resource?.container,
      isMove(decision, resource),
      address && networkOf(address),
      // An invalid DPoP proof: a missing and a forged one get separate entries. There are only a few possible reasons.
      reason === 'unauthenticated' ? decision.reason : null,
    ]),
    coarseName: JSON.stringify([reportedBy === undefined ? operation : reportedBy, reason]),
  };
  recorder.add(group, resource, () => ({
    ...auditFields(caller, requestInfo),
    actor: identity,
    operation,
    result: 'denied',
    reason,
    decision,
    ...(purpose !== undefined && { purpose }),
    ...(reportedBy !== undefined && { reported_by: reportedBy }),
  }));
}

/**
 * Counts a request with a stored key of an application to which people sign in by name, while they may not sign in with
 * keys. Such keys are for emergencies.
 */
export function countBreakGlass(
  principal: Principal,
  requestInfo: RequestInfo,
  { auditRecorder, observer }: Pick<HandlerContext, 'auditRecorder' | 'observer'>,
): void {
  if (principal.kind !== 'application' || principal.issuer !== undefined) return;
  if (signInEntries([principal.application]).length === 0) return;
  observer.brokeGlass();
  const address = requestInfo.address();
  const group = {
    quota: `break-glass ${principal.applicationId}`,
    name: JSON.stringify([principal.authority?.keyId, address && networkOf(address)]),
    coarseName: 'break-glass',
  };
  auditRecorder.add(group, undefined, () => ({
    ...auditFields(principal, requestInfo),
    operation: 'key.break_glass',
    entity: { kind: 'application', id: principal.applicationId },
    result: 'success',
  }));
}

interface QuarantinedRequest {
  readonly route: KeyedRoute;
  readonly request: RoutedRequest;
  readonly principal: Principal;
  readonly requestInfo: RequestInfo;
}

/**
 * Counts requests of applications and sessions in quarantine in the audit log: successful reads, and requests for
 * resources that do not exist. Responses with token data are recorded by disclosures.ts.
 */
export function countQuarantinedRead(
  context: Pick<HandlerContext, 'auditRecorder'>,
  quarantined: QuarantinedRequest,
  { disclosures = [] }: Reply,
): void {
  // `recordDisclosures` records disclosures, except for HEAD, whose response has no body.
  if (disclosures.length > 0 && quarantined.requestInfo.method !== 'HEAD') return;
  count(context, quarantined, { result: 'success' });
}

/** Ignores errors other than 404. */
export function countQuarantinedNotFound(
  context: Pick<HandlerContext, 'auditRecorder'>,
  quarantined: QuarantinedRequest,
  error: unknown,
): void {
  if (!(error instanceof Failure) || problem(error.code).status !== 404) return;
  count(context, quarantined, { result: 'failed', reason: error.code });
}

function count(
  { auditRecorder }: Pick<HandlerContext, 'auditRecorder'>,
  { route, request, principal, requestInfo }: QuarantinedRequest,
  outcome: { readonly result: 'success' | 'failed'; readonly reason?: string },
): void {
  const operation = operationOf(route);
  const caller = principal.kind === 'application' ? '' : principal.sessionId;
  const group = {
    // A separate quota, so that these requests cannot use up that of token reads.
    quota: `quarantine ${aggregatedBy(principal)}`,
    name: `${operation} ${outcome.result} ${caller}`,
    coarseName: `${operation} ${outcome.result}`,
  };
  const resource: EntryResource = { ids: pathIds(request) };
  auditRecorder.add(group, resource, () => ({
    ...auditFields(principal, requestInfo),
    operation,
    ...outcome,
  }));
}
