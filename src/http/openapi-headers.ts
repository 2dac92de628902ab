/** Response headers in the OpenAPI document, said once and referred to. */
import type { Reference } from './openapi.ts';
import type { Route } from './route.ts';

const text = { type: 'string' };

export const responseHeaders = {
  'SVC-REQUEST-ID': {
    description:
      'The id of the request: the one that it was sent with if that is a sane one, else a new one.',
    required: true,
    schema: { ...text, pattern: '^[A-Za-z0-9._:-]{1,128}$' },
    example: 'checkout-7f3a',
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
  const names = [
    'SVC-REQUEST-ID',
    ...(kind === 'open' || status === unlimited ? [] : limited),
    ...(headersByStatus[status] ?? []),
  ];
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}
