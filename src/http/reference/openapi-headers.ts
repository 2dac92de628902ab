/** Request and response headers in the OpenAPI document. */
import { type Route, sendsEtag, takesIdempotencyKey, takesIfMatch } from '../pipeline/route.ts';
import { example } from './examples.ts';
import type { Schema } from './json-schema.ts';

export interface Reference {
  readonly $ref: string;
}

export interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly required: boolean;
  readonly description?: string;
  readonly style?: 'form' | 'deepObject';
  readonly explode?: boolean;
  readonly schema: Schema;
  readonly example?: unknown;
}

const text = { type: 'string' };
const requestId = { ...text, pattern: '^[A-Za-z0-9._:-]{1,128}$' };

export const responseHeaders = {
  'SVC-REQUEST-ID': {
    description: 'Id of the request: the one from the request header if it is valid, otherwise a new one.',
    required: true,
    schema: requestId,
    example: 'checkout-7f3a',
  },
  'X-Request-ID': {
    description: 'The `X-Request-ID` of the request, unchanged. Absent if the request has none.',
    required: false,
    schema: text,
    example: 'gateway-1f2e',
  },
  'SVC-SESSION-ID': {
    description: 'Id of the session that was authorized.',
    required: true,
    schema: { ...text, format: 'uuid' },
    example: example.session.id,
  },
  'SVC-SESSION-EXPIRES-AT': {
    description:
      'When the session ends: at its expiry, or at that of its application, if this is earlier. With a ceiling, at the latest when the key or the application that authorized it expires.',
    required: true,
    schema: { ...text, format: 'date-time' },
    example: example.session.expires_at,
  },
  'Idempotency-Replayed': {
    description:
      'Present if the request was sent before with the same `Idempotency-Key`. The response is that of the first request.',
    required: false,
    schema: { ...text, const: 'true' },
    example: 'true',
  },
  ETag: {
    description:
      'The version of the resource, for `If-Match`. It is the same for every caller. Absent with `dry_run`.',
    required: false,
    schema: text,
    example: '"mb3k2x9d"',
  },
  'Retry-After': {
    description: 'Seconds to wait before a retry.',
    required: true,
    schema: { type: 'integer', minimum: 1 },
    example: 1,
  },
  'RateLimit-Policy': {
    description:
      'The rate limits of which less than half remains, per IP address and per key. `q`: number of requests in a burst. `w`: seconds until a used-up burst is available again. Absent if at least half of each remains.',
    required: false,
    schema: text,
    example: '"address";q=200000;w=10, "key";q=200000;w=10',
  },
  RateLimit: {
    description:
      'The current state of each limit in `RateLimit-Policy`. `r`: remaining requests. `t`: seconds until one more request is available.',
    required: false,
    schema: text,
    example: '"address";r=41023;t=1, "key";r=0;t=1',
  },
  'WWW-Authenticate': {
    description:
      'The header that must contain the key; the AuthZEN endpoints also name `Bearer`. For the key of a bound session: `DPoP error="…"`, with `use_dpop_nonce` if the proof needs the nonce in `DPoP-Nonce`, or `invalid_dpop_proof`.',
    required: true,
    schema: text,
    example: 'ApiKey header="SVC-API-KEY"',
  },
  'DPoP-Nonce': {
    description:
      'Only for a bound session: the nonce for the next DPoP proofs. Absent if the current one can still be used.',
    required: false,
    schema: text,
    example: 'AZqH0VZ2Yd0s3vQF3aB1fZk2mJ8x5w',
  },
};

const headersByStatus: Record<number, (keyof typeof responseHeaders)[]> = {
  401: ['WWW-Authenticate'],
  429: ['Retry-After'],
  503: ['Retry-After'],
};

const rateLimitHeaders = ['RateLimit-Policy', 'RateLimit'] as const;

export function responseHeadersOf(
  { kind, conventions, failures }: Pick<Route, 'kind' | 'conventions' | 'failures'>,
  status = 200,
): Record<string, Reference> {
  // A 401 must be the same for every invalid key, so it has no rate limit headers.
  const isLimited = (kind !== 'open' || failures?.includes('too_many_requests')) && status !== 401;
  return references([
    'SVC-REQUEST-ID',
    ...(conventions?.requestIdHeader ? (['X-Request-ID'] as const) : []),
    ...(isLimited ? rateLimitHeaders : []),
    ...(kind === 'open' ? [] : (['DPoP-Nonce'] as const)),
    ...(headersByStatus[status] ?? []),
  ]);
}

/** The headers of a success reply. `declared` are those that only this reply has. */
export function successHeaders(route: Route, declared: readonly string[] = []): Record<string, Reference> {
  return {
    ...responseHeadersOf(route),
    ...references(declared),
    ...(takesIdempotencyKey(route) && references(['Idempotency-Replayed'])),
    ...(sendsEtag(route) && references(['ETag'])),
  };
}

function references(names: readonly string[]): Record<string, Reference> {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}

const requestIdParameter: Parameter = {
  name: 'SVC-REQUEST-ID',
  in: 'header',
  required: false,
  description:
    'Your own id for the request, to find it in logs. An invalid one is replaced by a generated id.',
  schema: requestId,
  example: 'checkout-7f3a',
};

const otherRequestId: Parameter = {
  name: 'X-Request-ID',
  in: 'header',
  required: false,
  description:
    'Your own id for the request. The response repeats it, and it is used like `SVC-REQUEST-ID` if it is valid.',
  schema: text,
  example: 'gateway-1f2e',
};

const purposeParameter: Parameter = {
  name: 'SVC-PURPOSE',
  in: 'header',
  required: false,
  description:
    'Why you make the request, for the audit log: 1 to 200 characters without control characters. Encode other characters than ASCII as UTF-8.',
  schema: { ...text, minLength: 1, maxLength: 200 },
  example: 'ticket 4711',
};

const idempotencyKey: Parameter = {
  name: 'Idempotency-Key',
  in: 'header',
  required: false,
  description:
    'Unique value for the request: 1 to 255 visible ASCII characters. For 24 hours, repeating the request with the same value returns the first response instead of running it again.',
  schema: { ...text, pattern: '^[\\x21-\\x7e]{1,255}$' },
  example: 'order-1042',
};

const ifMatch: Parameter = {
  name: 'If-Match',
  in: 'header',
  required: false,
  description:
    'The `ETag` of the version that you read, or a list of them. If the resource has changed since, your change is not made, and you get 412. Without it, the last change wins.',
  schema: text,
  example: '"mb3k2x9d"',
};

const proofParameter: Parameter = {
  name: 'DPoP',
  in: 'header',
  required: false,
  description:
    'A DPoP proof (RFC 9449) for this request. Required with the key of a bound session; on `POST /sessions`, it binds the new session.',
  schema: text,
};

/** The request headers of a route, except the key, which is declared as a security scheme. */
export function requestHeaders(route: Route): Parameter[] {
  return [
    ...(takesIdempotencyKey(route) ? [idempotencyKey] : []),
    ...(takesIfMatch(route) ? [ifMatch] : []),
    requestIdParameter,
    ...(route.conventions?.requestIdHeader ? [otherRequestId] : []),
    ...(route.kind === 'open' ? [] : [purposeParameter, proofParameter]),
  ];
}
