/** How a request walks through its route. */
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { type Awaitable, then } from '../../domain/awaitable.ts';
import { Failure, fail } from '../../domain/error.ts';
import { JsonText } from '../../domain/json-text.ts';
import { isA } from '../../domain/permission.ts';
import { mustHold, ownerOf, type Principal } from '../../domain/principal.ts';
import { validate } from '../../domain/validate.ts';
import { authenticate, presentedKey } from './authenticate.ts';
import { largeReply } from './large-replies.ts';
import { noQuotas, Quotas } from './limits.ts';
import { problemResponse } from './problem.ts';
import { type Json, jsonTypes, mergePatchTypes, type RequestBody, readBody, readJson } from './read-body.ts';
import { readQuery } from './read-query.ts';
import type { RequestInfo } from './request-info.ts';
import { type Content, respondWith } from './response.ts';
import {
  type Admission,
  failuresOf,
  type GuardedRoute,
  type HandlerContext,
  operationOf,
  type Reply,
  type Route,
  takesBody,
} from './route.ts';
import { repeatable, runChange } from './run-change.ts';

export const bodyLimit = 65_536;

/** Every request walks these steps, in this order, and waits only where there is something to wait for. */
export function handleRequest(
  route: Route,
  request: Request,
  params: object,
  where: RequestInfo,
  context: HandlerContext,
): Awaitable<Response> {
  let principal: Principal | undefined;
  const quotas = new Quotas();
  const refuse = (error: unknown) => {
    if (route.kind !== 'open') context.denials.note(operationOf(route), principal, error, where);
    const failure = context.checkReplies ? declaredFailure(route, error) : error;
    const shown = isBadKey(failure) ? noQuotas : quotas;
    return closeIfStopping(problemResponse(failure, where, context.log, {}, shown), context);
  };
  const enter = (caller: Principal): void => {
    principal = caller;
    refuseOrigin(caller, request.headers);
    admit(route as GuardedRoute, caller);
  };
  const walk = (): Awaitable<Reply> => {
    if (route.kind === 'open') return route.handle(context, request);
    context.limits.address(where, quotas);
    const key = presentedKey(request.headers);
    context.limits.key(key.digest, quotas);
    const body = takesBody(route) ? readBody(request, route.bodyLimit ?? bodyLimit) : undefined;
    const proceedAs = (caller: Principal, arrived?: RequestBody) => {
      context.usage.note(caller, atRoot(route.permission));
      const entering = { principal: caller, where, quotas, bytes: arrived?.bytes.length ?? 0 };
      return proceed(route, entering, request, params, arrived, context);
    };
    return authenticate(key, context.store.credentials, (caller) => {
      enter(caller);
      if (!body) return proceedAs(caller);
      return body.then((arrived) => {
        if (!arrived.late) return proceedAs(caller, arrived);
        // Whoever waits with the body may have lost the key meanwhile.
        principal = undefined;
        return authenticate(key, context.store.credentials, (still) => {
          enter(still);
          return proceedAs(still, arrived);
        });
      });
    });
  };
  const answer = (reply: Reply): Response => {
    try {
      return closeIfStopping(respond(route, reply, where, context, quotas, principal), context);
    } catch (error) {
      return refuse(error);
    }
  };
  try {
    const reply = walk();
    return reply instanceof Promise ? reply.then(answer, refuse) : answer(reply);
  } catch (error) {
    return refuse(error);
  }
}

/** From the moment that it was told to stop, every answer is the last on its connection, and says so. */
export function closeIfStopping(response: Response, context: HandlerContext): Response {
  if (!context.ready()) response.headers.set('Connection', 'close');
  return response;
}

/** All bad keys get one and the same answer, so it does not count them. */
function isBadKey(failure: unknown): boolean {
  return failure instanceof Failure && failure.code === 'unauthenticated';
}

function proceed(
  route: GuardedRoute,
  entry: Admission,
  request: Request,
  params: object,
  arrived: RequestBody | undefined,
  context: HandlerContext,
): Awaitable<Reply> {
  const { principal, where } = entry;
  const handle = (): Awaitable<Reply> => {
    const checked = {
      principal,
      params: route.params && validate(route.params, params, 'path'),
      query: readQuery(route.query, request.url),
    };
    const { value, text } = arrived ? bodyOf(route, arrived, request.headers) : noBody;
    const call = { ...checked, body: value };
    return route.kind === 'read'
      ? route.handle(call, context)
      : runChange(route, call, repeatable(route, call, request, text), where, context);
  };
  // Limits count rejected requests too, so they come before validation.
  return route.enter ? inside(route.enter(entry, context), handle) : handle();
}

function inside(entering: Awaitable<() => void>, handle: () => Awaitable<Reply>): Awaitable<Reply> {
  return then(entering, async (leave) => {
    try {
      return await handle();
    } finally {
      leave();
    }
  });
}

/** Browsers say truly of which origin a page is; who does not say it is none, or says what it likes anyway. */
function refuseOrigin({ origins }: Principal, headers: Headers): void {
  if (!origins) return;
  const origin = headers.get('origin');
  if (origin !== null && !origins.includes(origin)) throw fail('origin_refused');
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

/** Of a permission that rules narrow, the handler says where it is used. */
function atRoot(permission: string | undefined): string | undefined {
  return permission === undefined || isA('scoped', permission) ? undefined : permission;
}

/** What an operation that takes no body puts up with, since some clients always send an object. */
const NoFields = z.strictObject({});

const noBody: Json = { value: undefined, text: '' };

function bodyOf(route: GuardedRoute, arrived: RequestBody, headers: Headers): Json {
  const types = route.method === 'PATCH' ? mergePatchTypes : jsonTypes;
  const { value, text } = readJson(arrived, headers, types);
  if (route.body) return { value: validate(route.body, value, 'body'), text };
  return { value: value === undefined ? undefined : validate(NoFields, value, 'body'), text };
}

function respond(
  route: Route,
  reply: Reply,
  where: RequestInfo,
  context: HandlerContext,
  quotas: Quotas,
  caller: Principal | undefined,
): Response {
  if (context.checkReplies) checkReply(route, reply);
  const content = contentOf(reply);
  // What was changed is answered in any case: such a response is hardly larger than its request.
  const isLarge = route.kind === 'read' && typeof content === 'string' && content.length > largeReply;
  const body = isLarge && caller ? context.largeReplies.stream(caller.applicationId, content) : content;
  return respondWith(body, reply.status, where.requestId, reply.headers, quotas);
}

function contentOf({ body, headers, lasting }: Reply): Content {
  if (body === undefined) return null;
  if (headers?.['Content-Type'] !== undefined) return body as Content;
  if (body instanceof JsonText) return body.text;
  return lasting ? lastingText(body as object) : JSON.stringify(body);
}

const texts = new WeakMap<object, string>();

/** The same object is the same text. */
function lastingText(body: object): string {
  let text = texts.get(body);
  if (text === undefined) {
    text = JSON.stringify(body);
    texts.set(body, text);
  }
  return text;
}

function declaredFailure(route: Route, error: unknown): unknown {
  if (!(error instanceof Failure) || failuresOf(route).includes(error.code)) return error;
  return new Error(`${route.name} failed with ${error.code}, which it does not declare`);
}

/** A field that is not declared would be stripped by its schema, and so show as a difference. */
function checkReply(route: Route, reply: Reply): void {
  const declared = route.replies[reply.status];
  if (declared && !declared.schema) return;
  const body = reply.body instanceof JsonText ? reply.body.value() : reply.body;
  const allowed = declared?.schema?.parse(body);
  if (declared && isDeepStrictEqual(plain(body), plain(allowed))) return;
  throw new Error(`${route.name} answered ${reply.status} in a shape that it does not declare`);
}

function plain(value: unknown): unknown {
  return value === undefined ? undefined : JSON.parse(JSON.stringify(value));
}
