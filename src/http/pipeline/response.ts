/** Builds responses, with the headers that every response has. */
import { JsonText } from '../../domain/json-text.ts';
import type { RequestInfo } from './request-info.ts';
import { smallBytes } from './request-memory.ts';
import type { Deprecation, HandlerContext, Reply } from './route.ts';

/** For responses that are no pages. */
export const plainHeaders = {
  'Cache-Control': 'no-store',
  'X-Content-Type-Options': 'nosniff',
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
};

const commonHeaders = {
  ...plainHeaders,
  'Access-Control-Allow-Origin': '*',
  'Access-Control-Expose-Headers':
    'SVC-REQUEST-ID, X-Request-ID, Retry-After, RateLimit, RateLimit-Policy, Idempotency-Replayed, ETag, DPoP-Nonce, WWW-Authenticate, SVC-SESSION-ID, SVC-SESSION-EXPIRES-AT, SVC-DESTINATION',
};

export const corsHeaders = Object.keys(commonHeaders).filter((name) => name.startsWith('Access-Control-'));

const preflightHeaders = {
  'Access-Control-Allow-Headers':
    'SVC-API-KEY, Authorization, SVC-REQUEST-ID, X-Request-ID, SVC-PURPOSE, Content-Type, Idempotency-Key, If-Match, traceparent, tracestate, baggage, DPoP',
  'Access-Control-Max-Age': '7200',
};

export type Content = string | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> | null;

/**
 * `sendLarge` makes the body of a large reply. It may throw. Without it, the reply does not depend on the caller, and is
 * in memory anyway.
 */
export function toResponse(
  reply: Reply,
  requestInfo: RequestInfo,
  sendLarge?: (json: JsonText) => ReadableStream<Uint8Array>,
): Response {
  const content = serialize(reply);
  const isLarge = content instanceof JsonText && content.length > smallBytes;
  const body =
    isLarge && sendLarge ? sendLarge(content) : content instanceof JsonText ? content.text : content;
  return respondWith(body, reply.status, requestInfo, reply.headers);
}

function serialize({ body, headers }: Reply): Content | JsonText {
  if (body === undefined) return null;
  if (headers?.['Content-Type'] !== undefined) return body as Content;
  return body instanceof JsonText ? body : JsonText.of(body);
}

/** The body is JSON unless `headers` has a Content-Type. */
export function respondWith(
  content: Content,
  status: number,
  { requestId, rateLimits, dpop }: Pick<RequestInfo, 'requestId' | 'rateLimits' | 'dpop'>,
  headers?: Readonly<Record<string, string>>,
): Response {
  const kind = content === null ? 'empty' : 'json';
  const response = new Response(content, { status, headers: baseHeaders(kind, rateLimits.policies) });
  response.headers.set('SVC-REQUEST-ID', requestId);
  if (rateLimits.remaining !== '') response.headers.set('RateLimit', rateLimits.remaining);
  if (dpop !== undefined) response.headers.set('DPoP-Nonce', dpop.nonce);
  for (const name in headers) response.headers.set(name, headers[name] as string);
  return response;
}

/** Common headers by the value of `RateLimit-Policy`. Bun copies `Headers` three times as fast as a plain object. */
const cachedHeaders = { empty: new Map<string, Headers>(), json: new Map<string, Headers>() };

function baseHeaders(kind: keyof typeof cachedHeaders, policies: string): Headers {
  const known = cachedHeaders[kind].get(policies);
  if (known) return known;
  const headers = new Headers(commonHeaders);
  if (kind === 'json') headers.set('Content-Type', 'application/json');
  if (policies !== '') headers.set('RateLimit-Policy', policies);
  cachedHeaders[kind].set(policies, headers);
  return headers;
}

/** The response to OPTIONS, with or without a key. */
export function preflightResponse(requestInfo: RequestInfo, allow: string): Response {
  const methods = { Allow: allow, 'Access-Control-Allow-Methods': allow };
  return respondWith(null, 204, requestInfo, { ...methods, ...preflightHeaders });
}

/** Adds the headers of RFC 9745 and RFC 8594. */
export function withDeprecation(response: Response, { since, sunset, link }: Deprecation): Response {
  response.headers.set('Deprecation', `@${Date.parse(since) / 1000}`);
  response.headers.set('Sunset', new Date(sunset).toUTCString());
  response.headers.set('Link', `<${link}>; rel="deprecation"`);
  response.headers.append('Access-Control-Expose-Headers', 'Deprecation, Sunset, Link');
  return response;
}

/** Makes the response close its connection if the process is shutting down. */
export function closeIfStopping(response: Response, { ready }: HandlerContext): Response {
  if (!ready()) response.headers.set('Connection', 'close');
  return response;
}
