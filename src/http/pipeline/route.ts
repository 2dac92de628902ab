/** Types and helpers to declare endpoints and routes. */

import { isDeepStrictEqual } from 'node:util';
import type { z } from 'zod';
import type { Disclosure, Trail } from '../../audit/trail.ts';
import type { Difference, Entry, EntryDecision, EntryResource } from '../../domain/audit.ts';
import type { Awaitable } from '../../domain/awaitable.ts';
import type { Position } from '../../domain/database-position.ts';
import { type Code, Failure } from '../../domain/error.ts';
import type { Owner } from '../../domain/grant.ts';
import { JsonText } from '../../domain/json-text.ts';
import type { Secret } from '../../domain/key.ts';
import type { BuiltIn } from '../../domain/permission.ts';
import type { Resource } from '../../domain/policy.ts';
import type { Principal } from '../../domain/principal.ts';
import type { Steps } from '../../domain/steps.ts';
import type { Outbound } from '../../outbound/destinations.ts';
import type { Store, StoreTransaction } from '../../store/store.ts';
import type { Log } from '../../telemetry/log.ts';
import type { Observer, RequestTracer } from '../../telemetry/observe.ts';
import type { Proofs } from '../dpop/proofs.ts';
import type { IssuerKeys } from '../oauth/issuer-keys.ts';
import type { SignIn } from '../oauth/sign-in.ts';
import type { Tag } from '../reference/tags.ts';
import type { RequireMatch } from './etag.ts';
import type { Limits } from './limits.ts';
import type { LongWork } from './long-work.ts';
import type { Quota, Release } from './quota.ts';
import type { RequestCounter } from './request-counter.ts';
import type { RequestInfo } from './request-info.ts';
import type { RequestMemory } from './request-memory.ts';
import type { UsageRecorder } from './usage-recorder.ts';

/** The dependencies of handlers. In the handler of a change, `store` is bound to the transaction. */
export interface HandlerContext<S = Store> {
  readonly store: S;
  readonly log: Log;
  readonly trail: Trail;
  readonly limits: Limits;
  readonly pendingSessions: Quota;
  readonly delegations: Quota;
  /** Sessions with long rules, by the application that authorized them. */
  readonly longRules: Quota;
  /** Stored bytes per application: tokens and idempotency records. */
  readonly storage: Quota;
  /** The storage quota in bytes. Undefined if unlimited. */
  readonly storageQuota: number | undefined;
  readonly longWork: LongWork;
  readonly memory: RequestMemory;
  /** Connections to destinations. */
  readonly outbound: Outbound;
  readonly usage: UsageRecorder;
  readonly requestCounter: RequestCounter;
  readonly observer: Observer;
  /** Undefined if traces are off. */
  readonly tracer: RequestTracer | undefined;
  /** Whether metrics or the debug log record every request. */
  readonly observed: boolean;
  /** Requests with an idempotency key that this process is handling. */
  readonly idempotentRequests: Set<string>;
  /** The console link that the first start prints. */
  readonly link: { take(code: string): Secret | undefined } | undefined;
  /** The URL that clients use, if it is configured. */
  readonly publicUrl: string | undefined;
  /** The origin of the frames, if it is configured. */
  readonly framesUrl: string | undefined;
  /** Checks the DPoP proofs of bound sessions. */
  readonly proofs: Proofs;
  readonly issuerKeys: IssuerKeys;
  /** Sign-in to the console by name. */
  readonly signIn: SignIn;
  readonly sessionTtl: number;
  readonly sessionTtlMax: number;
  /** False once the process is shutting down. */
  readonly ready: () => boolean;
  /** The newest position of a PostgreSQL database that this node has seen. */
  readonly position: () => Position | undefined;
  /** What `/readyz` says about the program. */
  readonly running: { readonly version: string; readonly schema: number };
  /** In tests: a reply or error that the endpoint does not declare is an internal error. */
  readonly checkReplies: boolean;
}

/** An authenticated request with validated input. */
export interface Call<P = unknown, Q = unknown, B = unknown> {
  readonly principal: Principal;
  readonly params: P;
  readonly query: Q;
  readonly body: B;
  /** The received body, unchanged. Empty without a body. */
  readonly bodyText: string;
  /** The thumbprint of the key of the request's DPoP proof, if the endpoint has `bindsSession`. */
  jkt?: string | undefined;
  /** Set by changes whose errors depend on stored token data. If the change fails, it is recorded like a reply. */
  examined?: Pick<Reply, 'disclosures' | 'search'> & { readonly operation: string };
  /** What `prepare` of the endpoint returned. */
  prepared?: unknown;
  /** Checks `If-Match`, if the endpoint has `takesIfMatch`. Call it with the locked row, after all access checks. */
  readonly requireMatch: RequireMatch;
  readonly requestInfo: RequestInfo;
  /** Only if the endpoint has `isRaw`. */
  readonly request?: Request & { readonly params?: Readonly<Record<string, string>> };
  /** Only if the endpoint has `isRaw`: repeats all checks of the key with the credentials of a transaction. */
  admit?: (credentials: StoreTransaction['credentials']) => Awaitable<Principal>;
}

/** The parts of a request that `checkLimits` of an endpoint needs. */
export interface LimitedRequest {
  readonly principal: Principal;
  readonly requestInfo: RequestInfo;
  readonly bodyBytes: number;
}

/** Decisions about `actor` that the caller wants to have in the audit log. */
export interface Report {
  readonly actor: Principal;
  /** The purpose of the actor's request. If undefined, that of the caller. */
  readonly purpose?: string | undefined;
  readonly operation: string;
  readonly disclosures: readonly Disclosure[];
  readonly denials: readonly { readonly decision: EntryDecision; readonly resource: EntryResource }[];
}

export interface Reply {
  readonly status: number;
  readonly body?: unknown;
  /** Added to the headers that every response has. The body is JSON unless this contains Content-Type. */
  readonly headers?: Record<string, string>;
  /** Whether the reply repeats that of an earlier request with the same idempotency key. */
  readonly isReplay?: boolean;
  /** The token data in the body, for the audit log. */
  readonly disclosures?: readonly Disclosure[];
  /** Replies of searches: the field `search` of the audit entry, which is written also if no token was found. */
  readonly search?: Entry['search'];
  /** Decisions to record in the audit log. */
  readonly report?: Report | undefined;
}

/** What the audit entry of a change says. */
interface ChangeEntry extends Pick<Reply, 'disclosures' | 'search'> {
  readonly entity: NonNullable<Entry['entity']>;
  /** The operation of the audit entry, if it is not that of the endpoint. */
  readonly operation?: string;
  readonly difference?: Difference;
  /** The token that was changed, if `disclosures` does not contain it. */
  readonly resource?: Resource | readonly Resource[];
}

export interface ChangeReply extends Reply, ChangeEntry {
  /** A change of several tokens: one entry for each, instead of one for the reply. */
  readonly entries?: readonly ChangeEntry[];
  /** Stored for idempotent retries in place of the reply; `replay` turns it into a reply again. */
  readonly idempotencyRecord?: unknown;
}

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

interface DeclaredReply {
  readonly description: string;
  readonly schema?: z.ZodType;
  readonly example?: unknown;
  /** Headers of this reply, as named in src/http/reference/openapi-headers.ts. */
  readonly headers?: readonly string[];
}

/** Declares a reply with a JSON body. */
export function reply(description: string, schema: z.ZodType, example: unknown): DeclaredReply {
  return { description, schema, example };
}

/** How an endpoint whose clients follow another standard differs from the rest of the API. */
export interface Conventions {
  /** Returns the key of a request without `SVC-API-KEY`, or null. */
  readonly otherKey: (headers: Headers) => string | null;
  /** `WWW-Authenticate` of a 401. Names both ways to send the key. */
  readonly keyChallenge: string;
  readonly wrongContentType?: () => Failure;
  /** Request header with the caller's request id. Every response repeats it unchanged. */
  readonly requestIdHeader?: string;
}

/** When an endpoint was deprecated and from when it may be missing, as dates, and the URL of a page about it. */
export interface Deprecation {
  readonly since: string;
  readonly sunset: string;
  readonly link: string;
}

interface EndpointDocs {
  /** The operation's name in OpenAPI and the SDK. */
  readonly name: string;
  readonly tag: Tag;
  readonly summary: string;
  readonly description?: string;
  readonly conventions?: Conventions;
  /** Announced in OpenAPI and in every response, see docs/reference/versioning.md. */
  readonly deprecated?: Deprecation;
  /** By HTTP status. */
  readonly replies: Record<number, DeclaredReply>;
  /** Error codes in addition to those of `failuresOf`. */
  readonly failures?: readonly Code[];
  /** Whether the reply has an `ETag`, and whether the handler checks `If-Match` with `requireMatch`. */
  readonly etag?: 'sent' | 'checked' | 'both';
}

/** `P`, `Q` and `B` are the types of the validated path parameters, query and body. */
interface KeyedEndpoint<P, Q, B> extends EndpointDocs {
  /** The operation's name in the audit log, if it does not follow from the permission. */
  readonly operation?: string;
  /** Checks limits of this endpoint before the input is validated. Throws if one is exceeded. */
  readonly checkLimits?: (request: LimitedRequest, context: HandlerContext) => Promise<Release | undefined>;
  readonly params?: z.ZodType<P>;
  readonly query?: z.ZodType<Q>;
  readonly body?: z.ZodType<B>;
  /** Used as the body of a request without one. If undefined, a body is required. */
  readonly bodyIfMissing?: unknown;
  readonly bodyLimit?: number;
  readonly bodyExample?: unknown;
  /** Whether the handler can take more than a few seconds while other long requests run. */
  readonly mayTakeLong?: true;
  /**
   * Whether the handler passes the request on: it reads path, query and body itself, spends a use of a limited delegation,
   * may take long and may return any status. `body` is a `ReceivedBody`.
   */
  readonly isRaw?: true;
  /** Only with `isRaw`: how many bytes this body may have, if it declares more than `bodyLimit`. */
  readonly largerBody?: (
    principal: Principal,
    request: NonNullable<Call['request']>,
    context: HandlerContext,
  ) => Promise<number | undefined>;
  /** Whether a request spends no use of a limited delegation, for what a caller asks before it uses something. */
  readonly spendsNoUse?: true;
  /** Whether a DPoP proof in the request binds the new session. */
  readonly bindsSession?: true;
}

interface ReadDeclaration<P = unknown, Q = unknown, B = unknown> extends KeyedEndpoint<P, Q, B> {
  readonly handle: (call: Call<P, Q, B>, context: HandlerContext) => Promise<Reply>;
}

interface ChangeDeclaration<P = unknown, Q = unknown, B = unknown> extends KeyedEndpoint<P, Q, B> {
  /**
   * Who gets the stored reply to an `Idempotency-Key`, by default every key of the application. `same key`: the reply has
   * a secret, or the result ends with the key. `never`: browsers share a public key, and could get each other's replies.
   */
  readonly retries?: 'same key' | 'never';
  /**
   * Such a change succeeds at any storage quota, and its body is read before long requests. One that takes access away is
   * also made on a full disk.
   */
  readonly urgency?: 'takes access away' | 'authorizes';
  /** Builds the reply to a retry from `idempotencyRecord`. Throws `idempotency_outdated` if that is not possible. */
  readonly replay?: (
    idempotencyRecord: unknown,
    call: Call<P, Q, B>,
    context: HandlerContext<StoreTransaction>,
  ) => Promise<Reply>;
  /** Called instead of `handle` if the query has `dry_run`. Changes nothing, so no audit entry is written. */
  readonly preview?: (call: Call<P, Q, B>, context: HandlerContext) => Promise<Reply>;
  /** Names what a request without an id in its path changes. Changes of the same entity run one after another. */
  readonly entityOf?: (call: Call<P, Q, B>) => string | undefined;
  /** Whether it writes so much that no other change should share its transaction. */
  readonly isAlone?: true;
  /**
   * Computes `call.prepared` before the transaction, in slices that count as processing time. It runs also before a
   * replay, so it must not throw because of the input.
   */
  readonly prepare?: (call: Call<P, Q, B>, context: HandlerContext) => Steps<unknown>;
  /** Computes `call.prepared` before the transaction from what is stored, which can change until then. */
  readonly find?: (call: Call<P, Q, B>, context: HandlerContext) => Promise<unknown>;
  /** Runs in a transaction, so it may await only the store. */
  readonly handle: (call: Call<P, Q, B>, context: HandlerContext<StoreTransaction>) => Promise<ChangeReply>;
}

/** The requirement of a route: a permission, a key of certain types of applications or sessions, or no key. */
type Requirement = BuiltIn | KeysOf | typeof noKey;
interface KeysOf {
  readonly callers: readonly Owner[];
}
export const noKey = 'no key';

export function keysOf(...callers: Owner[]): KeysOf {
  return { callers };
}

export const anyKey = keysOf('management', 'private', 'public', 'session', 'delegation');

type OpenEndpoint = EndpointDocs & {
  readonly kind: 'open';
  /** Only for the API reference: the handler reads and validates the body. */
  readonly body?: z.ZodType;
  /** If it is not JSON. */
  readonly bodyType?: string;
  readonly bodyLimit?: number;
  readonly bodyExample?: unknown;
  readonly handle: (context: HandlerContext, request: Request, requestInfo: RequestInfo) => Promise<Reply>;
};
type ReadEndpoint = ReadDeclaration & { readonly kind: 'read' };
type ChangeEndpoint = ChangeDeclaration & { readonly kind: 'change' };
export type Endpoint = OpenEndpoint | ReadEndpoint | ChangeEndpoint;

interface RoutePath {
  readonly method: Method;
  readonly path: string;
  /**
   * Served on the origin of the frames instead of that of the API, or only to pages of the console. There, if the route
   * needs a key, that is the cookie of a person.
   */
  readonly servedTo?: 'frames' | 'console';
}
interface RouteAccess {
  /** The permission that the caller must hold. For `token:*` the handler also checks the token's container. */
  readonly permission?: BuiltIn;
  readonly callers?: readonly Owner[];
}
export type OpenRoute = OpenEndpoint & RoutePath;
export type ReadRoute = ReadEndpoint & RoutePath & RouteAccess;
export type ChangeRoute = ChangeEndpoint & RoutePath & RouteAccess;
export type KeyedRoute = ReadRoute | ChangeRoute;
export type Route = OpenRoute | KeyedRoute;

export function route(method: Method, path: string, required: Requirement, endpoint: Endpoint): Route {
  if ((required === noKey) !== (endpoint.kind === 'open'))
    throw new Error(`${method} ${path}: the route and its endpoint disagree on whether a key is required`);
  if (endpoint.kind === 'open') return { ...endpoint, method, path };
  const access = typeof required === 'object' ? required : { permission: required as BuiltIn };
  return { ...endpoint, ...access, method, path };
}

/** Declares an endpoint that requires a key and changes nothing. */
export function readEndpoint<P, Q, B>(declaration: ReadDeclaration<P, Q, B>): Endpoint {
  return { ...(declaration as unknown as ReadDeclaration), kind: 'read' };
}

/** Declares an endpoint that requires a key and changes data, in one transaction with its audit entry. */
export function changeEndpoint<P, Q, B>(declaration: ChangeDeclaration<P, Q, B>): Endpoint {
  return { ...(declaration as unknown as ChangeDeclaration), kind: 'change' };
}

/** Declares an endpoint that requires no key. */
export function openEndpoint(declaration: Omit<OpenEndpoint, 'kind'>): Endpoint {
  return { ...declaration, kind: 'open' };
}

export function takesBody({ method }: Route): boolean {
  return method !== 'GET' && method !== 'DELETE';
}

/** The operation's name in the audit log. */
export function operationOf({ operation, permission, name }: KeyedRoute): string {
  return operation ?? permission?.replace(':', '.') ?? name;
}

/** The operation of an idempotent replay, which discloses data again without a change. */
export const replayOperation = 'token.replay';

export function failuresOf(route: Route): Code[] {
  if (route.kind === 'open') return [...(route.failures ?? [])];
  const common: Code[] = [
    'validation_failed',
    'unauthenticated',
    'origin_refused',
    'network_refused',
    'tenant_moved',
    'too_many_requests',
    'unavailable',
    'disk_full',
  ];
  if (route.permission) common.push('permission_missing');
  if (route.callers) common.push('key_type_refused');
  if (route.kind === 'change') common.push('quarantined');
  if (takesBody(route)) common.push('too_large');
  if (takesBody(route) && !route.conventions?.wrongContentType) common.push('unsupported_media_type');
  if (takesIdempotencyKey(route)) common.push('idempotency_running', 'idempotency_mismatch');
  if (takesIdempotencyKey(route) && !(route as ChangeRoute).urgency) common.push('storage_full');
  if (takesIfMatch(route)) common.push('changed_meanwhile');
  return [...new Set([...common, ...(route.failures ?? [])])];
}

export function takesIdempotencyKey(route: Route): boolean {
  return route.kind === 'change' && takesBody(route) && route.retries !== 'never';
}

export function sendsEtag({ etag }: Route): boolean {
  return etag === 'sent' || etag === 'both';
}

export function takesIfMatch({ etag }: Route): boolean {
  return etag === 'checked' || etag === 'both';
}

/**
 * Throws if the reply has an undeclared status or field, or lacks a declared header. Parsing with the schema removes
 * undeclared fields.
 */
export function checkReply(route: Route, reply: Reply): void {
  const declared = route.replies[reply.status];
  if (reply.headers?.ETag !== undefined && !sendsEtag(route))
    throw new Error(`${route.name} returned an ETag that it does not declare`);
  for (const name of declared?.headers ?? [])
    if (reply.headers?.[name] === undefined)
      throw new Error(`${route.name} returned ${reply.status} without ${name}`);
  if (declared && (!declared.schema || reply.body instanceof Uint8Array)) return;
  const body = reply.body instanceof JsonText ? reply.body.value() : reply.body;
  const parsed = declared?.schema?.parse(body);
  if (declared && isDeepStrictEqual(asJson(body), asJson(parsed))) return;
  throw new Error(`${route.name} returned ${reply.status} with a body that it does not declare`);
}

/** Returns the error, or an internal error if the route does not declare its code. */
export function checkFailure(route: Route, error: unknown): unknown {
  if (!(error instanceof Failure) || failuresOf(route).includes(error.code)) return error;
  return new Error(`${route.name} failed with ${error.code}, which it does not declare`);
}

function asJson(value: unknown): unknown {
  return value === undefined ? undefined : JSON.parse(JSON.stringify(value));
}
