import { type Awaitable, then } from '../../domain/awaitable.ts';
import { fail } from '../../domain/error.ts';
import { parseKey } from '../../domain/key.ts';
import type { Principal } from '../../domain/principal.ts';
import type { Credentials } from '../../store/store.ts';

export type PresentedKey = NonNullable<ReturnType<typeof parseKey>>;

/**
 * The key in SVC-API-KEY, before anybody was asked about it. A missing, doubled (the two arrive as one value, joined
 * by a comma) or malformed one fails like one that is unknown, revoked or expired.
 */
export function presentedKey(headers: Headers): PresentedKey {
  const key = parseKey(headers.get('svc-api-key') ?? '');
  if (!key) throw fail('unauthenticated');
  return key;
}

/** Goes on with whoever the key belongs to at this moment. */
export function authenticate<T>(
  { kind, digest }: PresentedKey,
  credentials: Credentials,
  next: (principal: Principal) => Awaitable<T>,
): Awaitable<T> {
  return then(credentials.find(kind, digest), (principal) => {
    if (!principal) throw fail('unauthenticated');
    return next(principal);
  });
}
