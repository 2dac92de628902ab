import { type Awaitable, then } from '../domain/awaitable.ts';
import { fail } from '../domain/error.ts';
import { type Digest, recognise } from '../domain/key.ts';
import type { Principal } from '../domain/principal.ts';
import type { Credentials } from '../store/store.ts';

/**
 * Goes on with whoever shows the key in SVC-API-KEY. A missing, doubled (the two arrive as one value, joined by a
 * comma), malformed, unknown, revoked or expired key all fail alike. `allow` throws if the key may not be looked up
 * now.
 */
export function authenticate<T>(
  headers: Headers,
  credentials: Credentials,
  allow: (digest: Digest) => void,
  next: (principal: Principal) => Awaitable<T>,
): Awaitable<T> {
  const key = recognise(headers.get('svc-api-key') ?? '');
  if (!key) throw fail('unauthenticated');
  allow(key.digest);
  return then(credentials.find(key.kind, key.digest), (principal) => {
    if (!principal) throw fail('unauthenticated');
    return next(principal);
  });
}
