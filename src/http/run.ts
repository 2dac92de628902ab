/** How a request walks through its route. */
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { Failure, fail } from '../domain/error.ts';
import { mustHold, ownerOf, type Principal } from '../domain/principal.ts';
import { authenticate } from './authenticate.ts';
import { type Json, jsonTypes, mergePatchTypes, readJson } from './body.ts';
import { change, repeatable } from './change.ts';
import { headersWith } from './headers.ts';
import { Quotas } from './limits.ts';
import { problemResponse } from './problem.ts';
import { readQuery } from './query.ts';
import {
  failuresOf,
  type GuardedRoute,
  operationOf,
  type Reply,
  type Route,
  takesBody,
  type World,
} from './route.ts';
import { validate } from './validate.ts';
import type { Where } from './where.ts';

export const bodyLimit = 65_536;

/** Every request walks these steps, in this order. */
export async function run(
  route: Route,
  request: Request,
  params: object,
  where: Where,
  world: World,
): Promise<Response> {
  let principal: Principal | undefined;
  const quotas = new Quotas();
  try {
    if (route.kind === 'open') return respond(route, await route.handle(world), where, world);
    world.limits.address(where, quotas);
    principal = await authenticate(request.headers, world.store.credentials, (digest) =>
      world.limits.key(digest, quotas),
    );
    admit(route, principal);
    const checked = {
      principal,
      params: route.params && validate(route.params, params, 'path'),
      query: readQuery(route.query, request.url),
    };
    const { value, text } = await readBody(route, request);
    const call = { ...checked, body: value };
    const leave = route.enter && (await route.enter({ principal, where, quotas }, world));
    try {
      const reply =
        route.kind === 'read'
          ? await route.handle(call, world)
          : await change(route, call, repeatable(route, principal, request, where, text), where, world);
      return respond(route, reply, where, world, quotas.headers());
    } finally {
      leave?.();
    }
  } catch (error) {
    if (route.kind !== 'open') world.denials.note(operationOf(route), principal, error, where);
    const failure = world.checkReplies ? declaredFailure(route, error) : error;
    return problemResponse(failure, where, world.log, isBadKey(failure) ? {} : quotas.headers());
  }
}

/** All bad keys get one and the same answer, so it does not count them. */
function isBadKey(failure: unknown): boolean {
  return failure instanceof Failure && failure.code === 'unauthenticated';
}

function admit(route: GuardedRoute, principal: Principal): void {
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

async function readBody(route: GuardedRoute, request: Request): Promise<Json> {
  if (!takesBody(route)) return { value: undefined, text: '' };
  const types = route.method === 'PATCH' ? mergePatchTypes : jsonTypes;
  const { value, text } = await readJson(request, route.bodyLimit ?? bodyLimit, types);
  if (route.body) return { value: validate(route.body, value, 'body'), text };
  return { value: value === undefined ? undefined : validate(NoFields, value, 'body'), text };
}

function respond(
  route: Route,
  reply: Reply,
  where: Where,
  world: World,
  limits: Record<string, string> = {},
): Response {
  if (world.checkReplies) checkReply(route, reply);
  const typed = reply.body === undefined || reply.headers?.['Content-Type'] !== undefined;
  const own = typed ? reply.headers : { ...json, ...reply.headers };
  const headers = headersWith(where.requestId, { ...own, ...limits });
  const body = typed ? ((reply.body ?? null) as string | null) : JSON.stringify(reply.body);
  return new Response(body, { status: reply.status, headers });
}

const json = { 'Content-Type': 'application/json' };

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
