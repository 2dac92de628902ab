/** Headers in the OpenAPI document: those of responses are said once and referred to. */

import { type Route, takesIdempotencyKey } from '../pipeline/route.ts';
import type { Parameter, Reference } from './openapi-types.ts';

const text = { type: 'string' };
const requestId = { ...text, pattern: '^[A-Za-z0-9._:-]{1,128}$' };

export const responseHeaders = {
  'SVC-REQUEST-ID': {
    description:
      'The id of the request: the one that it was sent with if that is a sane one, else a new one.',
    required: true,
    schema: requestId,
    example: 'checkout-7f3a',
  },
  'Idempotency-Replayed': {
    description:
      'There if the request was sent before with the same `Idempotency-Key`: this is the answer that it got then.',
    required: false,
    schema: { ...text, const: 'true' },
    example: 'true',
  },
  'Retry-After': {
    description: 'After how many seconds to try again.',
    required: true,
    schema: { type: 'integer', minimum: 1 },
    example: 1,
  },
  'RateLimit-Policy': {
    description:
      'The limits that the request came under: by its address and by its key, unless they are switched off. `q`: how many requests at once. `w`: the seconds after which as many have flown back.',
    required: false,
    schema: text,
    example: '"address";q=200000;w=10, "key";q=200000;w=10',
  },
  RateLimit: {
    description:
      'What is left of each. `r`: how many requests could be sent at once now. `t`: the seconds until there is one more.',
    required: false,
    schema: text,
    example: '"address";r=199998;t=1, "key";r=199999;t=1',
  },
  'WWW-Authenticate': {
    description: 'Which header takes the key.',
    required: true,
    schema: text,
    example: 'ApiKey header="SVC-API-KEY"',
  },
};

const headersByStatus: Record<number, (keyof typeof responseHeaders)[]> = {
  401: ['WWW-Authenticate'],
  429: ['Retry-After'],
  503: ['Retry-After'],
};

const limited = ['RateLimit-Policy', 'RateLimit'] as const;
/** Where all answers are the same. */
const unlimited = 401;

export function headersOf(kind: Route['kind'], status = 200): Record<string, Reference> {
  return referred([
    'SVC-REQUEST-ID',
    ...(kind === 'open' || status === unlimited ? [] : limited),
    ...(headersByStatus[status] ?? []),
  ]);
}

/** Of an answer that is remembered where a request may be sent again. */
export function headersOfSuccess(route: Route): Record<string, Reference> {
  return { ...headersOf(route.kind), ...(takesIdempotencyKey(route) && referred(['Idempotency-Replayed'])) };
}

function referred(names: (keyof typeof responseHeaders)[]): Record<string, Reference> {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}

const ownRequestId: Parameter = {
  name: 'SVC-REQUEST-ID',
  in: 'header',
  required: false,
  description: 'An id of your own for the request, to find it again. One that is not sane is replaced.',
  schema: requestId,
  example: 'checkout-7f3a',
};

const idempotencyKey: Parameter = {
  name: 'Idempotency-Key',
  in: 'header',
  required: false,
  description:
    'A name for the request, 1 to 255 visible ASCII characters. For 24 hours, the same request of the same caller with the same name does nothing again, and gets the answer of the first time.',
  schema: { ...text, pattern: '^[\\x21-\\x7e]{1,255}$' },
  example: 'order-1042',
};

/** Beside the key, which is said elsewhere. */
export function requestHeaders(route: Route): Parameter[] {
  return takesIdempotencyKey(route) ? [idempotencyKey, ownRequestId] : [ownRequestId];
}
