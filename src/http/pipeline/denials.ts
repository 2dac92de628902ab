/** Records denied requests (401 and 403) in the audit log. */
import type { EntryDecision, EntryResource } from '../../domain/audit.ts';
import { containsNoSecret } from '../../domain/common-fields.ts';
import { Denial } from '../../domain/denial.ts';
import { Failure, problem } from '../../domain/error.ts';
import { actorOf, type Principal } from '../../domain/principal.ts';
import type { AuditRecorder } from './audit-recorder.ts';
import { networkOf } from './client-address.ts';
import { auditFields, type RequestInfo } from './request-info.ts';

interface DeniedRequest {
  readonly operation: string;
  /** Undefined if the key was not valid. */
  readonly principal: Principal | undefined;
  readonly error: unknown;
  /** The path parameters, as received. */
  readonly pathParams: object;
  readonly requestInfo: RequestInfo;
}

/** Ignores errors that are not denials. */
export function recordDenial(recorder: AuditRecorder, request: DeniedRequest): void {
  const { operation, principal, error, requestInfo } = request;
  if (!(error instanceof Failure)) return;
  const { code: reason } = error;
  const { status } = problem(reason);
  if (status !== 401 && status !== 403) return;
  if (!principal) {
    const address = requestInfo.address();
    const group = {
      application: undefined,
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
    return;
  }
  const resource =
    (error instanceof Denial ? error.resource : undefined) ?? namedResource(request.pathParams);
  const decision = error instanceof Denial ? error.decision : { reason: error.detail };
  addDenial(recorder, { operation, reason, decision, resource, actor: principal }, principal, requestInfo);
}

/** A denial of `actor`. */
export interface AccessDenial {
  readonly actor: Principal;
  readonly operation: string;
  /** The error code. */
  readonly reason: string;
  readonly decision: EntryDecision;
  readonly resource: EntryResource | undefined;
  /** The application that reported it, if it was not denied by this service. */
  readonly reportedBy?: string;
}

/** Counts a denial. `caller` sent the request. */
export function addDenial(
  recorder: AuditRecorder,
  { actor, operation, reason, decision, resource, reportedBy }: AccessDenial,
  caller: Principal,
  requestInfo: RequestInfo,
): void {
  const { ids, ...place } = resource ?? {};
  const identity = actorOf(actor);
  const address = requestInfo.address();
  const { purpose } = requestInfo;
  const group = {
    application: actor.applicationId,
    name: JSON.stringify([
      operation,
      reason,
      identity.id,
      place.container,
      decision.reason,
      address && networkOf(address),
      purpose,
      reportedBy,
    ]),
    coarseName: JSON.stringify([reportedBy === undefined ? operation : reportedBy, reason]),
  };
  recorder.add(group, ids, () => ({
    ...auditFields(caller, requestInfo),
    actor: identity,
    operation,
    result: 'denied',
    reason,
    ...(place.container !== undefined && { resource: place }),
    decision,
    ...(reportedBy !== undefined && { reported_by: reportedBy }),
  }));
}

/** The id in the path of a request that was denied before its input was read. */
function namedResource(pathParams: object): EntryResource | undefined {
  const { id } = pathParams as { id?: string };
  const isValid = id !== undefined && /^[A-Za-z0-9._:-]{1,200}$/.test(id) && containsNoSecret(id);
  return isValid ? { ids: [id] } : undefined;
}
