/** One request, from its arrival to its response. A comment such as `// 429` is the status with which a step can fail. */
import type { Awaitable } from '../domain/awaitable.ts';
import { Failure, problem } from '../domain/error.ts';
import type { ParsedKey } from '../domain/key.ts';
import { hasTrait } from '../domain/permission.ts';
import { identityOf, type Principal } from '../domain/principal.ts';
import type { Credentials } from '../store/store.ts';
import { type Applicant, admit, isLimited, keyOfNewSession, presentedKey, spendUse } from './admit.ts';
import { countBreakGlass, countQuarantined, recordRefusal } from './pipeline/denials.ts';
import { disclosureEvents } from './pipeline/disclosures.ts';
import { inOwnTurn, refusalOf, responseTo } from './pipeline/finish-request.ts';
import type { Release } from './pipeline/quota.ts';
import {
  bodyLimit,
  declaredLength,
  inputSteps,
  isChunked,
  largeBody,
  memoryOfBody,
  type ReceivedBody,
  type RoutedRequest,
  readInput,
  receiveBody,
} from './pipeline/read-input.ts';
import type { RequestInfo } from './pipeline/request-info.ts';
import {
  type Call,
  type HandlerContext,
  type KeyedRoute,
  operationOf,
  type Reply,
  type Route,
  replayOperation,
  takesBody,
} from './pipeline/route.ts';
import { arrivesWithOthers, sharedTurn } from './pipeline/shared-turn.ts';
import { runChange } from './run-change.ts';

export function handleRequest(
  route: Route,
  request: RoutedRequest,
  info: RequestInfo,
  app: HandlerContext,
): Promise<Response> {
  return route.kind === 'open'
    ? handleOpen(route, request, info, app)
    : handleKeyed(new Turn(route, request, info, app));
}

async function handleOpen(
  route: Extract<Route, { kind: 'open' }>,
  request: RoutedRequest,
  info: RequestInfo,
  app: HandlerContext,
): Promise<Response> {
  try {
    return await inOwnTurn(responseTo(route, await route.handle(app, request, info), undefined, info, app));
  } catch (error) {
    const refusal = { route, request, error, principal: undefined, isRead: false };
    return inOwnTurn(refusalOf(refusal, info, app));
  }
}

async function handleKeyed(turn: Turn): Promise<Response> {
  try {
    turn.identify(); // 401, 429
    turn.beginBody(); // a small one arrives during the key lookup
    if (turn.canWait) await sharedTurn();
    const admitted = turn.admit(); // 400, 401, 403
    if (admitted instanceof Promise) await turn.unlessRefused(admitted); // 413
    const renewing = turn.recordUse();
    if (renewing) await renewing;
    const call = turn.hasBody ? await turn.readBody() : turn.read(undefined); // 400, 413, 415, 429, 503
    const reply = await turn.answer(call);
    const written = turn.disclose(reply);
    if (written) await written; // 503
    return turn.respond(reply);
  } catch (error) {
    return await turn.refuse(error);
  } finally {
    turn.release();
  }
}

/** A request that needs a key. Its steps are called in the order of `handleKeyed`. */
class Turn implements Applicant {
  readonly route: KeyedRoute;
  readonly request: RoutedRequest;
  readonly requestInfo: RequestInfo;
  readonly app: HandlerContext;
  readonly bodyLimit: number;
  key!: ParsedKey;
  principal: Principal | undefined;
  proven: string | undefined;
  #receiving: Promise<ReceivedBody> | undefined;
  #isRead = false;
  /** Whether the reason for a refusal is on disk, so that a power cut cannot undo it. */
  #isDurable = true;
  #releaseQuota: Release | undefined;

  constructor(route: KeyedRoute, request: RoutedRequest, requestInfo: RequestInfo, app: HandlerContext) {
    this.route = route;
    this.request = request;
    this.requestInfo = requestInfo;
    this.app = app;
    this.bodyLimit = takesBody(route) ? (route.bodyLimit ?? bodyLimit) : 0;
  }

  get hasBody(): boolean {
    return this.bodyLimit > 0;
  }

  identify(): void {
    const { app, request, requestInfo, route } = this;
    app.limits.takeAddress(requestInfo);
    this.key = presentedKey(request.headers, route);
    app.limits.takeRequest(requestInfo, 'key', () => this.key.digest.toHex());
    this.#isDurable = route.kind !== 'change';
  }

  /**
   * Its errors are thrown by `readBody`, after 401 and 403. Memory for a large body is reserved for a valid key only; Bun
   * has chunks in memory also if they are not read.
   */
  beginBody(): void {
    const { bodyLimit, hasBody, request } = this;
    if (hasBody && !this.#mayBeLarger && (isChunked(request) || memoryOfBody(request, bodyLimit) === 0))
      this.#receiving = receiveBody(request, bodyLimit);
  }

  get #mayBeLarger(): boolean {
    return this.route.largerBody !== undefined && (declaredLength(this.request) ?? 0) > this.bodyLimit;
  }

  /** Throws as soon as too many bytes or chunks arrive. While they do, awaited work does not end. */
  unlessRefused<T>(work: Promise<T>): Promise<T> {
    if (!this.#receiving || !isChunked(this.request)) return work;
    const refused = this.#receiving.then(({ failure }) => {
      if (failure?.code === 'too_large') throw failure;
      return work;
    });
    return Promise.race([work, refused]);
  }

  /** Whether reads that arrive together are handled together. */
  get canWait(): boolean {
    const { app, requestInfo, route } = this;
    if (route.kind !== 'read' || !app.store.credentials.isLocal) return false;
    return arrivesWithOthers(requestInfo.startedAt) || this.#receiving !== undefined;
  }

  /** Also after a late body, and with the credentials of a transaction. */
  admit(credentials?: Pick<Credentials, 'find'>): Awaitable<Principal> {
    return admit(this, this.app, credentials);
  }

  get #caller(): Principal {
    return this.principal as Principal;
  }

  /** Returns a promise if the session of a person is renewed. */
  recordUse(): Promise<void> | undefined {
    const { app, requestInfo, route } = this;
    const principal = this.#caller;
    // The handler records scoped permissions, because it knows the container.
    const { permission } = route;
    app.usage.request(principal, permission && hasTrait(permission, 'scoped') ? undefined : permission);
    if (route.servedTo === 'console') return app.signIn.renew(principal, app.store);
    if (!app.signIn.acceptsKeys) countBreakGlass(principal, requestInfo, app);
    return undefined;
  }

  async readBody(): Promise<Call> {
    const { app, request, requestInfo, route } = this;
    const caller = this.#caller;
    const larger = this.#mayBeLarger ? await route.largerBody?.(caller, request, app) : undefined;
    const limit = larger ?? this.bodyLimit;
    // A larger body is not parsed: it is in memory as it arrives, and as a whole.
    const memory = larger ? 2 * (declaredLength(request) ?? 0) : memoryOfBody(request, limit);
    if (memory > 0) app.memory.for(caller, requestInfo).add(memory);
    this.#receiving ??= receiveBody(request, limit);
    const received = await this.#receiving;
    if (received.failure && isChunked(request)) throw received.failure;
    this.#isRead = received.failure === undefined;
    const bodyBytes = received.bytes.length;
    // Before validation, so that rejected requests count, too.
    if (route.checkLimits)
      this.#releaseQuota = await route.checkLimits({ principal: caller, requestInfo, bodyBytes }, app);
    if (bodyBytes > largeBody) requestInfo.keepOpen();
    if (bodyBytes <= largeBody || (route.kind === 'change' && route.urgency)) {
      if (received.late) await this.admit();
      return this.read(received);
    }
    const reading = app.longWork.run(caller, inputSteps(route, caller, request, received, requestInfo));
    await reading.catch(() => {}); // thrown below, after 401 and 403
    await this.admit();
    return { ...(await reading), principal: this.#caller };
  }

  read(received: ReceivedBody | undefined): Call {
    return readInput(this.route, this.#caller, this.request, received, this.requestInfo);
  }

  /** A change is committed with its audit entry. A read spends a use of a limited delegation afterwards. */
  answer(call: Call): Promise<Reply> {
    const { app, route, requestInfo } = this;
    if (route.mayTakeLong || route.isRaw) requestInfo.keepOpen();
    if (route.isRaw) call.admit = (credentials) => this.admit(credentials);
    if (route.bindsSession) call.jkt = keyOfNewSession(this, app);
    const isPreview = (call.query as { dry_run?: boolean } | undefined)?.dry_run === true;
    const read = route.kind === 'read' ? route.handle : isPreview ? route.preview : undefined;
    this.#isDurable = true;
    const work = read
      ? read(call, app)
      : runChange(route as Exclude<KeyedRoute, { kind: 'read' }>, call, this.request, app);
    return isLimited(this.#caller) && !route.spendsNoUse
      ? this.#counted(work, read !== undefined && !route.isRaw, call)
      : work;
  }

  /** Waits for the reply, and spends a use of the delegation. Throws `unauthenticated` if no use is left. */
  async #counted(work: Promise<Reply>, isRead: boolean, call: Call): Promise<Reply> {
    const { principal } = call;
    const spend = () =>
      this.app.store.change(principal.tenantId, (tx) => spendUse(principal, tx), identityOf(principal).id);
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

  /** Undefined if no entry must be written before the response. */
  disclose(reply: Reply): Promise<void> | undefined {
    if (!reply.disclosures && !reply.report) return undefined;
    const operation = reply.isReplay ? replayOperation : operationOf(this.route);
    return this.app.trail.record(disclosureEvents(operation, reply, this.#caller, this.requestInfo));
  }

  respond(reply: Reply): Response {
    const { app, request, requestInfo, route } = this;
    const principal = this.#caller;
    if (principal.policy.quarantined) countQuarantined(app, route, request, principal, requestInfo, reply);
    return responseTo(route, reply, principal, requestInfo, app);
  }

  async refuse(thrown: unknown): Promise<Response> {
    const { app, principal, request, requestInfo, route } = this;
    requestInfo.reservation?.release();
    const receiving = this.#receiving;
    const error = principal ? await this.#causeOf(thrown) : thrown;
    if (!this.#isDurable || (error !== thrown && route.kind === 'change')) await app.store.durable();
    await recordRefusal(app, { route, principal, error, request, receiving, requestInfo });
    const isRead = this.#isRead;
    return inOwnTurn(refusalOf({ route, request, error, principal, isRead }, requestInfo, app));
  }

  /** Rows of a tenant that moved to another installation are gone, also for a request that was authenticated before. */
  async #causeOf(error: unknown): Promise<unknown> {
    if (!(error instanceof Failure) || !['unauthenticated', 'not_found'].includes(error.code)) return error;
    try {
      await this.app.store.credentials.find(this.key);
      return error;
    } catch (failure) {
      return failure;
    }
  }

  release(): void {
    const { reservation } = this.requestInfo;
    this.#releaseQuota?.();
    if (!reservation?.isSending) reservation?.release();
  }
}

/** The errors of requests that passed authorization. */
const answered: ReadonlySet<number> = new Set([404, 409, 412, 422]);
