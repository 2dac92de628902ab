/** Who is calling, and what it may do at this moment. Pure: everything that decides is in the arguments. */
import type { Application } from './application.ts';
import { fail } from './error.ts';
import { type Grants, named, type Owner } from './grant.ts';
import type { Digest } from './key.ts';
import { isA } from './permission.ts';

interface Caller {
  readonly tenantId: string;
  /** The Application itself, or the one that a Session belongs to. */
  readonly applicationId: string;
  readonly grants: Grants;
  /** Of the key that was shown. */
  readonly digest: Digest;
  /** The moment of the request, by the clock that decides. */
  readonly now: number;
}

export type Principal =
  | (Caller & { readonly kind: 'application'; readonly application: Application })
  | (Caller & {
      readonly kind: 'session';
      readonly sessionId: string;
      /** What the authorizer may do now, for a Session that may never do more than that. */
      readonly ceiling: Grants | undefined;
    });

export function ownerOf(principal: Principal): Owner {
  return principal.kind === 'session' ? 'session' : principal.application.type;
}

/**
 * Whether the principal holds a permission, plainly or by a rule. For operations that are not about data in
 * a container, naming it is enough: containers and conditions narrow Tokens, not Applications or Sessions.
 */
export function holds(principal: Principal, permission: string): boolean {
  if (!grant(principal.grants, permission)) return false;
  return principal.kind === 'application' || !principal.ceiling || grant(principal.ceiling, permission);
}

function grant(grants: Grants, permission: string): boolean {
  return (
    grants.permissions.includes(permission) ||
    grants.rules.some((rule) => rule.permissions.includes(permission))
  );
}

/**
 * No escalation: refuses when any of `touched` names a management permission that the principal does not hold.
 * Whoever changes an Application touches what it had and what it is to have; whoever regenerates its key
 * touches all that the key can do.
 */
export function refuseEscalation(principal: Principal, ...touched: Grants[]): void {
  refuseUnheld(
    principal,
    touched.flatMap(named).filter((permission) => isA('management', permission)),
  );
}

/** Refuses to hand out a permission that the principal does not hold. */
export function refuseUnheld(principal: Principal, permissions: string[]): void {
  const missing = permissions.find((permission) => !holds(principal, permission));
  if (missing === undefined) return;
  throw fail('grant_not_held', { detail: `This touches ${missing}, which this key does not hold itself.` });
}
