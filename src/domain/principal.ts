/** Who is calling, and what it may do at this moment. Every grant is checked here. */
import type { Application } from './application.ts';
import { fail } from './error.ts';
import { lacking, type Question, refusal } from './explain.ts';
import { type Grants, named, type Owner } from './grant.ts';
import type { Digest } from './key.ts';
import { isA } from './permission.ts';
import { decideUnder, isGrantedSomewhere, type Policy, type Resource } from './policy.ts';
import type { Transform } from './transform.ts';

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

/** Whether the key lives in a browser, where others hold the same public key or further sessions. */
export function isInBrowser(principal: Principal): boolean {
  const owner = ownerOf(principal);
  return owner === 'session' || owner === 'public';
}

/** Whether the principal holds a permission at all, plainly or by a rule, on whatever. */
export function holds({ policy, ceiling }: Principal, permission: string): boolean {
  return isGrantedSomewhere(policy, permission) && (!ceiling || isGrantedSomewhere(ceiling, permission));
}

/** Refuses what the principal does not hold at all. */
export function mustHold(principal: Principal, permission: string): void {
  if (!holds(principal, permission)) throw missing(permission, lacking(questionOf(principal), permission));
}

/**
 * The transform with which the principal may use the permission on a stored token. The 403 is the same sentence for
 * every container and all rules, so that nobody can find out where the token lies.
 */
export function permit(principal: Principal, permission: string, token: Resource): Transform {
  const verdict = decideUnder(principal.policy, principal.ceiling, permission, token);
  if (verdict.allowed) return verdict.transform;
  throw fail('permission_missing', { detail: `You cannot use \`${permission}\` on this token.` });
}

/** Like `permit`, for a container that the caller named in its request. The 403 explains, by the caller's own rules. */
export function permitNamed(principal: Principal, permission: string, resource: Resource): Transform {
  const verdict = decideUnder(principal.policy, principal.ceiling, permission, resource);
  if (verdict.allowed) return verdict.transform;
  throw missing(permission, refusal(questionOf(principal), permission, resource));
}

export function questionOf({ kind, policy, ceiling }: Principal): Question {
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
export function denyEscalation(principal: Principal, ...touched: Grants[]): void {
  denyUnheldGrants(
    principal,
    touched.flatMap(named).filter((permission) => isA('management', permission)),
  );
}

/** Refuses to hand out a permission that the principal does not hold. */
export function denyUnheldGrants(principal: Principal, permissions: string[]): void {
  const missing = permissions.find((permission) => !holds(principal, permission));
  if (missing === undefined) return;
  throw fail('grant_not_held', { detail: `This touches ${missing}, which this key does not hold itself.` });
}
