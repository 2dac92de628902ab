/** What an endpoint declares, and how a request walks through it. */
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { type Code, Failure, fail } from '../domain/error.ts';
import type { Owner } from '../domain/grant.ts';
import type { BuiltIn } from '../domain/permission.ts';
import { mustHold, ownerOf, type Principal } from '../domain/principal.ts';
import type { Log } from '../log.ts';
import type { Awaitable, Store } from '../store/store.ts';
import { authenticate } from './authenticate.ts';
import { jsonTypes, mergePatchTypes, readJson } from './body.ts';
import { headersWith } from './headers.ts';
import { problemResponse, type Where } from './problem.ts';
import { readQuery } from './query.ts';
import type { Tag } from './tags.ts';
import { validate } from './validate.ts';

/** What the handlers work with. */
export interface World {
  readonly store: Store;
  readonly log: Log;
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

export interface Reply {
  readonly status: number;
  readonly body?: unknown;
  /** JSON unless it says otherwise. */
  readonly headers?: Record<string, string>;
}

interface Described {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly path: string;
  /** The operation's name in OpenAPI and the SDK. */
  readonly name: string;
  readonly tag: Tag;
  readonly summary: string;
  readonly description?: string;
  readonly replies: Record<number, { description: string; schema?: z.ZodType; example?: unknown }>;
}

interface Guarded<P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType> extends Described {
  /** What the caller must hold. Where it is about data, the handler asks once more about the very Token. */
  readonly permission?: BuiltIn;
  /** Whose keys are accepted, where not everyone's are. */
  readonly callers?: readonly Owner[];
  readonly params?: P;
  readonly query?: Q;
  readonly body?: B;
  readonly bodyLimit?: number;
  readonly bodyExample?: unknown;
  /** Beside those that every route of its shape can have. */
  readonly failures?: readonly Code[];
  readonly handle: (call: Call<z.output<P>, z.output<Q>, z.output<B>>, world: World) => Awaitable<Reply>;
}

interface Open extends Described {
  readonly open: true;
  readonly failures?: readonly Code[];
  readonly handle: (world: World) => Awaitable<Reply>;
}

type AnyGuarded = Guarded<z.ZodType, z.ZodType, z.ZodType>;
export type Route = (AnyGuarded & { readonly open?: never }) | Open;

/** An endpoint behind a key. */
export function route<P extends z.ZodType<object>, Q extends z.ZodType<object>, B extends z.ZodType>(
  declaration: Guarded<P, Q, B>,
): Route {
  return declaration as unknown as AnyGuarded;
}

/** An endpoint that anyone may call. */
export function openRoute(declaration: Omit<Open, 'open'>): Route {
  return { ...declaration, open: true };
}

export const bodyLimit = 65_536;

/** Every request walks these steps, in this order. */
export async function run(
  route: Route,
  request: Request,
  params: object,
  where: Where,
  world: World,
): Promise<Response> {
  try {
    if (route.open) return respond(route, await route.handle(world), where, world);
    const principal = await authenticate(request.headers, world.store.credentials);
    admit(route, principal);
    const call: Call<unknown, unknown, unknown> = {
      principal,
      params: route.params && validate(route.params, params, 'path'),
      query: readQuery(route.query, request.url),
      body: await readBody(route, request),
    };
    return respond(route, await route.handle(call, world), where, world);
  } catch (error) {
    return problemResponse(world.checkReplies ? declaredFailure(route, error) : error, where, world.log);
  }
}

/** Every code that the route can answer with: those of its shape, and those it names. */
export function failuresOf(route: Route): Code[] {
  if (route.open) return [...(route.failures ?? [])];
  const takesBody = route.method !== 'GET' && route.method !== 'DELETE';
  const shape: Code[] = ['validation_failed', 'unauthenticated', 'unavailable'];
  if (route.permission) shape.push('permission_missing');
  if (route.callers) shape.push('key_type_refused');
  if (takesBody) shape.push('too_large', 'unsupported_media_type');
  return [...new Set([...shape, ...(route.failures ?? [])])];
}

function admit(route: AnyGuarded, principal: Principal): void {
  const owner = ownerOf(principal);
  if (route.callers && !route.callers.includes(owner)) {
    const accepted = `This takes the key of a ${route.callers.join(' or ')} Application`;
    const shown = owner === 'session' ? 'a Session' : `a ${owner} Application`;
    throw fail('key_type_refused', { detail: `${accepted}; this is the key of ${shown}.` });
  }
  if (route.permission) mustHold(principal, route.permission);
}

/** What an operation that takes no body puts up with, since some clients always send an object. */
const NoFields = z.strictObject({});

async function readBody(route: AnyGuarded, request: Request): Promise<unknown> {
  if (route.method === 'GET' || route.method === 'DELETE') return undefined;
  const types = route.method === 'PATCH' ? mergePatchTypes : jsonTypes;
  const body = await readJson(request, route.bodyLimit ?? bodyLimit, types);
  if (route.body) return validate(route.body, body, 'body');
  return body === undefined ? undefined : validate(NoFields, body, 'body');
}

function respond(route: Route, reply: Reply, where: Where, world: World): Response {
  if (world.checkReplies) checkReply(route, reply);
  const json = reply.headers === undefined && reply.body !== undefined;
  const headers = headersWith(
    where.requestId,
    json ? { 'Content-Type': 'application/json' } : (reply.headers ?? {}),
  );
  const body = json ? JSON.stringify(reply.body) : ((reply.body ?? null) as string | null);
  return new Response(body, { status: reply.status, headers });
}

function declaredFailure(route: Route, error: unknown): unknown {
  if (!(error instanceof Failure) || failuresOf(route).includes(error.code)) return error;
  return new Error(`${route.name} failed with ${error.code}, which it does not declare`);
}

/** A field that is not declared would be stripped by its schema, and so show as a difference. */
function checkReply(route: Route, reply: Reply): void {
  const declared = route.replies[reply.status];
  const allowed = declared?.schema ? declared.schema.parse(reply.body) : reply.body;
  if (declared && isDeepStrictEqual(plain(reply.body), plain(allowed))) return;
  throw new Error(`${route.name} answered ${reply.status} in a shape that it does not declare`);
}

function plain(value: unknown): unknown {
  return value === undefined ? undefined : JSON.parse(JSON.stringify(value));
}
