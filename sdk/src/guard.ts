/**
 * Guards routes of your own: asks the service about the key that a request shows, refuses what is not allowed,
 * and leaves of the answer what the decision leaves. For plain `fetch` handlers, Express, Fastify and Hono.
 */
import type { Decision, Resource } from './api.ts';
import type { Sallyport } from './client.ts';
import { ProblemError } from './errors.ts';

/** What every kind of request can say about itself. */
export interface Shown {
  readonly method: string;
  /** The path and query. */
  readonly path: string;
  header(name: string): string | undefined;
  readonly params: Readonly<Record<string, string | undefined>>;
}

export interface GuardOptions {
  readonly client: Sallyport;
  /** What a caller must hold, such as `invoice:read`. */
  readonly permission: string;
  /** What the request is about; without it, only grants for everything count. */
  readonly resource?: (shown: Shown) => Resource;
  /** The key that the caller shows: SVC-API-KEY unless told otherwise. */
  readonly credential?: (shown: Shown) => string | undefined;
  /** The fields of your JSON that the transform is about, at any depth: `data` unless told otherwise. */
  readonly fields?: readonly string[];
  /** What is shown of a field under `mask`; undefined removes it, as does leaving this out. */
  readonly mask?: (value: unknown, field: string) => unknown;
}

export type Verdict =
  | { readonly allowed: true; readonly decision: Decision }
  | { readonly allowed: false; readonly status: 401 | 403 | 503; readonly problem: object };

/** Whether the request may go on. When the service cannot be asked, it may not. */
export async function check(options: GuardOptions, shown: Shown): Promise<Verdict> {
  const credential = (options.credential ?? ((request: Shown) => request.header('svc-api-key')))(shown);
  if (!credential) return refusal(401, 'No valid key', 'Send a valid key in the SVC-API-KEY header.');
  const resource = options.resource?.(shown);
  try {
    const ask = { credential, permission: options.permission, ...(resource && { resource }) };
    const decision = await options.client.decide(ask);
    if (decision.allowed) return { allowed: true, decision };
    if (!decision.principal)
      return refusal(401, 'No valid key', 'Send a valid key in the SVC-API-KEY header.');
    return refusal(
      403,
      'Permission missing',
      `This needs the permission ${options.permission}: ${decision.reason}.`,
    );
  } catch (error) {
    const code = error instanceof ProblemError ? error.code : 'unreachable';
    return refusal(503, 'Temporarily unavailable', `The decision could not be made (${code}).`);
  }
}

function refusal(status: 401 | 403 | 503, title: string, detail: string): Verdict {
  return { allowed: false, status, problem: { type: 'about:blank', title, status, detail } };
}

/** What the transform leaves of your JSON. */
export function applyTransform<T>(
  json: T,
  { transform }: Decision,
  options: Pick<GuardOptions, 'fields' | 'mask'>,
): T {
  if (transform === 'reveal') return json;
  const fields = new Set(options.fields ?? ['data']);
  const mask = transform === 'mask' ? options.mask : undefined;
  const walk = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(walk);
    if (typeof value !== 'object' || value === null) return value;
    const kept = Object.entries(value).map(([name, part]) => [
      name,
      fields.has(name) ? mask?.(part, name) : walk(part),
    ]);
    return Object.fromEntries(kept.filter(([, part]) => part !== undefined));
  };
  return walk(json) as T;
}

const problemType = 'application/problem+json';

/** Wraps a `fetch` handler, as Bun, Deno, workers and many frameworks have them. */
export function guardFetch(
  options: GuardOptions,
  handler: (request: Request, decision: Decision) => Response | Promise<Response>,
): (request: Request) => Promise<Response> {
  return async (request) => {
    const { pathname, search } = new URL(request.url);
    const shown = {
      method: request.method,
      path: pathname + search,
      header: headerOf(request.headers),
      params: {},
    };
    const verdict = await check(options, shown);
    if (!verdict.allowed) return refusalResponse(verdict);
    return filtered(await handler(request, verdict.decision), verdict.decision, options);
  };
}

function headerOf(headers: Headers) {
  return (name: string) => headers.get(name) ?? undefined;
}

function refusalResponse({ status, problem }: Extract<Verdict, { allowed: false }>): Response {
  return new Response(JSON.stringify(problem), { status, headers: { 'Content-Type': problemType } });
}

async function filtered(response: Response, decision: Decision, options: GuardOptions): Promise<Response> {
  if (!/json/.test(response.headers.get('Content-Type') ?? '')) return response;
  const headers = new Headers(response.headers);
  headers.delete('Content-Length');
  const json = applyTransform(await response.json(), decision, options);
  return new Response(JSON.stringify(json), { status: response.status, headers });
}

interface NodeRequest {
  readonly method: string;
  readonly url: string;
  readonly originalUrl?: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly params?: unknown;
}

function shownBy(request: NodeRequest): Shown {
  return {
    method: request.method,
    path: request.originalUrl ?? request.url,
    header: (name) => {
      const value = request.headers[name.toLowerCase()];
      return Array.isArray(value) ? undefined : value;
    },
    params: (request.params ?? {}) as Record<string, string | undefined>,
  };
}

interface ExpressResponse {
  status(code: number): ExpressResponse;
  type(type: string): ExpressResponse;
  json(body: unknown): unknown;
  locals: Record<string, unknown>;
}

/** Express middleware; the decision is in `res.locals.decision`, and `res.json` sends what it leaves. */
export function guardExpress(options: GuardOptions) {
  return async (
    request: NodeRequest,
    response: ExpressResponse,
    next: (error?: unknown) => void,
  ): Promise<void> => {
    const verdict = await check(options, shownBy(request));
    if (!verdict.allowed) {
      response.status(verdict.status).type(problemType).json(verdict.problem);
      return;
    }
    const send = response.json.bind(response);
    response.locals.decision = verdict.decision;
    response.json = (body) => send(applyTransform(body, verdict.decision, options));
    next();
  };
}

interface FastifyReply {
  code(status: number): FastifyReply;
  type(type: string): FastifyReply;
  send(body: unknown): FastifyReply;
}

/** Hooks for a Fastify route: `app.get('/x', { ...guardFastify(options) }, handler)`. */
export function guardFastify(options: GuardOptions) {
  const decisions = new WeakMap<object, Decision>();
  return {
    preHandler: async (request: NodeRequest, reply: FastifyReply): Promise<unknown> => {
      const verdict = await check(options, shownBy(request));
      if (!verdict.allowed)
        return reply.code(verdict.status).type(problemType).send(JSON.stringify(verdict.problem));
      decisions.set(request, verdict.decision);
      return undefined;
    },
    preSerialization: async (request: object, _reply: unknown, payload: unknown): Promise<unknown> => {
      const decision = decisions.get(request);
      return decision ? applyTransform(payload, decision, options) : payload;
    },
  };
}

interface HonoContext {
  readonly req: { readonly raw: Request; param(): Record<string, string> };
  res: Response;
  set(name: string, value: unknown): void;
}

/** Hono middleware; the decision is in `c.get('decision')`. */
export function guardHono(options: GuardOptions) {
  return async (context: HonoContext, next: () => Promise<void>): Promise<Response | undefined> => {
    const { raw } = context.req;
    const { pathname, search } = new URL(raw.url);
    const header = headerOf(raw.headers);
    const shown = { method: raw.method, path: pathname + search, header, params: context.req.param() };
    const verdict = await check(options, shown);
    if (!verdict.allowed) return refusalResponse(verdict);
    context.set('decision', verdict.decision);
    await next();
    context.res = await filtered(context.res, verdict.decision, options);
    return undefined;
  };
}
