/** The set of resources on which a permission may be used, as few and as wide parts as describe it. */

import type { Policy, Test } from './policy.ts';
import type { Principal } from './principal.ts';

/** A value itself, or everything that starts with it. */
export interface Bound {
  readonly value: string;
  readonly exact: boolean;
}

/** A scope without bounds is everything. Containers are in canonical form. */
export interface Scope {
  readonly container?: Bound | undefined;
  readonly id?: Bound | undefined;
}

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
  { policy, ceiling }: Pick<Principal, 'policy' | 'ceiling'>,
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

/** Where all of the tests hold; undefined if nowhere. */
function scopeOf(tests: readonly Test[]): Scope | undefined {
  return tests.reduce<Scope | undefined>((scope, test) => scope && meet(scope, asScope(test)), {});
}

/** At most one test for each attribute that together say the same; undefined if they can never all hold. */
export function narrowest(tests: readonly Test[]): Test[] | undefined {
  const scope = scopeOf(tests);
  return (
    scope &&
    (['id', 'container'] as const).flatMap((attribute): Test[] => {
      const bound = scope[attribute];
      return bound
        ? [{ attribute, operator: bound.exact ? 'equals' : 'starts_with', value: bound.value }]
        : [];
    })
  );
}

function asScope({ attribute, operator, value }: Test): Scope {
  return { [attribute]: { value, exact: operator === 'equals' } };
}

/** What lies in both, or undefined. */
export function meet(a: Scope, b: Scope): Scope | undefined {
  const container = narrower(a.container, b.container);
  const id = narrower(a.id, b.id);
  if (container === 'none' || id === 'none') return undefined;
  return { container, id };
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
