/** Counts a finished request, and records it in the metrics and the debug log. */
import type { Principal } from '../../domain/principal.ts';
import { logFields, type RequestInfo } from './request-info.ts';
import type { HandlerContext, Route } from './route.ts';
import { requestEnded } from './shared-turn.ts';

/** Requests that are not authenticated belong to no tenant, so they are only in the metrics. */
export function finishRequest(
  route: Route,
  status: number,
  principal: Principal | undefined,
  requestInfo: RequestInfo,
  context: HandlerContext,
): void {
  const now = performance.now();
  requestEnded(now);
  const milliseconds = now - requestInfo.startedAt;
  // A valid key with an invalid DPoP proof also gets 401.
  if (principal && status !== 401) context.requestCounter.count(principal, status, milliseconds);
  if (context.observed)
    observeRequest(route.name, route.kind !== 'open', requestInfo, status, milliseconds / 1000, context);
}

export function observeRequest(
  name: string,
  requiresKey: boolean,
  requestInfo: RequestInfo,
  status: number,
  seconds: number,
  { observer, log }: HandlerContext,
): void {
  observer.request(name, requiresKey, status, seconds);
  log.debug('request', { ...logFields(requestInfo), status, seconds });
}
