/** Compares two policies: on which resources their decisions differ. */
import { z } from 'zod';
import { Text } from '../common-fields.ts';
import type { Grants } from '../grant.ts';
import { hasTrait } from '../permission.ts';
import { compilePolicy, decideUnder, forPurpose, type Policy, type Resource } from '../policy.ts';
import { canonicalContainer } from '../rule.ts';
import type { Steps } from '../steps.ts';

/** A decision: the transform, or `denied`. From the most access to the least. */
export const Access = z.enum(['reveal', 'reveal_with_purpose', 'mask', 'redact', 'denied']);
export type Access = z.infer<typeof Access>;

export const AccessChange = z
  .object({
    permission: Text.describe('The permission.'),
    container: Text.optional().describe(
      'The container, with those below it that no other rule names. Absent for permissions without containers.',
    ),
    destination: Text.optional().describe('Only for `token:use`: the id of the destination.'),
    from: Access.describe(
      'The decision with the current rules. `reveal_with_purpose`: `reveal` for requests that state a purpose, `mask` for others.',
    ),
    to: Access.describe('The decision with the new rules.'),
  })
  .meta({ id: 'AccessChange' });
export type AccessChange = z.infer<typeof AccessChange>;

/** To require a purpose is a smaller change than to mask. */
const amounts = { reveal: 3, reveal_with_purpose: 2.5, mask: 2, redact: 1, denied: 0 } as const;

/** Negative if `a` is less access than `b`. */
export function compareAccess(a: Access, b: Access): number {
  return amounts[a] - amounts[b];
}

export function accessOf(
  policy: Policy,
  ceiling: Policy | undefined,
  permission: string,
  resource: Resource,
): Access {
  const decideWith = (purpose: string | undefined) => {
    const stating = forPurpose({ policy, ceiling }, purpose);
    const verdict = decideUnder(stating.policy, stating.ceiling, permission, resource);
    return verdict.allowed ? verdict.transform : 'denied';
  };
  const most = decideWith('any');
  const mayNeedPurpose = most === 'reveal' && (policy.byPurpose || ceiling?.byPurpose);
  return mayNeedPurpose && decideWith(undefined) !== most ? 'reveal_with_purpose' : most;
}

/** Whether another decision has another effect. If a permission returns no data, its transform has no effect. */
export function isChange(permission: string, from: Access, to: Access): boolean {
  const returnsData =
    hasTrait(permission, 'scoped') && !['token:delete', 'token:search', 'token:use'].includes(permission);
  return returnsData ? from !== to : (from === 'denied') !== (to === 'denied');
}

/**
 * All differences between two policies of an application. A decision depends only on which of the rules' containers
 * include the resource, so one comparison per container covers all resources. Omits a change that equals the change of
 * the nearest container above.
 */
export function* accessChanges(before: Policy, after: Policy): Steps<AccessChange[]> {
  const permissions = new Set([...before.granted, ...after.granted]);
  const changes: AccessChange[] = [];
  for (const permission of [...permissions].sort())
    for (const destination of destinationsIn([before, after], permission))
      changes.push(...(yield* changesOf(permission, destination, before, after)));
  return changes;
}

/** The destinations that rules name. One undefined entry for permissions that need no destination. */
function destinationsIn(policies: readonly Policy[], permission: string): (string | undefined)[] {
  if (!hasTrait(permission, 'destination')) return [undefined];
  const rules = policies.flatMap((policy) => policy.rules.filter((rule) => rule.permissions.has(permission)));
  return [...new Set(rules.flatMap(({ rule }) => rule.destinations ?? []))];
}

function* changesOf(
  permission: string,
  destination: string | undefined,
  before: Policy,
  after: Policy,
): Steps<AccessChange[]> {
  const compare = (container: string) => ({
    from: accessOf(before, undefined, permission, { container, destination }),
    to: accessOf(after, undefined, permission, { container, destination }),
  });
  if (!hasTrait(permission, 'scoped')) {
    const { from, to } = compare('/');
    return isChange(permission, from, to) ? [{ permission, from, to }] : [];
  }
  const compared = new Map<string, { from: Access; to: Access }>();
  const changes: AccessChange[] = [];
  for (const container of namedContainers([before, after], permission).sort(byDepth)) {
    yield;
    const { from, to } = compare(container);
    compared.set(container, { from, to });
    const above = nearestAbove(container, compared);
    if (isChange(permission, from, to) && (above?.from !== from || above.to !== to))
      changes.push({ permission, container, ...(destination !== undefined && { destination }), from, to });
  }
  return changes;
}

/** The containers of rules that grant the permission, and the root, in canonical form. */
export function namedContainers(policies: readonly Policy[], permission: string): string[] {
  const named = policies
    .flatMap(({ rules }) => rules)
    .filter((rule) => rule.permissions.has(permission))
    .flatMap(({ conditions }) => conditions)
    .filter(({ attribute }) => attribute === 'container')
    .map(({ value }) => value);
  return [...new Set(['/', ...named])];
}

function byDepth(a: string, b: string): number {
  return a.length - b.length || (a < b ? -1 : 1);
}

/** The value of the nearest container above this one that has a value. Undefined if none has. */
export function nearestAbove<T>(container: string, values: ReadonlyMap<string, T>): T | undefined {
  for (let path = container; path !== '/'; ) {
    path = path.slice(0, path.lastIndexOf('/', path.length - 2) + 1);
    const value = values.get(path);
    if (value !== undefined) return value;
  }
  return undefined;
}

/** Limits the decisions that are compared for one session. */
const maxSessionPoints = 4000;

/**
 * The largest change in the access of a session when its ceiling changes from `before` to `after`. `changed` has the
 * permissions that the two ceilings decide differently. `largest` is undefined if nothing changes. `complete` is false
 * if the comparison stopped at `maxSessionPoints`.
 */
export function* sessionChange(
  grants: Grants,
  before: Policy,
  after: Policy,
  changed: ReadonlySet<string>,
): Steps<{ largest: AccessChange | undefined; complete: boolean }> {
  const policy = compilePolicy(grants);
  let largest: AccessChange | undefined;
  let points = 0;
  for (const permission of policy.granted) {
    if (!changed.has(permission)) continue;
    const isScoped = hasTrait(permission, 'scoped');
    const destinations = destinationsIn([policy], permission);
    for (const { container, resource } of resourcesFor(policy, [before, after], permission))
      for (const destination of destinations) {
        yield;
        if (++points > maxSessionPoints) return { largest, complete: false };
        const used = { ...resource, destination };
        const from = accessOf(policy, before, permission, used);
        const to = accessOf(policy, after, permission, used);
        const at = { ...(isScoped && { container }), ...(destination !== undefined && { destination }) };
        const change = { permission, ...at, from, to };
        if (isChange(permission, from, to) && sizeOf(change) > (largest ? sizeOf(largest) : 0))
          largest = change;
      }
  }
  return { largest, complete: true };
}

function sizeOf({ from, to }: AccessChange): number {
  return Math.abs(compareAccess(from, to));
}

/** Stands for any name that no rule mentions. If a rule mentioned it, a change could be missed. */
const other = '_-other-_';

/** Yields a resource for every combination of conditions that a resource can meet. */
function* resourcesFor(
  policy: Policy,
  ceilings: readonly Policy[],
  permission: string,
): Generator<{ container: string; resource: Resource }> {
  const containers = namedContainers([policy, ...ceilings], permission);
  const ids = policy.rules
    .filter((rule) => rule.permissions.has(permission))
    .flatMap(({ conditions }) => conditions)
    .filter(({ attribute }) => attribute === 'id')
    .flatMap(({ value, operator }) => (operator === 'equals' ? [value] : [value, `${value}${other}`]));
  for (const id of new Set([other, ...ids]))
    for (const container of containers) {
      yield { container, resource: { id, container } };
      // A condition with `equals` matches the container, but not the containers below it, so both cases are compared.
      yield { container, resource: { id, container: canonicalContainer(`${container}${other}`) } };
    }
}
