import { fail } from '../../../domain/error.ts';
import { defaultKeyChallenge } from '../../pipeline/problem.ts';
import type { Conventions } from '../../pipeline/route.ts';

/** How the endpoints of the AuthZEN standard differ from the rest of the API. */
export const conventions: Conventions = {
  otherKey: (headers) => /^(?:Bearer|DPoP) +(\S+)$/i.exec(headers.get('authorization') ?? '')?.[1] ?? null,
  keyChallenge: `${defaultKeyChallenge}, Bearer`,
  wrongContentType: () =>
    fail('validation_failed', { errors: { body: ['must have the content type application/json'] } }),
  requestIdHeader: 'X-Request-ID',
};

export const tag = 'AuthZEN';
