/**
 * Counts requests of applications and sessions in quarantine in the audit log: successful reads, and requests for
 * resources that do not exist. Denials are recorded by denials.ts, responses with token data by disclosures.ts.
 */
import type { EntryResource } from '../../domain/audit.ts';
import { Failure, problem } from '../../domain/error.ts';
import type { Principal } from '../../domain/principal.ts';
import { pathIds } from './named-resource.ts';
import type { RoutedRequest } from './read-input.ts';
import { auditFields, type RequestInfo } from './request-info.ts';
import { type HandlerContext, type KeyedRoute, operationOf, type Reply } from './route.ts';

interface QuarantinedRequest {
  readonly route: KeyedRoute;
  readonly request: RoutedRequest;
  readonly principal: Principal;
  readonly requestInfo: RequestInfo;
}

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
  const caller = principal.kind === 'session' ? principal.sessionId : '';
  const group = {
    // A separate quota, so that these requests cannot use up that of token reads.
    quota: `quarantine ${principal.applicationId}`,
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
