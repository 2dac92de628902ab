import type { Entry } from '../../domain/audit.ts';
import type { Principal } from '../../domain/principal.ts';
import type { RequestInfo } from './request-info.ts';

/** Who, when and from where. */
export function auditContext(principal: Principal, where: RequestInfo) {
  return {
    tenantId: principal.tenantId,
    at: principal.now,
    actor: actorOf(principal),
    from: where.from(),
    request_id: where.requestId,
    ...(where.traceId !== undefined && { trace_id: where.traceId }),
  };
}

function actorOf(principal: Principal): Entry['actor'] {
  const { kind, applicationId } = principal;
  return {
    kind,
    id: kind === 'session' ? principal.sessionId : applicationId,
    application_id: applicationId,
  };
}
