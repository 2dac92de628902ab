/** Who is calling, and what it may do at this moment. Every grant is checked here. */
import type { Application } from './application.ts';
import { fail } from './error.ts';
import { type Explanation, explain, lacking, type Question, refusal } from './explain.ts';
import { type Grants, named, type Owner } from './grant.ts';
import type { Digest } from './key.ts';
import { isA } from './permission.ts';
import { decideUnder, names, type Policy, type Resource } from './policy.ts';
import { compareTransforms, type Transform } from './transform.ts';

interface Caller {
  readonly tenantId: string;
  /** The Application itself, or the one that a Session belongs to. */
  readonly applicationId: string;
  readonly policy: Policy;
  /**
   * The key without which it could do nothing: its own, or of a Session that may do no more than its
   * authorizer, the authorizer's. None for a Session whose grants stand on their own.
   */
  readonly authority: { readonly applicationId: string; readonly keyId: string } | undefined;
  /** Those whose pages may use the key, if not all may. */
  readonly origins: readonly string[] | undefined;
  /** Of the key that was shown. */
  readonly digest: Digest;
  /** The moment of the request, by the clock that decides. */
  readonly now: number;
}

export type Principal =
  | (Caller & {
      readonly kind: 'application';
      readonly application: Application;
      readonly ceiling?: undefined;
    })
  | (Caller & {
      readonly kind: 'session';
      readonly sessionId: string;
      /** What the authorizer may do now, for a Session that may never do more than that. */
      readonly ceiling: Policy | undefined;
    });

export function ownerOf(principal: Principal): Owner {
  return principal.kind === 'session' ? 'session' : principal.application.type;
}

/** Whether the principal holds a permission at all, plainly or by a rule, on whatever. */
export function holds({ policy, ceiling }: Principal, permission: string): boolean {
  return names(policy, permission) && (!ceiling || names(ceiling, permission));
}

/** Refuses what the principal does not hold at all. */
export function mustHold(principal: Principal, permission: string): void {
  if (!holds(principal, permission)) throw missing(permission, lacking(asking(principal), permission));
}

/**
 * What the principal may see when it uses the permission on the resource; refuses if it may not. `isSaid`: whether
 * the caller itself has said where the resource lies, and not the database.
 */
export function permit(
  principal: Principal,
  permission: string,
  resource: Resource,
  isSaid: boolean,
): Transform {
  const verdict = decideUnder(principal.policy, principal.ceiling, permission, resource);
  if (verdict.allowed) return verdict.transform;
  throw missing(permission, refusal(asking(principal), permission, resource, isSaid));
}

/** The most that the principal sees of the resource, whichever of the permissions it uses; nothing by none of them. */
export function mostSeen(
  { policy, ceiling }: Principal,
  permissions: readonly string[],
  resource: Resource,
): Transform | undefined {
  const verdicts = permissions.map((permission) => decideUnder(policy, ceiling, permission, resource));
  return verdicts
    .flatMap((verdict) => (verdict.allowed ? [verdict.transform] : []))
    .toSorted(compareTransforms)
    .at(-1);
}

export function explained(principal: Principal, permission: string, resource: Resource): Explanation {
  return explain(asking(principal), permission, resource);
}

function asking({ kind, policy, ceiling }: Principal): Question {
  return { holder: kind, policy, ceiling };
}

function missing(permission: string, reason: string) {
  return fail('permission_missing', { detail: `This needs the permission ${permission}: ${reason}.` });
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
