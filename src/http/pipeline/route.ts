/** What an endpoint declares, and its place in the route table. */
import type { z } from 'zod';
import type { Difference, Entry } from '../../domain/audit.ts';
import type { Awaitable } from '../../domain/awaitable.ts';
import type { Code } from '../../domain/error.ts';
import type { Owner } from '../../domain/grant.ts';
import type { BuiltIn } from '../../domain/permission.ts';
import type { Principal } from '../../domain/principal.ts';
import type { Log } from '../../log.ts';
import type { Observer } from '../../observe.ts';
import type { Store, StoreTransaction } from '../../store/store.ts';
import type { Tag } from '../reference/tags.ts';
import type { DenialLog } from './denial-log.ts';
import type { LargeReplies } from './large-replies.ts';
import type { Limits, Quotas } from './limits.ts';
import type { OneUseLink } from './one-use-link.ts';
import type { PendingSessionLimit } from './pending-sessions.ts';
import type { RequestInfo } from './request-info.ts';
import type { UsageRecorder } from './usage-recorder.ts';

/** What the handlers work with. In a change, `store` is bound to its transaction. */
export interface HandlerContext<S = Store> {
  readonly store: S;
  readonly log: Log;
  readonly denials: DenialLog;
  readonly limits: Limits;
  readonly pendingSessions: PendingSessionLimit;
  readonly largeReplies: LargeReplies;
  /** Bytes of tokens that an application may store. */
  readonly storage: PendingSessionLimit;
  /** The same as a number; undefined if there is no limit. */
  readonly storageQuota: number | undefined;
  readonly usage: UsageRecorder;
  readonly observer: Observer;
  /** Whether anybody wants to know of every single request. */
  readonly observed: boolean;
  /** The repeatable requests that this process is answering. */
  readonly underWay: Set<string>;
  /** To the console, after a first start. */
  readonly link: OneUseLink | undefined;
  readonly sessionTtl: number;
  readonly sessionTtlMax: number;
  /** False from the moment the program was told to stop. */
  readonly ready: () => boolean;
  /** In tests: a reply that its route does not declare is an error. */
  readonly checkReplies: boolean;
}

export interface Call<P, Q, B> {
  readonly principal: Principal;
  readonly params: P;
  readonly query: Q;
  readonly body: B;
}

/** Who is about to be served, and from where. */
export interface Admission {
  readonly principal: Principal;
  readonly where: RequestInfo;
  readonly quotas: Quotas;
  /** The size of the body. */
  readonly bytes: number;
}

export interface Reply {
  readonly status: number;
  readonly body?: unknown;
  /** Beside those that every response has. The body is JSON unless a Content-Type says otherwise. */
  readonly headers?: Record<string, string>;
  /** Whether the body is an object that will be answered with again and never changes. */
  readonly lasting?: boolean;
}

/** What a change answers, and what the audit log says of it. */
export interface Changed extends Reply {
  readonly entity: NonNullable<Entry['entity']>;
  readonly difference?: Difference;
  /** What is remembered for a repeated request, if not the reply as it is; the route's `replay` makes a reply of it. */
  readonly kept?: unknown;
}

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

interface Described {
  /** The operation's name in OpenAPI and the SDK. */
  readonly name: string;
  readonly tag: Tag;
  readonly summary: string;
  readonly description?: string;
  readonly replies: Record<number, { description: string; schema?: z.ZodType; example?: unknown }>;
  /** Beside those that every route of its shape can have. */
  readonly failures?: readonly Code[];
}

interface Guarded<P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType> extends Described {
  /** Its name in the audit log, if that is not the permission's. */
  readonly operation?: string;
  /**
   * Throws if there are too many already; asked before the request is handled. Answers with what to call when
   * that is done.
   */
  readonly enter?: (entering: Admission, context: HandlerContext) => Awaitable<() => void>;
  readonly params?: P;
  readonly query?: Q;
  readonly body?: B;
  readonly bodyLimit?: number;
  readonly bodyExample?: unknown;
}

type CallOf<P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType> = Call<
  z.output<P>,
  z.output<Q>,
  z.output<B>
>;

interface Reading<P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType> extends Guarded<P, Q, B> {
  readonly handle: (call: CallOf<P, Q, B>, context: HandlerContext) => Awaitable<Reply>;
}

interface Changing<P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType> extends Guarded<P, Q, B> {
  /** False where the callers share a key, and one could be handed the answer of another. */
  readonly repeatable?: false;
  /**
   * Where an answer is not remembered whole: makes the reply to a repeated request of what was kept, so that it
   * shows nothing that is no longer there to be seen.
   */
  readonly replay?: (
    kept: unknown,
    call: CallOf<P, Q, B>,
    context: HandlerContext<StoreTransaction>,
  ) => Promise<Reply>;
  /** Runs within one transaction: it awaits nothing but the store. */
  readonly handle: (call: CallOf<P, Q, B>, context: HandlerContext<StoreTransaction>) => Awaitable<Changed>;
}

/** Who may call: holders of a permission, keys of some kinds of owners, or anyone without a key. */
export type Access = BuiltIn | KeysOf | typeof noKey;
interface KeysOf {
  readonly callers: readonly Owner[];
}
export const noKey = 'no key';

export function keysOf(...callers: Owner[]): KeysOf {
  return { callers };
}

type Any = z.ZodType;
type OpenEndpoint = Described & {
  readonly kind: 'open';
  readonly handle: (context: HandlerContext, request: Request) => Awaitable<Reply>;
};
type ReadEndpoint = Reading<Any, Any, Any> & { readonly kind: 'read' };
type ChangeEndpoint = Changing<Any, Any, Any> & { readonly kind: 'change' };
type GuardedEndpoint = ReadEndpoint | ChangeEndpoint;
export type Endpoint = OpenEndpoint | GuardedEndpoint;

interface Placed {
  readonly method: Method;
  readonly path: string;
}
interface Guard {
  /** What the caller must hold. For permissions on data, the handler checks the token too. */
  readonly permission?: BuiltIn;
  readonly callers?: readonly Owner[];
}
export type OpenRoute = OpenEndpoint & Placed;
export type ReadRoute = ReadEndpoint & Placed & Guard;
export type ChangeRoute = ChangeEndpoint & Placed & Guard;
export type GuardedRoute = ReadRoute | ChangeRoute;
export type Route = OpenRoute | GuardedRoute;

/** One line of the route table. */
export function route(method: Method, path: string, access: Access, endpoint: Endpoint): Route {
  if ((access === noKey) !== (endpoint.kind === 'open'))
    throw new Error(`${method} ${path}: the handler and the route disagree on whether a key is needed`);
  if (endpoint.kind === 'open') return { ...endpoint, method, path };
  const guard = typeof access === 'object' ? access : { permission: access as BuiltIn };
  return { ...endpoint, ...guard, method, path };
}

/** An endpoint that needs a key and changes nothing. */
export function readEndpoint<P extends z.ZodType<object>, Q extends z.ZodType<object>, B extends z.ZodType>(
  declaration: Reading<P, Q, B>,
): Endpoint {
  return { ...(declaration as unknown as Reading<Any, Any, Any>), kind: 'read' };
}

/** An endpoint that needs a key and changes data: once, together with its audit entry, or not at all. */
export function changeEndpoint<P extends z.ZodType<object>, Q extends z.ZodType<object>, B extends z.ZodType>(
  declaration: Changing<P, Q, B>,
): Endpoint {
  return { ...(declaration as unknown as Changing<Any, Any, Any>), kind: 'change' };
}

/** An endpoint that needs no key. */
export function openEndpoint(declaration: Omit<OpenEndpoint, 'kind'>): Endpoint {
  return { ...declaration, kind: 'open' };
}

export function takesBody({ method }: Route): boolean {
  return method !== 'GET' && method !== 'DELETE';
}

export function operationOf({ operation, permission, name }: GuardedRoute): string {
  return operation ?? permission?.replace(':', '.') ?? name;
}

/** Every code that the route can answer with: those of its shape, and those it names. */
export function failuresOf(route: Route): Code[] {
  if (route.kind === 'open') return [...(route.failures ?? [])];
  const shape: Code[] = [
    'validation_failed',
    'unauthenticated',
    'origin_refused',
    'too_many_requests',
    'unavailable',
  ];
  if (route.permission) shape.push('permission_missing');
  if (route.callers) shape.push('key_type_refused');
  if (takesBody(route)) shape.push('too_large', 'unsupported_media_type');
  if (isRepeatable(route)) shape.push('idempotency_running', 'idempotency_mismatch');
  return [...new Set([...shape, ...(route.failures ?? [])])];
}

/** Whether an Idempotency-Key is heeded. */
export function isRepeatable(route: Route): boolean {
  return route.kind === 'change' && takesBody(route) && route.repeatable !== false;
}
