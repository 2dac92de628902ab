/** Builds the response of a request, counts the request, and records it in the metrics and the debug log. */
import type { JsonText } from '../../domain/json-text.ts';
import type { Principal } from '../../domain/principal.ts';
import { libraryHeaders, problemResponse } from './problem.ts';
import { hasLargeBody } from './read-input.ts';
import { logFields, type RequestInfo } from './request-info.ts';
import { closeIfStopping, toResponse } from './response.ts';
import { checkFailure, checkReply, type HandlerContext, type Reply, type Route, takesBody } from './route.ts';
import { requestEnded, sharedTurn } from './shared-turn.ts';

/** The response to a request that succeeded. */
export function responseTo(
  route: Route,
  reply: Reply,
  principal: Principal | undefined,
  info: RequestInfo,
  app: HandlerContext,
): Response {
  if (app.checkReplies && !('isRaw' in route && route.isRaw)) checkReply(route, reply);
  // A change is already committed and a request to a destination was sent, so their replies must be sent.
  const mustBeSent = route.kind !== 'read' || route.isRaw === true;
  const sendLarge = (json: JsonText) => app.memory.for(principal as Principal, info).send(json, mustBeSent);
  const response = toResponse(reply, info, principal && sendLarge);
  finishRequest(route, reply.status, principal, info, app);
  return closeIfStopping(response, app);
}

/**
 * For a response that did not wait for anything. Bun answers all requests that a connection has sent in one turn of the
 * event loop, unless one of them waits: then it closes the connection. A response that closes it must not wait, because
 * the rest of a body may arrive without end.
 */
export async function inOwnTurn(response: Response): Promise<Response> {
  if (response.headers.get('Connection') !== 'close') await sharedTurn();
  return response;
}

export interface Refusal {
  readonly route: Route;
  readonly request: Request;
  readonly error: unknown;
  readonly principal: Principal | undefined;
  /** Whether all of the body has arrived. */
  readonly isRead: boolean;
}

/** The response to a request that failed with `error`. */
export function refusalOf(
  { route, request, error, principal, isRead }: Refusal,
  info: RequestInfo,
  app: HandlerContext,
): Response {
  const failure = app.checkReplies ? checkFailure(route, error) : error;
  const extra = libraryHeaders(failure, info, request.headers.get('accept') ?? '');
  const response = problemResponse(failure, info, app.log, extra, route.conventions?.keyChallenge);
  finishRequest(route, response.status, principal, info, app);
  if (takesBody(route) && !isRead && hasLargeBody(request)) response.headers.set('Connection', 'close');
  return closeIfStopping(response, app);
}

/** Requests that are not authenticated belong to no tenant, so they are only in the metrics. */
function finishRequest(
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
