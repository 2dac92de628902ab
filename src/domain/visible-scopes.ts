/** The scopes in which a principal may use a permission. Lists query only these. */

import type { Grants } from './grant.ts';
import { hasTrait } from './permission.ts';
import { compilePolicy, type Policy } from './policy.ts';
import { covers, intersect, type Scope, scopeOf } from './scope.ts';

/** Resources outside the scopes are not visible. */
export interface Visible {
  readonly scopes: readonly Scope[];
  /** Whether all resources inside the scopes are visible. If false, each one must be checked. */
  readonly exact: boolean;
}

/** Limits the scopes that two sets have in common. Above it, `inBoth` returns the scopes of one of them. */
const maxScopes = 100;

export function visible(
  { policy, ceiling }: { readonly policy: Policy; readonly ceiling?: Policy | undefined },
  permission: string,
): Visible {
  const exact = !hasTrait(permission, 'destination');
  const own = { scopes: widest(scopesOf(policy, permission)), exact };
  return ceiling ? inBoth(own, { scopes: widest(scopesOf(ceiling, permission)), exact }) : own;
}

/** Whether the grants have only rules, and none allows a part of the ceiling. Ignores destinations. */
export function appliesNowhere(grants: Grants, ceiling: Policy): boolean {
  if (grants.permissions.length > 0) return false;
  const above = ceiling.rules.map((rule) => ({ ...rule, scope: scopeOf(rule.conditions) }));
  return compilePolicy(grants).rules.every(({ conditions, permissions }) => {
    const scope = scopeOf(conditions);
    const names = [...permissions];
    if (names.some((name) => !hasTrait(name, 'scoped') || (scope && ceiling.plain.has(name)))) return false;
    return !above.some(
      (rule) =>
        scope &&
        rule.scope &&
        intersect(scope, rule.scope) &&
        names.some((name) => rule.permissions.has(name)),
    );
  });
}

export function inBoth(a: Visible, b: Visible): Visible {
  const both = a.scopes
    .flatMap((mine) => b.scopes.map((theirs) => intersect(mine, theirs)))
    .filter((one) => one !== undefined);
  if (both.length <= maxScopes) return { scopes: widest(both), exact: a.exact && b.exact };
  return { scopes: a.scopes.length <= b.scopes.length ? a.scopes : b.scopes, exact: false };
}

export function within({ scopes, exact }: Visible, container: string): Visible {
  if (container === '/') return { scopes, exact };
  const only = { container: { value: container, exact: false } };
  return {
    scopes: scopes.map((scope) => intersect(scope, only)).filter((scope) => scope !== undefined),
    exact,
  };
}

function scopesOf(policy: Policy, permission: string): Scope[] {
  if (policy.plain.has(permission)) return [{}];
  return policy.rules
    .filter((rule) => rule.permissions.has(permission))
    .map(({ conditions }) => scopeOf(conditions))
    .filter((scope) => scope !== undefined);
}

/** Removes scopes that another scope contains. */
function widest(scopes: Scope[]): Scope[] {
  return scopes.filter((scope, index) =>
    scopes.every((other, at) => !contains(other, scope) || (contains(scope, other) && index <= at)),
  );
}

function contains(wide: Scope, narrow: Scope): boolean {
  return covers(wide.container, narrow.container) && covers(wide.id, narrow.id);
}
