/** Records in the audit log which requests were denied (403) or had no valid key (401). */
import type { EntryDecision, EntryResource } from '../../domain/audit.ts';
import { Denial } from '../../domain/denial.ts';
import { Failure, problem } from '../../domain/error.ts';
import { hasTrait } from '../../domain/permission.ts';
import { actorOf, type Principal } from '../../domain/principal.ts';
import { canonicalContainer } from '../../domain/rule.ts';
import type { AuditRecorder } from './audit-recorder.ts';
import { networkOf } from './client-address.ts';
import { type NamedRequest, namedResource } from './named-resource.ts';
import { auditFields, type RequestInfo } from './request-info.ts';
import { type HandlerContext, operationOf } from './route.ts';

interface DeniedRequest extends NamedRequest {
  /** Undefined if the key was not valid. */
  readonly principal: Principal | undefined;
  readonly error: unknown;
  readonly requestInfo: RequestInfo;
}

/** Ignores errors that are not denials, and those that are part of normal operation. Never rejects. */
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

/** Adds the container of the request to the missing grant: access to that container would be enough. */
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

/** Whether the denial is about another container than that of the token. */
function isMove({ missing }: EntryDecision, resource: EntryResource | undefined): boolean {
  return (
    missing?.container !== undefined &&
    resource?.container !== undefined &&
    canonicalContainer(missing.container) !== resource.container
  );
}

/** A denial of `actor`. */
export interface AccessDenial {
  readonly actor: Principal;
  readonly operation: string;
  /** The error code. */
  readonly reason: string;
  readonly decision: EntryDecision;
  readonly resource: EntryResource | undefined;
  /** Whether ids and container are those of stored tokens. Otherwise the caller chose them. */
  readonly isStored: boolean;
  /** The application that created the stored tokens, if it is known and the same for all. */
  readonly createdBy?: string | undefined;
  /** The application that reported it, if it was not denied by this service. */
  readonly reportedBy?: string;
}

/**
 * Counts a denial. `caller` sent the request. Denials about tokens of others have a separate quota and separate entries,
 * so that a caller cannot use them up with tokens that it created, or with ids and containers that it made up. Purpose, reason and missing grant are those of the first
 * event, because the caller can choose parts of them, too.
 */
export function addDenial(
  recorder: AuditRecorder,
  { actor, operation, reason, decision, resource, isStored, createdBy, reportedBy }: AccessDenial,
  caller: Principal,
  requestInfo: RequestInfo,
): void {
  const identity = actorOf(actor);
  const address = requestInfo.address();
  const kind = !isStored ? 'named' : createdBy === actor.applicationId ? 'own' : 'stored';
  const group = {
    quota: JSON.stringify([kind, actor.applicationId, reportedBy]),
    name: JSON.stringify([
      operation,
      reason,
      identity.id,
      resource?.container,
      isMove(decision, resource),
      address && networkOf(address),
      // A refused DPoP proof. The reason is one of a few sentences, so that a missing proof does not hide a forged one.
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
    ...(reportedBy !== undefined && { reported_by: reportedBy }),
  }));
}
