/**
 * Guards routes of your own: asks the service about the key that a request shows, refuses what is not allowed,
 * and leaves of the answer what the decision leaves. For plain `fetch` handlers, Express, Fastify and Hono.
 */
import {
  type AnswerOptions,
  fateOf,
  leftOf,
  notInPart,
  ofTheWhole,
  type Refusal,
  refusal,
} from './answer.ts';
import type { Decision, Resource } from './api.ts';
import type { Sallyport } from './client.ts';
import { ProblemError, ValidationError } from './errors.ts';
import { type ExpressResponse, holdBack, sendRefusal } from './node-response.ts';

export { type AnswerOptions, applyTransform } from './answer.ts';

/** What every kind of request can say about itself. */
export interface Shown {
  readonly method: string;
  /** The path and query. */
  readonly path: string;
  header(name: string): string | undefined;
  readonly params: Readonly<Record<string, string | undefined>>;
}

export interface GuardOptions extends AnswerOptions {
  readonly client: Sallyport;
  /** What a caller must hold, such as `invoice:read`. */
  readonly permission: string;
  /** What the request is about; without it, only grants for everything count. */
  readonly resource?: (shown: Shown) => Resource;
  /** The key that the caller shows: SVC-API-KEY unless told otherwise. */
  readonly credential?: (shown: Shown) => string | undefined;
}

export type Verdict =
  | { readonly allowed: true; readonly decision: Decision }
  /** `decision` says why, for your own log; absent if there is none. */
  | ({ readonly allowed: false; readonly decision?: Decision } & Refusal);

const noKey = 'Send a valid key in the SVC-API-KEY header.';

/**
 * Whether the request may go on. When the service cannot be asked, it may not. A refusal does not repeat the
 * reason of the decision: it would show the caller your containers and the rules of a session's authorizer.
 */
export async function check(options: GuardOptions, shown: Shown, signal?: AbortSignal): Promise<Verdict> {
  const credential = options.credential ? options.credential(shown) : shown.header('svc-api-key');
  if (!credential) return { allowed: false, ...refusal(401, noKey) };
  const resource = options.resource?.(shown);
  const { client, permission } = options;
  try {
    const ask = { credential, permission, ...(resource && { resource }) };
    const decision = await client.decide(ask, signal && { signal });
    if (decision.allowed) return { allowed: true, decision };
    if (!decision.principal) return { allowed: false, ...refusal(401, noKey) };
    const detail = `You cannot use \`${permission}\` on this resource.`;
    return { allowed: false, decision, ...refusal(403, detail) };
  } catch (error) {
    const wrong = wrongResource(error);
    if (wrong) return { allowed: false, ...refusal(403, `There can be no such resource: ${wrong}.`) };
    const code = error instanceof ProblemError ? error.code : 'unreachable';
    return { allowed: false, ...refusal(503, `The decision could not be made (${code}).`) };
  }
}

/** What of the resource cannot be, if that is all: it comes from the request, so no key could ever be let in. */
function wrongResource(error: unknown): string | undefined {
  if (!(error instanceof ValidationError)) return undefined;
  const parts = Object.entries(error.errors).map(([part, [sentence]]) =>
    /^resource\.(id|container)$/.test(part) ? `${part.slice('resource.'.length)} ${sentence}` : undefined,
  );
  return parts.includes(undefined) ? undefined : parts.join(', ');
}

/** Wraps a `fetch` handler, as Bun, Deno, workers and many frameworks have them. */
export function guardFetch(
  options: GuardOptions,
  handler: (request: Request, decision: Decision) => Response | Promise<Response>,
): (request: Request) => Promise<Response> {
  return async (request) => {
    const verdict = await check(options, shownByFetch(request, {}), request.signal);
    if (!verdict.allowed) return refusalResponse(verdict);
    return narrowed(await handler(request, verdict.decision), verdict.decision, options);
  };
}

function shownByFetch(request: Request, params: Shown['params']): Shown {
  const { pathname, search } = new URL(request.url);
  const header = (name: string) => request.headers.get(name) ?? undefined;
  return { method: request.method, path: pathname + search, header, params };
}

function refusalResponse({ status, problem, headers }: Refusal): Response {
  return new Response(JSON.stringify(problem), { status, headers });
}

/** Unless the handler says otherwise, nothing is kept by what stands between: it would show it to the next. */
async function narrowed(response: Response, decision: Decision, options: GuardOptions): Promise<Response> {
  if (response.status < 200) return response;
  const { status, statusText } = response;
  const headers = new Headers(response.headers);
  if (!headers.has('Cache-Control')) headers.set('Cache-Control', 'no-store');
  const type = headers.get('Content-Type') ?? undefined;
  const fate = response.body === null ? 'pass' : fateOf({ status, type }, decision, options);
  if (fate === 'pass') return new Response(response.body, { status, statusText, headers });
  const left = fate === 'filter' ? leftOf(await response.text(), decision, options) : undefined;
  if (left === undefined) {
    await response.body?.cancel().catch(() => {});
    return refusalResponse(notInPart);
  }
  for (const name of ofTheWhole) headers.delete(name);
  return new Response(left, { status, statusText, headers });
}

/** It says nothing of `params`, whose type Express and Fastify know from the path. */
interface NodeRequest {
  readonly method: string;
  readonly url: string;
  readonly originalUrl?: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

function shownByNode(request: NodeRequest): Shown {
  return {
    method: request.method,
    path: request.originalUrl ?? request.url,
    header: (name) => {
      const value = request.headers[name.toLowerCase()];
      return Array.isArray(value) ? undefined : value;
    },
    params: (request as { params?: Shown['params'] }).params ?? {},
  };
}

/** Express middleware, for a route; the decision is in `res.locals.decision`. */
export function guardExpress(options: GuardOptions) {
  return (request: NodeRequest, response: ExpressResponse, next: (error?: unknown) => void): void => {
    const judged = (verdict: Verdict) => {
      if (!verdict.allowed) return sendRefusal(response, verdict);
      response.locals.decision = verdict.decision;
      if (!response.getHeader('Cache-Control')) response.setHeader('Cache-Control', 'no-store');
      holdBack(response, verdict.decision, options);
      return next();
    };
    check(options, shownByNode(request)).then(judged).catch(next);
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

/** The decision about a request of Fastify's, once its guard has let it in. */
export function decisionOf(request: object): Decision | undefined {
  return decisions.get(request);
}

/** Hooks for a Fastify route: `app.get('/x', { ...guardFastify(options) }, handler)`. */
export function guardFastify(options: GuardOptions) {
  return {
    onRequest: async (request: NodeRequest, reply: FastifyReply): Promise<unknown> => {
      const verdict = await check(options, shownByNode(request));
      if (!verdict.allowed) {
        const { status, headers, problem } = verdict;
        return reply.code(status).headers(headers).send(JSON.stringify(problem));
      }
      decisions.set(request, verdict.decision);
      if (!reply.getHeader('Cache-Control')) reply.headers({ 'Cache-Control': 'no-store' });
      return undefined;
    },
    onSend: async (request: object, reply: FastifyReply, payload: unknown): Promise<unknown> => {
      const decision = decisions.get(request);
      if (!decision) return payload;
      const type = reply.getHeader('Content-Type') as string | undefined;
      const fate = fateOf({ status: reply.statusCode, type }, decision, options);
      if (fate === 'pass') return payload;
      for (const name of ofTheWhole) reply.removeHeader(name);
      if (payload === null || payload === undefined || payload === '') return payload;
      const text = fate === 'filter' ? await textOf(payload) : undefined;
      const left = text === undefined ? undefined : leftOf(text, decision, options);
      if (left !== undefined) return left;
      (payload as { destroy?: () => void }).destroy?.();
      for (const name of ['Content-Encoding', 'Content-Disposition']) reply.removeHeader(name);
      reply.code(notInPart.status).headers({ ...notInPart.headers });
      return JSON.stringify(notInPart.problem);
    },
  };
}

/** Of a text, bytes, or a stream of either. */
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

/** Hono middleware; the decision is in `c.get('decision')`. */
export function guardHono(options: GuardOptions) {
  return async (context: HonoContext, next: () => Promise<void>): Promise<Response | undefined> => {
    const { raw } = context.req;
    const verdict = await check(options, shownByFetch(raw, context.req.param()), raw.signal);
    if (!verdict.allowed) return refusalResponse(verdict);
    context.set('decision', verdict.decision);
    await next();
    const left = await narrowed(context.res, verdict.decision, options);
    // Otherwise Hono puts the headers of the old answer on the new one.
    context.res = undefined;
    context.res = left;
    return undefined;
  };
}
