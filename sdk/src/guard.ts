/**
 * Middleware for your own API: asks Sallyport for a decision about the caller's key, denies the request or filters
 * the response by the decision's transform. For `fetch` handlers, Express, Fastify and Hono.
 */

import type { Decision, Resource } from './api.ts';
import type { Sallyport } from './client.ts';
import { ProblemError, ValidationError } from './errors.ts';
import { type ExpressResponse, interceptResponse, sendDenial } from './express-response.ts';
import { proofOf } from './guard-proof.ts';
import {
  bodyHeaders,
  cannotFilter,
  type Denial,
  denial,
  type FilterOptions,
  filterAction,
  filterJson,
} from './response-filter.ts';

export { applyTransform, type FilterOptions } from './response-filter.ts';

/** A request, independent of the framework. */
export interface GuardRequest {
  readonly method: string;
  /** Path and query string. */
  readonly path: string;
  header(name: string): string | undefined;
  readonly params: Readonly<Record<string, string | undefined>>;
  /** The absolute URL, as your server received it. Bound sessions need it, unless the guard has a `publicUrl`. */
  readonly url?: string | undefined;
  /** An object that is the same for all guards of one request, such as the request of the framework. */
  readonly source?: object;
}

export interface GuardOptions extends FilterOptions {
  readonly client: Sallyport;
  /** The permission that the caller needs, such as `invoice:read`. */
  readonly permission: string;
  /** The resource of the request. Without it, only grants on the root container apply. */
  readonly resource?: (request: GuardRequest) => Resource;
  /** The caller's key. Default: the `SVC-API-KEY` header. */
  readonly credential?: (request: GuardRequest) => string | undefined;
  /**
   * The URL of your service as browsers use it, such as `https://shop.example`, for the proofs of bound sessions. Set
   * it in production: without it, the `Host` header decides.
   */
  readonly publicUrl?: string | URL;
  /**
   * Whether the audit log of Sallyport records every decision. An allowed request is recorded before your handler runs,
   * and denied with 503 if that fails. The client needs the key of a private or management application.
   */
  readonly record?: boolean;
  /** Why the request is made, for the audit log. */
  readonly purpose?: (request: GuardRequest) => string | undefined;
}

export type CheckResult =
  | { readonly allowed: true; readonly decision: Decision }
  /** `decision` has the reason, for your own log. Absent if the key or resource is invalid, or the check failed. */
  | ({ readonly allowed: false; readonly decision?: Decision } & Denial);

const noKey = 'Send a valid key in the SVC-API-KEY header.';

/**
 * Checks one request. Denies it if the service cannot be reached. The response to the caller omits the decision's
 * reason, which could reveal your containers and the rules of a session's authorizer.
 */
export async function check(
  options: GuardOptions,
  request: GuardRequest,
  signal?: AbortSignal,
): Promise<CheckResult> {
  const credential = options.credential ? options.credential(request) : request.header('svc-api-key');
  if (!credential) return { allowed: false, ...denial(401, noKey) };
  const resource = options.resource?.(request);
  const { client, permission, record } = options;
  const purpose = options.purpose?.(request);
  try {
    const proof = proofOf(request, options.publicUrl);
    const question = {
      credential,
      permission,
      ...(proof && { proof }),
      ...(resource && { resource }),
      ...(record && { record }),
    };
    const decision = await client.decide(question, {
      ...(signal && { signal }),
      ...(purpose && { purpose }),
    });
    if (decision.allowed) return { allowed: true, decision };
    if (!decision.principal)
      return { allowed: false, ...(decision.dpop && { decision }), ...denial(401, noKey, decision.dpop) };
    const detail = `You cannot use \`${permission}\` on this resource.`;
    return { allowed: false, decision, ...denial(403, detail) };
  } catch (error) {
    const invalid = invalidInput(error);
    if (invalid) return { allowed: false, ...denial(403, `The request is invalid: ${invalid}.`) };
    const code = error instanceof ProblemError ? error.code : 'unreachable';
    return { allowed: false, ...denial(503, `Access could not be checked (${code}).`) };
  }
}

const inputNames: Readonly<Record<string, string>> = {
  'resource.id': 'id',
  'resource.container': 'container',
  'svc-purpose': 'purpose',
};

/** The messages if only the id, the container or the purpose is invalid. Undefined for all other errors. */
function invalidInput(error: unknown): string | undefined {
  if (!(error instanceof ValidationError)) return undefined;
  const messages = Object.entries(error.errors).map(([field, [reason]]) =>
    inputNames[field] === undefined ? undefined : `${inputNames[field]} ${reason}`,
  );
  return messages.includes(undefined) ? undefined : messages.join(', ');
}

/** Wraps a `fetch` handler, for Bun, Deno, workers and frameworks based on it. */
export function guardFetch(
  options: GuardOptions,
  handler: (request: Request, decision: Decision) => Response | Promise<Response>,
): (request: Request) => Promise<Response> {
  return async (request) => {
    const result = await check(options, fromFetchRequest(request, {}), request.signal);
    if (!result.allowed) return denialResponse(result);
    return filterResponse(await handler(request, result.decision), result.decision, options);
  };
}

function fromFetchRequest(request: Request, params: GuardRequest['params']): GuardRequest {
  const { pathname, search } = new URL(request.url);
  const header = (name: string) => request.headers.get(name) ?? undefined;
  const { method, url } = request;
  return { method, path: pathname + search, header, params, url, source: request };
}

function denialResponse({ status, problem, headers }: Denial): Response {
  return new Response(JSON.stringify(problem), { status, headers });
}

/** Sets `Cache-Control: no-store` unless the handler set it: a shared cache could serve the response to other callers. */
async function filterResponse(
  response: Response,
  decision: Decision,
  options: GuardOptions,
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
    return denialResponse(cannotFilter);
  }
  for (const name of bodyHeaders) headers.delete(name);
  return new Response(filtered, { status, statusText, headers });
}

/** Without `params`, whose type Express and Fastify derive from the path. */
interface NodeRequest {
  readonly method: string;
  readonly url: string;
  readonly originalUrl?: string;
  /** As the framework determines it, for example behind a trusted proxy. */
  readonly protocol?: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

function fromNodeRequest(request: NodeRequest): GuardRequest {
  const header = (name: string) => {
    const value = request.headers[name.toLowerCase()];
    return Array.isArray(value) ? undefined : value;
  };
  const path = request.originalUrl ?? request.url;
  const { protocol } = request;
  const host = header('host') ?? header(':authority');
  return {
    method: request.method,
    path,
    header,
    params: (request as { params?: GuardRequest['params'] }).params ?? {},
    url: protocol && host ? `${protocol}://${host}${path}` : undefined,
    source: request,
  };
}

/** Express middleware for a route. The decision is in `res.locals.decision`. */
export function guardExpress(options: GuardOptions) {
  return (request: NodeRequest, response: ExpressResponse, next: (error?: unknown) => void): void => {
    const proceed = (result: CheckResult) => {
      if (!result.allowed) return sendDenial(response, result);
      response.locals.decision = result.decision;
      if (!response.getHeader('Cache-Control')) response.setHeader('Cache-Control', 'no-store');
      if (result.decision.dpop) response.setHeader('DPoP-Nonce', result.decision.dpop.nonce);
      interceptResponse(response, result.decision, options);
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

const decisions = new WeakMap<object, Decision>();

/** Returns the decision about a Fastify request that its guard allowed. */
export function decisionOf(request: object): Decision | undefined {
  return decisions.get(request);
}

/** Hooks for a Fastify route: `app.get('/x', { ...guardFastify(options) }, handler)`. */
export function guardFastify(options: GuardOptions) {
  return {
    onRequest: async (request: NodeRequest, reply: FastifyReply): Promise<unknown> => {
      const result = await check(options, fromNodeRequest(request));
      if (!result.allowed) {
        const { status, headers, problem } = result;
        return reply.code(status).headers(headers).send(JSON.stringify(problem));
      }
      decisions.set(request, result.decision);
      if (!reply.getHeader('Cache-Control')) reply.headers({ 'Cache-Control': 'no-store' });
      if (result.decision.dpop) reply.headers({ 'DPoP-Nonce': result.decision.dpop.nonce });
      return undefined;
    },
    onSend: async (request: object, reply: FastifyReply, payload: unknown): Promise<unknown> => {
      const decision = decisions.get(request);
      if (!decision) return payload;
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
      reply.code(cannotFilter.status).headers({ ...cannotFilter.headers });
      return JSON.stringify(cannotFilter.problem);
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
export function guardHono(options: GuardOptions) {
  return async (context: HonoContext, next: () => Promise<void>): Promise<Response | undefined> => {
    const { raw } = context.req;
    const result = await check(options, fromFetchRequest(raw, context.req.param()), raw.signal);
    if (!result.allowed) return denialResponse(result);
    context.set('decision', result.decision);
    await next();
    const filtered = await filterResponse(context.res, result.decision, options);
    // Assigning undefined first stops Hono from copying the old response's headers.
    context.res = undefined;
    context.res = filtered;
    return undefined;
  };
}
