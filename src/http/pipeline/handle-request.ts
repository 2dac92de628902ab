/** The steps of every request, in order. A comment such as `// 429` is the status with which a step can fail. */

import { resourceOf } from '../../domain/audit.ts';
import { Failure, fail, problem, throwIfInvalid } from '../../domain/error.ts';
import type { JsonText } from '../../domain/json-text.ts';
import type { ParsedKey } from '../../domain/key.ts';
import { hasTrait } from '../../domain/permission.ts';
import { identityOf, ownerOf, type Principal } from '../../domain/principal.ts';
import type { Credentials, IdempotentRequest, StoreTransaction } from '../../store/store.ts';
import { ProofError } from '../dpop/proof.ts';
import { type Applicant, admit, baseOf, dpopHeader, isLimited, presentedKey, spendUse } from './admit.ts';
import { countBreakGlass, countQuarantinedNotFound, countQuarantinedRead, recordDenial } from './denials.ts';
import { disclosureFields, recordDisclosures } from './disclosures.ts';
import { finishRequest } from './observe-request.ts';
import { problemResponse } from './problem.ts';
import type { Release } from './quota.ts';
import {
  bodyLimit,
  inputSteps,
  isUnread,
  largeBody,
  memoryOfBody,
  type ReceivedBody,
  type RoutedRequest,
  readInput,
  receiveBody,
} from './read-input.ts';
import { auditFields, type RequestInfo, urlOf } from './request-info.ts';
import { closeIfStopping, toResponse } from './response.ts';
import {
  type Call,
  type ChangeRoute,
  checkFailure,
  checkReply,
  type HandlerContext,
  type KeyedRoute,
  operationOf,
  type Reply,
  type Route,
  replayOperation,
  takesBody,
  takesIdempotencyKey,
} from './route.ts';
import { arrivesWithOthers, sharedTurn } from './shared-turn.ts';

export async function handleRequest(
  route: Route,
  request: RoutedRequest,
  requestInfo: RequestInfo,
  context: HandlerContext,
): Promise<Response> {
  const { limits, store } = context;
  let applicant: Applicant | undefined;
  let release: Release | undefined;
  let receiving: Promise<ReceivedBody> | undefined;
  try {
    if (route.kind === 'open') {
      const reply = await route.handle(context, request, requestInfo);
      return respond(route, reply, undefined, requestInfo, context);
    }
    limits.checkAddress(requestInfo); // 429
    const key = presentedKey(request.headers, route); // 401
    applicant = { route, request, requestInfo, key };
    limits.checkKey(key.digest, requestInfo); // 429
    const limit = takesBody(route) ? (route.bodyLimit ?? bodyLimit) : 0;
    const bodyMemory = memoryOfBody(request, limit);
    // Not awaited yet: the body arrives during the key lookup. Its errors are thrown by `readInput`, after 401 and 403.
    if (limit > 0 && bodyMemory === 0) receiving = receiveBody(request, limit);
    const sharesTurn = route.kind === 'read' && store.credentials.isLocal;
    if (sharesTurn && (arrivesWithOthers(requestInfo.startedAt) || receiving)) await sharedTurn();
    const admitted = admit(applicant, context); // 400, 401, 403
    let principal = admitted instanceof Promise ? await admitted : admitted;
    if (route.onConsole) await continueSession(principal, context);
    else if (!context.signIn.acceptsKeys) countBreakGlass(principal, requestInfo, context);
    recordUse(route, principal, context);
    if (bodyMemory > 0) context.memory.for(principal, requestInfo).add(bodyMemory); // 429, 503
    if (limit > 0) receiving ??= receiveBody(request, limit);
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
    if (received?.late || reading) principal = await admit(applicant, context);
    const { call: input, bodyText } = reading
      ? await reading
      : readInput(route, principal, request, received, requestInfo); // 400, 413, 415, 429
    // The input of a large body was read for the principal before the second check.
    const call: Call = reading ? { ...input, principal } : input;
    if (route.isRaw) call.admit = (credentials) => admit(applicant as Applicant, context, credentials);
    if (route.bindsSession) call.jkt = keyOfNewSession(route, principal, request, requestInfo, context); // 400
    const read = route.kind === 'read' ? route.handle : previewOf(route, call);
    const work = read
      ? read(call, context)
      : runChange(route as ChangeRoute, call, request, bodyText, requestInfo, context);
    const reply = await (isLimited(principal)
      ? counted(work, read !== undefined && !route.spendsUse, call, context)
      : work);
    if (reply.disclosures || reply.report) {
      const operation = reply.isReplay ? replayOperation : operationOf(route);
      const written = recordDisclosures(operation, reply, principal, requestInfo, context);
      if (written) await written; // 503
    }
    if (principal.policy.quarantined)
      countQuarantinedRead(context, { route, request, principal, requestInfo }, reply);
    return respond(route, reply, principal, requestInfo, context);
  } catch (thrown) {
    requestInfo.reservation?.release();
    return await refuse(thrown, { route, applicant, request, receiving, requestInfo }, context);
  } finally {
    release?.();
    if (!requestInfo.reservation?.isSending) requestInfo.reservation?.release();
  }
}

type Refused = Omit<Parameters<typeof recordDenial>[1], 'route' | 'error' | 'principal'> & {
  route: Route;
  applicant: Applicant | undefined;
};

async function refuse(thrown: unknown, refused: Refused, context: HandlerContext): Promise<Response> {
  const { route, applicant, request, receiving, requestInfo } = refused;
  const principal = applicant?.principal;
  const error = principal ? await causeOf(thrown, applicant.key, context.store.credentials) : thrown;
  const denied = { principal, error, request, receiving, requestInfo };
  if (route.kind !== 'open') await recordDenial(context, { route, ...denied });
  if (route.kind !== 'open' && principal?.policy.quarantined)
    countQuarantinedNotFound(context, { route, request, principal, requestInfo }, error);
  const failure = context.checkReplies ? checkFailure(route, error) : error;
  const response = problemResponse(failure, requestInfo, context.log, {}, route.conventions?.keyChallenge);
  finishRequest(route, response.status, principal, requestInfo, context);
  // A connection with the rest of a body cannot be used again.
  if (takesBody(route) && isUnread(request, receiving, error)) response.headers.set('Connection', 'close');
  return closeIfStopping(response, context);
}

/** Renews the session of a person. */
async function continueSession(principal: Principal, { signIn, store }: HandlerContext): Promise<void> {
  const expiresAt = signIn.renewal(principal);
  if (expiresAt === undefined || !principal.authority) return;
  const { tenantId, authority } = principal;
  const { applicationId, keyId } = authority;
  const renew = (tx: StoreTransaction) => tx.keys.renew(tenantId, applicationId, keyId, expiresAt);
  // If this fails, for example on a full disk, the next request tries again.
  await store.change(tenantId, renew, applicationId).catch(() => {});
}

/** Rows of a tenant that moved to another installation are gone, also for a request that was authenticated before. */
async function causeOf(error: unknown, key: ParsedKey, credentials: Credentials): Promise<unknown> {
  if (!(error instanceof Failure) || !['unauthenticated', 'not_found'].includes(error.code)) return error;
  try {
    await credentials.find(key);
    return error;
  } catch (failure) {
    return failure;
  }
}

/** Does not record scoped permissions: the handler does, because it knows the container. */
function recordUse({ permission }: KeyedRoute, principal: Principal, { usage }: HandlerContext): void {
  usage.request(
    principal,
    permission !== undefined && hasTrait(permission, 'scoped') ? undefined : permission,
  );
}

function previewOf({ preview }: ChangeRoute, { query }: Call): ChangeRoute['preview'] {
  return (query as { dry_run?: boolean } | undefined)?.dry_run ? preview : undefined;
}

/** The errors of requests that passed authorization. */
const answered: ReadonlySet<number> = new Set([404, 409, 412, 422]);

/**
 * Waits for the reply, and spends a use of the delegation in a transaction before the response. A change that succeeds
 * has spent it already. Throws `unauthenticated` if no use is left.
 */
async function counted(
  work: Promise<Reply>,
  isRead: boolean,
  call: Call,
  context: HandlerContext,
): Promise<Reply> {
  const { principal } = call;
  const spend = () =>
    context.store.change(principal.tenantId, (tx) => spendUse(principal, tx), identityOf(principal).id);
  try {
    const reply = await work;
    if (isRead) await spend();
    return reply;
  } catch (error) {
    const isUse = error instanceof Failure && answered.has(problem(error.code).status);
    if (isUse || call.examined) await spend();
    throw error;
  }
}

const disconnected = 'The connection was closed before the change began, so it was not made.';

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
    // First, so that all transactions lock the delegation before other rows.
    if (isLimited(principal)) await spendUse(principal, tx);
    const changeContext = { ...context, store: tx };
    const earlier = idempotency && (await tx.idempotency.find(tenant, idempotency));
    if (earlier) {
      const reply = route.replay ? await route.replay(earlier, call, changeContext) : (earlier as Reply);
      return { ...reply, isReplay: true, headers: { ...reply.headers, 'Idempotency-Replayed': 'true' } };
    }
    const handled = await route.handle(call, changeContext);
    const { entity, operation, difference, resource, disclosures, search, idempotencyRecord, ...reply } =
      handled;
    const change = {
      operation: operation ?? operationOf(route),
      entity,
      ...(search && { search }),
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
  const entity = (params as { id?: string } | undefined)?.id ?? route.entityOf?.(call) ?? Symbol('new');
  const commit = () => context.store.change(tenant, inTransaction, entity, route.essential);
  try {
    if (!idempotency) return await commit();
    return await excludeConcurrent(context.idempotentRequests, tenant, idempotency, commit);
  } catch (error) {
    const { examined } = call;
    if (examined) await recordDisclosures(examined.operation, examined, principal, requestInfo, context); // 503
    throw error;
  }
}

function respond(
  route: Route,
  reply: Reply,
  principal: Principal | undefined,
  requestInfo: RequestInfo,
  context: HandlerContext,
): Response {
  if (context.checkReplies && !('isRaw' in route && route.isRaw)) checkReply(route, reply);
  // A change is already committed and a request to a destination was sent, so their replies must be sent.
  const mustBeSent = route.kind !== 'read' || route.spendsUse === true;
  const sendLarge = (json: JsonText) =>
    context.memory.for(principal as Principal, requestInfo).send(json, mustBeSent);
  const response = toResponse(reply, requestInfo, principal && sendLarge);
  finishRequest(route, reply.status, principal, requestInfo, context);
  return closeIfStopping(response, context);
}

/**
 * Returns the thumbprint of the key to which the new session is bound, or undefined if the request has no proof.
 * Throws `validation_failed` if the proof is invalid, or if it is missing and the application requires one.
 */
function keyOfNewSession(
  route: KeyedRoute,
  principal: Principal,
  request: Request,
  requestInfo: RequestInfo,
  context: HandlerContext,
): string | undefined {
  const { proofs } = context;
  const jwt = request.headers.get(dpopHeader);
  if (jwt === null) {
    const required = principal.kind === 'application' && principal.application.require_bound_sessions;
    if (required) throwIfInvalid({ [dpopHeader]: [missing] });
    return undefined;
  }
  requestInfo.dpop = { nonce: proofs.newNonce(principal.now) };
  const url = urlOf(request, baseOf(route, context));
  try {
    return proofs.checkNewKey(jwt, { method: request.method, url }, principal.now).jkt;
  } catch (error) {
    if (!(error instanceof ProofError)) throw error;
    const expected =
      error.message === 'is for another URL'
        ? `: expected ${url}; if a proxy changes the URL, the operator must set SALLYPORT_PUBLIC_URL`
        : '';
    throw fail('validation_failed', { errors: { [dpopHeader]: [error.message + expected] } });
  }
}

const missing =
  'is required: this application can create only bound sessions, so send a DPoP proof (RFC 9449)';

const idempotencyHeader = 'idempotency-key';

/** Returns undefined if the request has no idempotency key. Throws `validation_failed` if the key is invalid. */
function idempotencyOf(
  route: ChangeRoute,
  { principal, params }: Call,
  headers: Headers,
  bodyText: string,
): IdempotentRequest | undefined {
  const key = takesIdempotencyKey(route) ? headers.get(idempotencyHeader) : null;
  if (key === null) return undefined;
  if (!/^[\x21-\x7e]{1,255}$/.test(key)) {
    throwIfInvalid({ [idempotencyHeader]: ['must have 1 to 255 visible ASCII characters'] });
  }
  const target = `${route.method} ${route.path} ${JSON.stringify(params)}`;
  // A reply depends on the caller's grants, so a retry with other grants does not get the stored reply. A PUT is an
  // exception: its reply contains no secret, and it may have changed the caller's own grants.
  const { policy, ceiling } = principal;
  const person =
    principal.kind === 'application' && principal.person ? [principal.person.subject, principal.issuer] : [];
  const sameKey = route.replaysToSameKey ? [principal.authority?.keyId] : [];
  const grants =
    route.method === 'PUT' ? '' : JSON.stringify([policy.grants, ceiling?.grants, ...person, ...sameKey]);
  const { applicationId: application } = principal;
  const sent = `${target}\n${grants}\n${bodyText}`;
  // Nothing tells apart the browsers that share a public key: only an equal request gets the stored reply.
  const space = ownerOf(principal) === 'public' ? `${key}\n${sent}` : key;
  return { caller: identityOf(principal).id, application, key: space, request: sent };
}

/**
 * Throws `idempotency_running` if this process is already handling a request with the same idempotency key. Other
 * processes are excluded by a lock in the database.
 */
async function excludeConcurrent<T>(
  inProgress: Set<string>,
  tenant: string,
  { caller, key }: IdempotentRequest,
  run: () => Promise<T>,
): Promise<T> {
  const name = `${tenant} ${caller} ${key}`;
  if (inProgress.has(name)) throw fail('idempotency_running');
  inProgress.add(name);
  try {
    return await run();
  } finally {
    inProgress.delete(name);
  }
}
