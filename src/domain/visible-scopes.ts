/** The set of resources on which a permission may be used, as few and as wide parts as describe it. */

import type { Policy } from './policy.ts';
import { covers, meet, type Scope, scopeOf } from './scope.ts';

/** Where a permission may be used. Nothing outside the scopes is visible. */
export interface Visible {
  readonly scopes: readonly Scope[];
  /** Whether everything inside the scopes is visible. If not, each resource has to be checked. */
  readonly exact: boolean;
}

/** The most scopes that a session and its ceiling are intersected to; beyond that, one side alone is used. */
export const maxScopes = 100;

/** Where the principal may use the permission. */
export function visible(
  { policy, ceiling }: { readonly policy: Policy; readonly ceiling?: Policy | undefined },
  permission: string,
): Visible {
  const own = widest(scopesOf(policy, permission));
  if (!ceiling) return { scopes: own, exact: true };
  const above = widest(scopesOf(ceiling, permission));
  const both = own
    .flatMap((mine) => above.map((theirs) => meet(mine, theirs)))
    .filter((one) => one !== undefined);
  if (both.length <= maxScopes) return { scopes: widest(both), exact: true };
  return { scopes: own.length <= above.length ? own : above, exact: false };
}

/** What of it lies in a container and below. */
export function within({ scopes, exact }: Visible, container: string): Visible {
  if (container === '/') return { scopes, exact };
  const only = { container: { value: container, exact: false } };
  return { scopes: scopes.map((scope) => meet(scope, only)).filter((scope) => scope !== undefined), exact };
}

function scopesOf(policy: Policy, permission: string): Scope[] {
  if (policy.plain.has(permission)) return [{}];
  return policy.rules
    .filter((rule) => rule.permissions.has(permission))
    .map(({ tests }) => scopeOf(tests))
    .filter((scope) => scope !== undefined);
}

/** Without those that lie in another; of two alike, the first. */
function widest(scopes: Scope[]): Scope[] {
  return scopes.filter((scope, index) =>
    scopes.every((other, at) => !contains(other, scope) || (contains(scope, other) && index <= at)),
  );
}

function contains(wide: Scope, narrow: Scope): boolean {
  return covers(wide.container, narrow.container) && covers(wide.id, narrow.id);
}
