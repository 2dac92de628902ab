/** The set of resources on which a permission may be used, as few and as wide parts as describe it. */

import type { Policy, Test } from './policy.ts';
import type { Principal } from './principal.ts';

/** A value itself, or everything that starts with it. */
export interface Bound {
  readonly value: string;
  readonly exact: boolean;
}

/** What is bounded by nothing is everything. Containers are in canonical form. */
export interface Scope {
  readonly container?: Bound | undefined;
  readonly id?: Bound | undefined;
  /** It lies in any of these, too. */
  readonly among?: readonly Scope[] | undefined;
}

/** Of what two sides have in common, so many parts are asked for one by one; where there are more, each side is. */
const mostParts = 100;

/** Where the principal may use the permission: a resource is visible if it lies in any of these. */
export function visible(
  { policy, ceiling }: Pick<Principal, 'policy' | 'ceiling'>,
  permission: string,
): Scope[] {
  const own = widest(scopesOf(policy, permission));
  if (!ceiling) return own;
  const above = widest(scopesOf(ceiling, permission));
  const both = own
    .flatMap((mine) => above.map((theirs) => meet(mine, theirs)))
    .filter((one) => one !== undefined);
  return both.length > mostParts ? own.map((mine) => ({ ...mine, among: above })) : widest(both);
}

function scopesOf(policy: Policy, permission: string): Scope[] {
  if (policy.plain.has(permission)) return [{}];
  return policy.rules
    .filter((rule) => rule.permissions.has(permission))
    .map((rule) =>
      rule.tests.reduce<Scope | undefined>((scope, test) => scope && meet(scope, asScope(test)), {}),
    )
    .filter((scope) => scope !== undefined);
}

function asScope({ attribute, operator, value }: Test): Scope {
  return { [attribute]: { value, exact: operator === 'equals' } };
}

/** What lies in both, or nothing. Only the first may have an `among`. */
export function meet(a: Scope, b: Scope): Scope | undefined {
  const container = narrower(a.container, b.container);
  const id = narrower(a.id, b.id);
  if (container === 'none' || id === 'none') return undefined;
  return a.among ? { container, id, among: a.among } : { container, id };
}

function narrower(a: Bound | undefined, b: Bound | undefined): Bound | undefined | 'none' {
  if (covers(a, b)) return b;
  return covers(b, a) ? a : 'none';
}

function covers(wide: Bound | undefined, narrow: Bound | undefined): boolean {
  if (!wide) return true;
  if (!narrow) return false;
  return wide.exact ? narrow.exact && narrow.value === wide.value : narrow.value.startsWith(wide.value);
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
