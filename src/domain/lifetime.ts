/** The maximum lifetime of the applications and keys of a tenant. */
import { requireFuture, timestamp } from './common-fields.ts';
import { throwIfInvalid } from './error.ts';

/** The time of the request, and the tenant's maximum lifetime in milliseconds, which is undefined if unlimited. */
interface Caller {
  readonly now: number;
  readonly maxLifetime?: number | undefined;
}

/** The latest expiry that a new key may have. Undefined if it may be valid forever. */
export function latestExpiry({ now, maxLifetime }: Caller): number | undefined {
  return maxLifetime === undefined ? undefined : now + maxLifetime;
}

/**
 * The expiry of a new application or key: `expiresAt` or, if absent, the latest one that the tenant allows. Throws
 * `validation_failed` if `expiresAt` has passed or is too late.
 */
export function newExpiry(expiresAt: number | undefined, caller: Caller): number | undefined {
  if (expiresAt === undefined) return latestExpiry(caller);
  requireFuture(expiresAt, caller.now);
  requireWithinLifetime(expiresAt, caller);
  return expiresAt;
}

/** Throws `validation_failed` if the expiry is later than the tenant allows. */
export function requireWithinLifetime(expiresAt: number, caller: Caller): void {
  const latest = latestExpiry(caller) ?? Number.POSITIVE_INFINITY;
  if (expiresAt > latest) throwIfInvalid({ expires_at: [tooLate(latest)] });
}

function tooLate(latest: number): string {
  return `must be at most ${timestamp(latest)}, because the tenant has a maximum lifetime`;
}

/**
 * Throws `validation_failed` if a key would expire after its application. `applicationExpiry` is a timestamp. A key
 * without an expiry ends with its application in any case.
 */
export function requireWithinApplication(
  expiresAt: number | undefined,
  applicationExpiry: string | undefined,
): void {
  if (!endsWithApplication(expiresAt ?? 0, applicationExpiry)) return;
  const latest = `must be at most ${applicationExpiry}, when the application expires`;
  throwIfInvalid({ expires_at: [`${latest}: change the expiry of the application first`] });
}

/**
 * Whether a key ends with its application, before its own expiry. This happens if the application's expiry was changed
 * to an earlier time. It also happens if the tenant has a maximum lifetime, which counts from the creation of each key.
 */
export function endsWithApplication(expiresAt: number, applicationExpiry: string | undefined): boolean {
  return applicationExpiry !== undefined && expiresAt > Date.parse(applicationExpiry);
}
