import { withoutSecrets } from '../domain/key.ts';

/** Headers that every response carries, and those that a browser asks about beforehand. */
const always = {
  'Cache-Control': 'no-store',
  'X-Content-Type-Options': 'nosniff',
  'Access-Control-Allow-Origin': '*',
  'Access-Control-Expose-Headers':
    'SVC-REQUEST-ID, Retry-After, RateLimit, RateLimit-Policy, Idempotency-Replayed',
};

const preflight = {
  'Access-Control-Allow-Headers': 'SVC-API-KEY, SVC-REQUEST-ID, Content-Type, Idempotency-Key, traceparent',
  'Access-Control-Max-Age': '7200',
};

export function headersWith(
  requestId: string,
  ...more: (Record<string, string> | undefined)[]
): Record<string, string> {
  return Object.assign({ ...always, 'SVC-REQUEST-ID': requestId }, ...more);
}

/** The answer to OPTIONS, with or without a key: which methods the path takes. */
export function preflightResponse(requestId: string, allow: string): Response {
  const methods = { Allow: allow, 'Access-Control-Allow-Methods': allow };
  return new Response(null, { status: 204, headers: headersWith(requestId, { ...methods, ...preflight }) });
}

const sane = /^[A-Za-z0-9._:-]{1,128}$/;

/** The caller's own request id if it is a sane one, else a new one. */
export function requestIdOf(headers: Headers): string {
  const given = headers.get('svc-request-id');
  return given !== null && sane.test(given) && withoutSecrets(given) === given ? given : crypto.randomUUID();
}
