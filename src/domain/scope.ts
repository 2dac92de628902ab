/** Scopes: sets of resources, bounded by id and container. */
import type { Condition } from './rule.ts';

/** Matches one value, or every value with that prefix. */
export interface Bound {
  readonly value: string;
  readonly exact: boolean;
}

/** Without bounds, a scope contains every resource. Containers are in canonical form. */
export interface Scope {
  readonly container?: Bound | undefined;
  readonly id?: Bound | undefined;
}

/** The resources that meet all of these canonical conditions. Undefined if the conditions contradict each other. */
export function scopeOf(conditions: readonly Condition[]): Scope | undefined {
  return conditions.reduce<Scope | undefined>(
    (scope, { attribute, operator, value }) =>
      scope && intersect(scope, { [attribute]: { value, exact: operator === 'equals' } }),
    {},
  );
}

/** Reduces the conditions to at most one per attribute. Returns undefined if they contradict each other. */
export function narrowest(conditions: readonly Condition[]): Condition[] | undefined {
  const scope = scopeOf(conditions);
  if (!scope) return undefined;
  return (['id', 'container'] as const).flatMap((attribute) => {
    const bound = scope[attribute];
    return bound ? [{ attribute, operator: bound.exact ? 'equals' : 'starts_with', value: bound.value }] : [];
  });
}

/** Returns undefined if the scopes do not overlap. */
export function intersect(a: Scope, b: Scope): Scope | undefined {
  const container = narrower(a.container, b.container);
  const id = narrower(a.id, b.id);
  if (container === 'none' || id === 'none') return undefined;
  return { container, id };
}

function narrower(a: Bound | undefined, b: Bound | undefined): Bound | undefined | 'none' {
  if (covers(a, b)) return b;
  return covers(b, a) ? a : 'none';
}

export function covers(wide: Bound | undefined, narrow: Bound | undefined): boolean {
  if (!wide) return true;
  if (!narrow) return false;
  return wide.exact ? narrow.exact && narrow.value === wide.value : narrow.value.startsWith(wide.value);
}
