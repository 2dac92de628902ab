/**
 * Middleware for your own API. It asks Sallyport for a decision about the caller's key. Then it denies the request, or
 * filters the response by the decision's transform. For `fetch` handlers, Next.js, Express, Fastify and Hono.
 */

import type { Decision } from './api.ts';
import {
  type CheckResult,
  check,
  checkOptions,
  fromNodeRequest,
  type GuardOptions,
  type GuardRequest,
  type NodeRequest,
} from './check.ts';
import { allowResponse, type ExpressResponse, sendDenial } from './express-response.ts';
import { bodyHeaders, cannotFilter, type Denial, filterAction, filterJson } from './response-filter.ts';

export { type CheckResult, check, type GuardOptions, type GuardRequest } from './check.ts';
export { applyTransform, type FilterOptions } from './response-filter.ts';

type Allowed = Extract<CheckResult, { allowed: true }>;

/** Wraps a `fetch` handler, as used by Bun, Deno, workers and frameworks based on them. */
export function guardFetch(
  options: GuardOptions<Request>,
  handler: (request: Request, decision: Decision) => Response | Promise<Response>,
): (request: Request) => Promise<Response> {
  checkOptions('guardFetch', options);
  return async (request) => {
    const result = await check(options, fromFetchRequest(request, {}, request), request.signal);
    if (!result.allowed) return denialResponse(result);
    return filterResponse(await handler(request, result.decision), result, options);
  };
}

/** The second argument of a Next.js route handler. `params` is a promise from Next.js 15 on. */
interface NextContext {
  readonly params?: NextParams | Promise<NextParams> | undefined;
}
type NextParams = Readonly<Record<string, string | readonly string[] | undefined>>;

/** Wraps a route handler of the Next.js app router. The segments of a catch-all parameter are joined by `/`. */
export function guardNext<C extends NextContext>(
  options: GuardOptions<Request>,
  handler: (request: Request, context: C, decision: Decision) => Response | Promise<Response>,
): (request: Request, context: C) => Promise<Response> {
  checkOptions('guardNext', options);
  return async (request, context) => {
    const given = Object.entries((await context.params) ?? {});
    const params = Object.fromEntries(given.map(([name, value]) => [name, segmentsOf(value)]));
    const result = await check(options, fromFetchRequest(request, params, request), request.signal);
    if (!result.allowed) return denialResponse(result);
    return filterResponse(await handler(request, context, result.decision), result, options);
  };
}

function segmentsOf(value: string | readonly string[] | undefined): string {
  return typeof value === 'string' ? value : (value ?? []).join('/');
}

function fromFetchRequest<R>(request: Request, params: GuardRequest['params'], original: R): GuardRequest<R> {
  // Bun leaves out the origin if the Host header is invalid.
  const { pathname, search } = new URL(request.url, 'http://localhost');
  const header = (name: string) => request.headers.get(name) ?? undefined;
  const { method, url } = request;
  return { method, path: pathname + search, header, params, url, original };
}

function denialResponse({ status, problem, headers }: Denial): Response {
  return new Response(JSON.stringify(problem), { status, headers });
}

/**
 * Sets `Cache-Control: no-store` unless the handler set that header. A shared cache could otherwise serve the response
 * to other callers.
 */
async function filterResponse<R>(
  response: Response,
  { decision, requestId }: Allowed,
  options: GuardOptions<R>,
): Promise<Response> {
  if (response.status < 200) return response;
  const { status, statusText } = response;
  const headers = new Headers(response.headers);
  if (!headers.has('Cache-Control')) headers.set('Cache-Control', 'no-store');
  if (decision.dpop) headers.set('DPoP-Nonce', decision.dpop.nonce);
  const type = headers.get('Content-Type') ?? undefined;
  const action = response.body === null ? 'pass' : filterAction({ status, type }, decision, options);
  if (action === 'pass') return new Response(response.body, { status, statusText, headers });
  const filtered = action === 'filter' ? filterJson(await response.text(), decision, options) : undefined;
  if (filtered === undefined) {
    await response.body?.cancel().catch(() => {});
    return denialResponse(cannotFilter(requestId));
  }
  for (const name of bodyHeaders) headers.delete(name);
  return new Response(filtered, { status, statusText, headers });
}

/** Express middleware for a route. The decision is in `res.locals.decision`. */
export function guardExpress<R extends NodeRequest = NodeRequest>(options: GuardOptions<R>) {
  checkOptions('guardExpress', options);
  return (request: R, response: ExpressResponse, next: (error?: unknown) => void): void => {
    const proceed = (result: CheckResult) => {
      if (!result.allowed) return sendDenial(response, result);
      allowResponse(response, result, options, next);
      return next();
    };
    check(options, fromNodeRequest(request)).then(proceed).catch(next);
  };
}

interface FastifyReply {
  readonly statusCode: number;
  code(status: number): FastifyReply;
  headers(values: Record<string, string>): FastifyReply;
  getHeader(name: string): unknown;
  removeHeader(name: string): FastifyReply;
  send(body: unknown): FastifyReply;
}

const allowedRequests = new WeakMap<object, Allowed>();

/** Returns the decision about a Fastify request. Undefined unless its guard allowed the request. */
export function decisionOf(request: object): Decision | undefined {
  return allowedRequests.get(request)?.decision;
}

/**
 * Hooks for a Fastify route: `app.get(path, guardFastify(options), handler)`. Their parameters do not depend on `R`,
 * because TypeScript would infer `R` from the route and not from the options.
 */
export function guardFastify<R extends NodeRequest = NodeRequest>(options: GuardOptions<R>) {
  checkOptions('guardFastify', options);
  return {
    onRequest: async (request: NodeRequest, reply: FastifyReply): Promise<unknown> => {
      const result = await check(options, fromNodeRequest(request as R));
      if (!result.allowed) {
        const { status, headers, problem } = result;
        return reply.code(status).headers(headers).send(JSON.stringify(problem));
      }
      allowedRequests.set(request, result);
      if (!reply.getHeader('Cache-Control')) reply.headers({ 'Cache-Control': 'no-store' });
      if (result.decision.dpop) reply.headers({ 'DPoP-Nonce': result.decision.dpop.nonce });
      return undefined;
    },
    onSend: async (request: object, reply: FastifyReply, payload: unknown): Promise<unknown> => {
      const allowed = allowedRequests.get(request);
      if (!allowed) return payload;
      const { decision, requestId } = allowed;
      const type = reply.getHeader('Content-Type') as string | undefined;
      const action = filterAction({ status: reply.statusCode, type }, decision, options);
      if (action === 'pass') return payload;
      for (const name of bodyHeaders) reply.removeHeader(name);
      if (payload === null || payload === undefined || payload === '') return payload;
      const text = action === 'filter' ? await textOf(payload) : undefined;
      const filtered = text === undefined ? undefined : filterJson(text, decision, options);
      if (filtered !== undefined) return filtered;
      (payload as { destroy?: () => void }).destroy?.();
      for (const name of ['Content-Encoding', 'Content-Disposition']) reply.removeHeader(name);
      const { status, headers, problem } = cannotFilter(requestId);
      reply.code(status).headers({ ...headers });
      return JSON.stringify(problem);
    },
  };
}

/** Reads a string, bytes or a stream of either. */
async function textOf(payload: unknown): Promise<string | undefined> {
  if (typeof payload === 'string') return payload;
  if (payload instanceof Uint8Array) return new TextDecoder().decode(payload);
  if (typeof payload !== 'object' || payload === null || !(Symbol.asyncIterator in payload)) return undefined;
  const decoder = new TextDecoder();
  let text = '';
  for await (const chunk of payload as AsyncIterable<string | Uint8Array>)
    text += typeof chunk === 'string' ? chunk : decoder.decode(chunk, { stream: true });
  return text + decoder.decode();
}

interface HonoContext {
  readonly req: { readonly raw: Request; param(): Record<string, string> };
  get res(): Response;
  set res(response: Response | undefined);
  set(name: string, value: unknown): void;
}

/** Hono middleware. The decision is in `c.get('decision')`. */
export function guardHono<C extends HonoContext = HonoContext>(options: GuardOptions<C>) {
  checkOptions('guardHono', options);
  return async (context: C, next: () => Promise<void>): Promise<Response | undefined> => {
    const { raw } = context.req;
    const result = await check(options, fromFetchRequest(raw, context.req.param(), context), raw.signal);
    if (!result.allowed) return denialResponse(result);
    context.set('decision', result.decision);
    await next();
    const filtered = await filterResponse(context.res, result, options);
    // Assigning undefined first stops Hono from copying the old response's headers.
    context.res = undefined;
    context.res = filtered;
    return undefined;
  };
}
