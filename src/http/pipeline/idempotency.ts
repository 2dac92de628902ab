/** Requests with an `Idempotency-Key` header. The records are stored by src/store/idempotency.ts. */
import { fail, throwIfInvalid } from '../../domain/error.ts';
import { identityOf } from '../../domain/principal.ts';
import type { IdempotentRequest } from '../../store/store.ts';
import { type Call, type Route, takesIdempotencyKey } from './route.ts';

const header = 'idempotency-key';

/** Returns undefined if the request has no idempotency key. Throws `validation_failed` if the key is invalid. */
export function idempotencyOf(
  route: Route,
  { principal, params }: Call,
  headers: Headers,
  bodyText: string,
): IdempotentRequest | undefined {
  const key = takesIdempotencyKey(route) ? headers.get(header) : null;
  if (key === null) return undefined;
  if (!/^[\x21-\x7e]{1,255}$/.test(key)) {
    throwIfInvalid({ [header]: ['must have 1 to 255 visible ASCII characters'] });
  }
  const target = `${route.method} ${route.path} ${JSON.stringify(params)}`;
  // A reply depends on the caller's grants, so a retry with other grants does not get the stored reply. A PUT is an
  // exception: its reply contains no secret, and it may have changed the caller's own grants.
  const { policy, ceiling } = principal;
  const grants = route.method === 'PUT' ? '' : JSON.stringify([policy.grants, ceiling?.grants]);
  const { applicationId: application } = principal;
  return { caller: identityOf(principal).id, application, key, request: `${target}\n${grants}\n${bodyText}` };
}

/**
 * Throws `idempotency_running` if this process is already handling a request with the same idempotency key. Other
 * processes are excluded by a lock in the database.
 */
export async function excludeConcurrent<T>(
  inProgress: Set<string>,
  tenant: string,
  { caller, key }: IdempotentRequest,
  run: () => Promise<T>,
): Promise<T> {
  const name = `${tenant} ${caller} ${key}`;
  if (inProgress.has(name)) throw fail('idempotency_running');
  inProgress.add(name);
  try {
    return await run();
  } finally {
    inProgress.delete(name);
  }
}
