/** Bounds on the id and the container of a resource, and what they have in common. */

/** One thing that must hold of a resource, with its value ready to compare. */
export interface Test {
  readonly attribute: 'id' | 'container';
  readonly operator: 'equals' | 'starts_with';
  readonly value: string;
}

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

/** Where all of the tests hold; undefined if nowhere. */
export function scopeOf(tests: readonly Test[]): Scope | undefined {
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

export function covers(wide: Bound | undefined, narrow: Bound | undefined): boolean {
  if (!wide) return true;
  if (!narrow) return false;
  return wide.exact ? narrow.exact && narrow.value === wide.value : narrow.value.startsWith(wide.value);
}
