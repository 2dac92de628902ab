/** Scopes: sets of resources, bounded by id and container. */

/** A condition on a resource, normalized for comparison. */
export interface Test {
  readonly attribute: 'id' | 'container';
  readonly operator: 'equals' | 'starts_with';
  readonly value: string;
}

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

/** The resources that pass all tests. Returns undefined if the tests contradict each other. */
export function scopeOf(tests: readonly Test[]): Scope | undefined {
  return tests.reduce<Scope | undefined>((scope, test) => scope && intersect(scope, asScope(test)), {});
}

/** Reduces the tests to at most one per attribute. Returns undefined if they contradict each other. */
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
