/** Proposes the smallest grants that cover the recorded uses of an application. */
import { z } from 'zod';
import { commonContainer } from '../audit.ts';
import { type Grants, noGrants } from '../grant.ts';
import { hasTrait } from '../permission.ts';
import { compilePolicy, decide, type Policy } from '../policy.ts';
import { canonicalContainer, maxRules, type Rule, Transform } from '../rule.ts';
import type { Steps } from '../steps.ts';
import { UnusedGrant, type Use, unusedGrants } from '../usage.ts';
import { type AccessChange, accessChanges, compareAccess } from './change.ts';

/** From the highest risk to the lowest. */
export const risks = ['management', 'reveal', 'change', 'mask', 'redact'] as const;
const changing: readonly string[] = ['token:create', 'token:update', 'token:delete'];

export const RankedGrant = UnusedGrant.extend({
  transform: Transform.describe('The transform of the grant.'),
  risk: z
    .enum(risks)
    .describe(
      '`management`: can manage applications, sessions or the log. `reveal`: plaintext. `change`: can change tokens. `mask`, `redact`: other reads.',
    ),
}).meta({ id: 'RankedGrant' });
export type RankedGrant = z.infer<typeof RankedGrant>;

type PermissionUse = Pick<Use, 'permission' | 'container'>;

export interface Advice {
  /** Grants that no recorded use needed, highest risk first. */
  readonly unused: readonly RankedGrant[];
  /** Undefined if nothing can be removed without giving more access somewhere, or if nothing would remain. */
  readonly proposal: Grants | undefined;
}

export function* adviceFor(grants: Grants, uses: readonly PermissionUse[]): Steps<Advice> {
  const policy = compilePolicy(grants);
  const unused = yield* rankedUnused(grants, policy, uses);
  const proposal = yield* reduced(grants, policy, uses);
  const isEmpty = proposal.permissions.length + proposal.rules.length === 0;
  const changes = yield* accessChanges(policy, compilePolicy(proposal));
  const isUseful = !isEmpty && changes.length > 0 && !widens(changes);
  return { unused, proposal: isUseful ? proposal : undefined };
}

/** Grants that no recorded use needed, highest risk first. */
export function* rankedUnused(
  grants: Grants,
  policy: Policy,
  uses: readonly PermissionUse[],
): Steps<RankedGrant[]> {
  return (yield* unusedGrants(policy, uses)).map((grant) => ranked(grant, grants)).sort(byRisk);
}

function widens(changes: readonly AccessChange[]): boolean {
  return changes.some(({ from, to }) => compareAccess(to, from) > 0);
}

function ranked(grant: UnusedGrant, { rules }: Grants): RankedGrant {
  const transform = grant.rule === 'permissions' ? 'mask' : (rules[grant.rule - 1] as Rule).transform;
  return { ...grant, transform, risk: riskOf(grant.permission, transform) };
}

function riskOf(permission: string, transform: Transform): RankedGrant['risk'] {
  if (hasTrait(permission, 'management')) return 'management';
  if (changing.includes(permission)) return 'change';
  return transform;
}

function byRisk(a: RankedGrant, b: RankedGrant): number {
  return risks.indexOf(a.risk) - risks.indexOf(b.risk);
}

/** Where one permission is granted: rule index → container, and whether it is in `permissions`. */
interface Part {
  readonly containers: ReadonlyMap<number, string>;
  readonly plain: boolean;
}

function* reduced(grants: Grants, policy: Policy, uses: readonly PermissionUse[]): Steps<Grants> {
  const byPermission = Map.groupBy(uses, ({ permission }) => permission);
  const parts = new Map<string, Part>();
  for (const permission of policy.granted) {
    yield;
    parts.set(permission, yield* reducedPart(grants, policy, permission, byPermission.get(permission) ?? []));
  }
  return grantsFrom(grants, parts);
}

/**
 * Reduces the grants of one permission to its recorded uses. The rule that decides a use still decides it, because its
 * container still includes the use, and other rules only shrink. Elsewhere a rule that no longer applies may let another
 * one give more access. Then the grants are returned unchanged.
 */
function* reducedPart(
  grants: Grants,
  policy: Policy,
  permission: string,
  uses: readonly PermissionUse[],
): Steps<Part> {
  const whole = wholePart(grants, permission);
  // Uses are recorded without their destination, so they do not tell which rule decided.
  if (hasTrait(permission, 'destination')) return whole;
  const used = new Map<number, string>();
  for (const [index, container] of whole.containers) {
    yield;
    const narrowed = usedContainer(policy, index, container, uses);
    if (narrowed !== undefined) used.set(index, narrowed);
  }
  const plain = whole.plain && usedContainer(policy, undefined, '/', uses) !== undefined;
  const smaller = { containers: used, plain };
  const [before, after] = [policyOf(grants, permission, whole), policyOf(grants, permission, smaller)];
  return widens(yield* accessChanges(before, after)) ? whole : smaller;
}

/** A policy with this permission only. */
function policyOf({ rules }: Grants, permission: string, { containers, plain }: Part): Policy {
  return compilePolicy({
    permissions: plain ? [permission] : [],
    rules: Array.from(containers, ([index, container]) => ({
      ...(rules[index] as Rule),
      container,
      permissions: [permission],
    })),
  });
}

function containerOf({ container }: Rule): string {
  return canonicalContainer(container ?? '/');
}

function wholePart({ permissions, rules }: Grants, permission: string): Part {
  const granting = rules.flatMap((rule, index) =>
    rule.permissions.includes(permission) ? [[index, containerOf(rule)] as const] : [],
  );
  return { containers: new Map(granting), plain: permissions.includes(permission) };
}

/**
 * The deepest container that includes all uses that the rule decides. Undefined if it decides none. A recorded use may
 * stand for uses in containers below it (see `mergeContainers`). So the container does not change if there is a use
 * above it.
 */
function usedContainer(
  policy: Policy,
  index: number | undefined,
  container: string,
  uses: readonly PermissionUse[],
): string | undefined {
  let common: string | undefined;
  for (const use of uses) {
    if (use.container !== container && container.startsWith(use.container)) return container;
    const verdict = decide(policy, use.permission, { container: use.container });
    if (verdict.allowed && verdict.rule?.index === index) common = commonContainer(common, use.container);
  }
  return common;
}

/** By permission. Every granted one has a part. */
type Parts = ReadonlyMap<string, Part>;

function partOf(parts: Parts, permission: string): Part {
  return parts.get(permission) as Part;
}

/** Splits rules whose permissions now have different containers, unless that gives more than `maxRules` rules. */
function grantsFrom(grants: Grants, parts: Parts): Grants {
  const permissions = grants.permissions.filter((permission) => parts.get(permission)?.plain);
  const split = grants.rules.flatMap((rule, index) => splitRule(rule, index, parts));
  if (split.length <= maxRules) return { permissions, rules: split };
  const whole = grants.rules.map((rule, index) => {
    const kept = rule.permissions.filter((permission) => partOf(parts, permission).containers.has(index));
    return { ...rule, ...fieldsOf(rule, kept) };
  });
  return { ...noGrants, permissions, rules: whole.filter(({ permissions }) => permissions.length > 0) };
}

function splitRule(rule: Rule, index: number, parts: Parts): Rule[] {
  const original = containerOf(rule);
  const byContainer = new Map<string, string[]>();
  for (const permission of rule.permissions) {
    const container = partOf(parts, permission).containers.get(index);
    if (container === undefined) continue;
    // Permissions that are not scoped ignore the container of their rule.
    const place = hasTrait(permission, 'scoped') ? container : original;
    byContainer.set(place, [...(byContainer.get(place) ?? []), permission]);
  }
  return Array.from(byContainer, ([container, permissions]) => ({
    ...rule,
    ...(container !== original && { container }),
    ...fieldsOf(rule, permissions),
  }));
}

/** The permissions of a part of the rule, with the fields that a rule may have only beside some of them. */
function fieldsOf({ destinations, defaults }: Rule, permissions: string[]) {
  return {
    permissions,
    destinations: permissions.some((name) => hasTrait(name, 'destination')) ? destinations : undefined,
    defaults: permissions.includes('token:create') ? defaults : undefined,
  };
}
