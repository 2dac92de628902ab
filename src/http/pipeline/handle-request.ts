/** The steps of every request, in order. A comment such as `// 429` is the status with which a step can fail. */
import { resourceOf } from '../../domain/audit.ts';
import { type Awaitable, then } from '../../domain/awaitable.ts';
import { Denial } from '../../domain/denial.ts';
import { fail } from '../../domain/error.ts';
import { type ParsedKey, parseKey, redactSecrets } from '../../domain/key.ts';
import { hasTrait } from '../../domain/permission.ts';
import { denyQuarantined, mustHold, ownerOf, type Principal } from '../../domain/principal.ts';
import type { Credentials, StoreTransaction } from '../../store/store.ts';
import { keyOfNewSession, requireProof } from './bound-sessions.ts';
import { checkFailure, checkReply } from './check-reply.ts';
import { recordDenial } from './denials.ts';
import { disclosureFields, recordDisclosures } from './disclosures.ts';
import { excludeConcurrent, idempotencyOf } from './idempotency.ts';
import { finishRequest } from './observe-request.ts';
import { problemResponse } from './problem.ts';
import { countQuarantinedNotFound, countQuarantinedRead } from './quarantined-requests.ts';
import type { Release } from './quota.ts';
import {
  bodyLimit,
  inputSteps,
  largeBody,
  type ReceivedBody,
  type RoutedRequest,
  readInput,
  receiveBody,
} from './read-input.ts';
import { auditFields, type RequestInfo } from './request-info.ts';
import { closeIfStopping, toResponse } from './response.ts';
import {
  type Call,
  type ChangeRoute,
  type Conventions,
  type HandlerContext,
  type KeyedRoute,
  operationOf,
  type Reply,
  type Route,
  replayOperation,
  takesBody,
} from './route.ts';
import { arrivesWithOthers, nextTurn } from './shared-turn.ts';

const maxOriginLength = 200;

export async function handleRequest(
  route: Route,
  request: RoutedRequest,
  requestInfo: RequestInfo,
  context: HandlerContext,
): Promise<Response> {
  const { limits, store } = context;
  let principal: Principal | undefined;
  let release: Release | undefined;
  let receiving: Promise<ReceivedBody> | undefined;
  try {
    if (route.kind === 'open') {
      const reply = await route.handle(context, request, requestInfo);
      return respond(route, reply, undefined, requestInfo, context);
    }
    limits.checkAddress(requestInfo); // 429
    const key = presentedKey(request.headers, route.conventions); // 401
    limits.checkKey(key.digest, requestInfo); // 429
    // Not awaited yet: the body arrives during the key lookup. Its errors are thrown by `readInput`, after 401 and 403.
    receiving = takesBody(route) ? receiveBody(request, route.bodyLimit ?? bodyLimit) : undefined;
    const sharesTurn = route.kind === 'read' && store.credentials.isLocal;
    if (sharesTurn && (arrivesWithOthers(requestInfo.startedAt) || receiving)) await nextTurn();
    const found = authenticate(key, store.credentials); // 401
    principal = found instanceof Promise ? await found : found;
    if (principal.jkt !== undefined) await requireProof(principal, request, requestInfo, context); // 401
    requireAccess(route, principal, request.headers, requestInfo); // 403
    recordUse(route, principal, context);
    const received = receiving && (await receiving);
    const bodyBytes = received?.bytes.length ?? 0;
    // Before validation, so that rejected requests count, too.
    if (route.checkLimits) release = await route.checkLimits({ principal, requestInfo, bodyBytes }, context); // 429
    if (bodyBytes > largeBody || route.mayTakeLong) requestInfo.keepOpen();
    const reading =
      received && bodyBytes > largeBody && !route.neverWaits
        ? context.longWork.run(principal, inputSteps(route, principal, request, received, requestInfo))
        : undefined;
    await reading?.catch(() => {}); // thrown below, after 401 and 403
    if (received?.late || reading) {
      // The key may have been revoked while the service waited.
      principal = undefined;
      principal = await authenticate(key, store.credentials);
      requireAccess(route, principal, request.headers, requestInfo);
    }
    requestInfo.checkPurpose(); // 400
    const { call: input, bodyText } = reading
      ? await reading
      : readInput(route, principal, request, received, requestInfo); // 400, 413, 415, 429
    // The input of a large body was read for the principal before the second check.
    const call: Call = reading ? { ...input, principal } : input;
    if (route.bindsSession) call.jkt = await keyOfNewSession(principal, request, requestInfo, context); // 400
    const read = route.kind === 'read' ? route.handle : previewOf(route, call);
    const reply = read
      ? await read(call, context)
      : await runChange(route as ChangeRoute, call, request, bodyText, requestInfo, context);
    if (reply.disclosures || reply.report) {
      const operation = reply.isReplay ? replayOperation : operationOf(route);
      const written = recordDisclosures(operation, reply, principal, requestInfo, context);
      if (written) await written; // 503
    }
    if (principal.policy.quarantined)
      countQuarantinedRead(context, { route, request, principal, requestInfo }, reply);
    return respond(route, reply, principal, requestInfo, context);
  } catch (error) {
    if (route.kind !== 'open')
      await recordDenial(context, { route, principal, error, request, receiving, requestInfo });
    if (route.kind !== 'open' && principal?.policy.quarantined)
      countQuarantinedNotFound(context, { route, request, principal, requestInfo }, error);
    const failure = context.checkReplies ? checkFailure(route, error) : error;
    const response = problemResponse(failure, requestInfo, context.log, {}, route.conventions?.keyChallenge);
    finishRequest(route, response.status, principal, requestInfo, context);
    return closeIfStopping(response, context);
  } finally {
    release?.();
  }
}

/** The key in `SVC-API-KEY`. A repeated header arrives as values joined by a comma, which is not a valid key. */
function presentedKey(headers: Headers, conventions: Conventions | undefined): ParsedKey {
  const key = parseKey(headers.get('svc-api-key') ?? conventions?.otherKey(headers) ?? '');
  if (!key) throw fail('unauthenticated');
  return key;
}

/** Not async: on SQLite the result is often cached. An `await` adds 6 % to the CPU time of GET /applications/key. */
function authenticate(key: ParsedKey, credentials: Credentials): Awaitable<Principal> {
  return then(credentials.find(key), (principal) => {
    if (!principal) throw fail('unauthenticated');
    return principal;
  });
}

function requireAccess(
  { kind, callers, permission }: KeyedRoute,
  principal: Principal,
  headers: Headers,
  requestInfo: RequestInfo,
): void {
  if (principal.isAllowedFrom?.(requestInfo.certainAddress()) === false)
    throw new Denial('network_refused', undefined, { reason: networkReason(requestInfo.address()) });
  // Browsers set `Origin` reliably. Other clients can omit or forge it, so a missing `Origin` is allowed.
  const origin = principal.origins ? headers.get('origin') : null;
  if (origin !== null && !principal.origins?.includes(origin))
    throw new Denial('origin_refused', undefined, { reason: originReason(origin) });
  const owner = ownerOf(principal);
  if (callers && !callers.includes(owner)) {
    const presented = owner === 'session' ? 'a session' : `a ${owner} application`;
    const required = `the key of a ${callers.join(' or ')} application`;
    throw new Denial(
      'key_type_refused',
      `This operation requires ${required}. You sent the key of ${presented}.`,
      { reason: `this operation requires ${required}, and this is the key of ${presented}` },
    );
  }
  if (kind === 'change') denyQuarantined(principal);
  if (permission) mustHold(principal, permission);
}

function networkReason(address = 'unknown'): string {
  return `the address ${address} is not in allowed_networks of the application`;
}

function originReason(origin: string): string {
  return `the origin ${redactSecrets(origin).slice(0, maxOriginLength)} is not in allowed_origins of the application`;
}

/** Does not record scoped permissions: the handler does, because it knows the container. */
function recordUse({ permission }: KeyedRoute, principal: Principal, { usage }: HandlerContext): void {
  usage.record(
    principal,
    permission !== undefined && hasTrait(permission, 'scoped') ? undefined : permission,
  );
}

/** Returns the preview handler if the query has `dry_run`, otherwise undefined. */
function previewOf({ preview }: ChangeRoute, { query }: Call): ChangeRoute['preview'] {
  return (query as { dry_run?: boolean } | undefined)?.dry_run ? preview : undefined;
}

const disconnected = 'The connection was closed before the change began, so nothing was changed.';

/**
 * Commits the change, its audit entry and its idempotency record in one transaction. The entry also records the token
 * data in the reply. A replay writes no entry here: it returns `disclosures`, for which `handleRequest` writes one.
 */
async function runChange(
  route: ChangeRoute,
  call: Call,
  request: Request,
  bodyText: string,
  requestInfo: RequestInfo,
  context: HandlerContext,
): Promise<Reply> {
  const { principal, params } = call;
  const tenant = principal.tenantId;
  const idempotency = idempotencyOf(route, call, request.headers, bodyText);

  async function inTransaction(tx: StoreTransaction): Promise<Reply> {
    // Bun closes the connection if the client sends another request before the response to this one.
    if (request.signal.aborted) throw fail('validation_failed', { detail: disconnected });
    const changeContext = { ...context, store: tx };
    const earlier = idempotency && (await tx.idempotency.find(tenant, idempotency));
    if (earlier) {
      const reply = route.replay ? await route.replay(earlier, call, changeContext) : (earlier as Reply);
      return { ...reply, isReplay: true, headers: { ...reply.headers, 'Idempotency-Replayed': 'true' } };
    }
    const handled = await route.handle(call, changeContext);
    const { entity, difference, resource, disclosures, idempotencyRecord, ...reply } = handled;
    const change = {
      operation: operationOf(route),
      entity,
      ...(resource && { resource: resourceOf([resource]) }),
      ...(disclosures?.[0] && disclosureFields(disclosures[0])),
      ...(difference && { difference }),
    };
    tx.record({ ...auditFields(principal, requestInfo), ...change, result: 'success' });
    if (idempotency) {
      const quota = route.ignoresQuota ? undefined : context.storageQuota;
      await tx.idempotency.save(tenant, idempotency, idempotencyRecord ?? reply, principal.now, quota);
    }
    return reply;
  }

  // Changes of the same entity run one after the other.
  const entity = (params as { id?: string } | undefined)?.id ?? Symbol('new');
  const commit = () => context.store.change(tenant, inTransaction, entity);
  if (!idempotency) return commit();
  return excludeConcurrent(context.idempotentRequests, tenant, idempotency, commit);
}

function respond(
  route: Route,
  reply: Reply,
  principal: Principal | undefined,
  requestInfo: RequestInfo,
  context: HandlerContext,
): Response {
  if (context.checkReplies) checkReply(route, reply);
  // Only replies to reads count against the limit of unsent bytes. A change is already committed, so its reply must be
  // sent.
  const reader = route.kind === 'read' ? principal?.applicationId : undefined;
  const response = toResponse(reply, requestInfo, context.largeReplies, reader);
  finishRequest(route, reply.status, principal, requestInfo, context);
  return closeIfStopping(response, context);
}
