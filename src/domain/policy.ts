/** Access decisions. A policy is the compiled form of grants, in which a decision reads only the rules it needs. */
import { hasTrait } from './permission.ts';
import type { EffectiveGrants, Quarantined } from './quarantine.ts';
import {
  type Condition,
  canonicalContainer,
  compareTransforms,
  type Rule,
  requiresPurpose,
  stricter,
  type Transform,
} from './rule.ts';
import { narrowest } from './scope.ts';

/** The object on which a permission is used. A missing attribute never matches a condition. */
export interface Resource {
  readonly id?: string | undefined;
  readonly container?: string | undefined;
  /** Where a token is used. Only permissions with the trait `destination` depend on it. */
  readonly destination?: string | undefined;
  /** Of a stored token whose uses are limited: its data is masked at least. */
  readonly max_uses?: number | null | undefined;
}

export interface CompiledRule {
  readonly index: number;
  readonly rule: Rule;
  readonly permissions: ReadonlySet<string>;
  /** In canonical form, including the rule's container. All must hold. If empty, the rule matches every resource. */
  readonly conditions: readonly Condition[];
  /** The same conditions, at most one per attribute. Undefined if they contradict each other. */
  readonly narrowest: readonly Condition[] | undefined;
}

interface DestinationCondition {
  readonly attribute: 'destination';
  readonly operator: 'equals';
  readonly value: string;
}

/** A rule that grants a permission, with the verdict if it matches. */
interface Step {
  readonly conditions: readonly (Condition | DestinationCondition)[];
  readonly verdict: Allowed;
}

export interface Policy {
  readonly grants: EffectiveGrants;
  /** Undefined without a quarantine. */
  readonly quarantined: Quarantined | undefined;
  readonly plain: ReadonlySet<string>;
  /** In order of precedence: the first that grants the permission and matches the resource decides. */
  readonly rules: readonly CompiledRule[];
  /** Every permission that is granted on some resource, with or without a rule. */
  readonly granted: ReadonlySet<string>;
  /**
   * The rules that grant a permission, in the same order. If `plain` has the permission, it is the last step. Compiled
   * on first use: a policy may grant 50 permissions by 50 rules each, and a request needs one or two.
   */
  readonly stepsFor: (permission: string) => readonly Step[];
  /** The policy for requests that state a purpose, and for others. Undefined if no rule requires a purpose. */
  readonly byPurpose?: Readonly<Record<PurposeState, Policy>>;
}

type PurposeState = 'stated' | 'unstated';

/** The result is for requests without a purpose: see `forPurpose`. */
export function compilePolicy(grants: EffectiveGrants): Policy {
  const rules = grants.rules.map((rule, index) => {
    const conditions = conditionsOf(rule);
    const permissions = new Set(rule.permissions);
    return { index, rule, permissions, conditions, narrowest: narrowest(conditions) };
  });
  rules.sort((a, b) => compareRules(a.rule, b.rule));
  const plain = new Set(grants.permissions);
  // Without a rule it would name no destination.
  plain.delete('token:use');
  const granted = new Set([...plain, ...grants.rules.flatMap(({ permissions }) => permissions)]);
  const shared = { grants, quarantined: grants.quarantined, plain, rules, granted };
  const stepsWhen = (purpose: PurposeState): Policy['stepsFor'] => {
    const compiled = new Map<string, readonly Step[]>();
    return (permission) => {
      const known = compiled.get(permission);
      if (known || !granted.has(permission)) return known ?? none;
      const steps = compileSteps(permission, plain, plainTransform(grants), rules, purpose);
      compiled.set(permission, steps);
      return steps;
    };
  };
  if (!grants.rules.some(requiresPurpose)) return { ...shared, stepsFor: stepsWhen('stated') };
  const byPurpose = {} as Record<PurposeState, Policy>;
  for (const purpose of ['stated', 'unstated'] as const)
    byPurpose[purpose] = { ...shared, stepsFor: stepsWhen(purpose), byPurpose };
  return byPurpose.unstated;
}

/** The same policies for a request that states a purpose, or states none. The stated one itself does not matter. */
export function forPurpose<T extends { readonly policy: Policy; readonly ceiling?: Policy | undefined }>(
  decided: T,
  purpose: string | undefined,
): T {
  const { policy, ceiling } = decided;
  if (!policy.byPurpose && !ceiling?.byPurpose) return decided;
  const state = purpose === undefined ? 'unstated' : 'stated';
  const chosen = (of: Policy) => of.byPurpose?.[state] ?? of;
  return { ...decided, policy: chosen(policy), ceiling: ceiling && chosen(ceiling) };
}

const none: readonly Step[] = [];

/** The transform of permissions without a rule. */
export function plainTransform({ quarantined }: Pick<EffectiveGrants, 'quarantined'>): Transform {
  return quarantined ? 'redact' : 'mask';
}

function compileSteps(
  permission: string,
  plain: ReadonlySet<string>,
  transform: Transform,
  rules: readonly CompiledRule[],
  purpose: PurposeState,
): Step[] {
  const scoped = hasTrait(permission, 'scoped');
  const byDestination = hasTrait(permission, 'destination');
  const steps = rules
    .filter(({ permissions }) => permissions.has(permission))
    .flatMap((rule): Step[] => {
      const conditions = scoped ? rule.narrowest : [];
      const isMasked = purpose === 'unstated' && requiresPurpose(rule.rule);
      const verdict = { allowed: true, transform: isMasked ? 'mask' : rule.rule.transform, rule } as const;
      if (!conditions) return [];
      if (!byDestination) return [{ conditions, verdict }];
      return (rule.rule.destinations ?? []).map((value) => ({
        conditions: [{ attribute: 'destination', operator: 'equals', value }, ...conditions],
        verdict,
      }));
    });
  const last: Step = { conditions: [], verdict: { allowed: true, transform, rule: undefined } };
  return plain.has(permission) ? [...steps, last] : steps;
}

/**
 * The conditions of a rule, including its container. Omits the root container, because a rule on it also matches a
 * resource without a container.
 */
function conditionsOf({ container, conditions = [] }: Rule): Condition[] {
  const all: Condition[] =
    container === undefined
      ? conditions
      : [{ attribute: 'container', operator: 'starts_with', value: container }];
  return all
    .map((each) => (each.attribute === 'id' ? each : { ...each, value: canonicalContainer(each.value) }))
    .filter(({ attribute, operator, value }) => attribute === 'id' || operator === 'equals' || value !== '/');
}

export type Verdict = Allowed | { readonly allowed: false };

export interface Allowed {
  readonly allowed: true;
  readonly transform: Transform;
  /** The rule that decided. Undefined if the permission is granted without a rule. */
  readonly rule: CompiledRule | undefined;
  /** Whether it is a rule of the ceiling, because the ceiling is stricter. */
  readonly isOfCeiling?: true;
}

const denied: Verdict = { allowed: false };

export function decide(policy: Policy, permission: string, resource: Resource): Verdict {
  const steps = policy.stepsFor(permission);
  if (steps.length === 0) return denied;
  const given = canonicalResource(resource);
  for (const { conditions, verdict } of steps)
    if (matches(conditions, given))
      return isHidden(permission, verdict, resource) ? { ...verdict, transform: 'mask' } : verdict;
  return denied;
}

/** Whether the transform would reveal a token with `max_uses`, which no one may read. */
export function isHidden(
  permission: string,
  { transform }: Pick<Rule, 'transform'>,
  { max_uses }: Resource,
): boolean {
  return transform === 'reveal' && typeof max_uses === 'number' && isOfTokens(permission);
}

/** Whether the permission is one on stored tokens. Custom permissions do not depend on their `max_uses`. */
export function isOfTokens(permission: string): boolean {
  return permission.startsWith('token:');
}

/** With a ceiling, `policy` and `ceiling` must both allow the permission. The stricter transform applies. */
export function decideUnder(
  policy: Policy,
  ceiling: Policy | undefined,
  permission: string,
  resource: Resource,
): Verdict {
  const own = decide(policy, permission, resource);
  if (!ceiling || !own.allowed) return own;
  const above = decide(ceiling, permission, resource);
  if (!above.allowed) return denied;
  return compareTransforms(own.transform, above.transform) <= 0 ? own : { ...above, isOfCeiling: true };
}

/**
 * The transform that `decideUnder` would return for a request that states a purpose, or undefined if denied. For grants
 * that are used only once: several times faster than compiling a policy.
 */
export function transformUnder(
  grants: EffectiveGrants,
  ceiling: EffectiveGrants | undefined,
  permission: string,
  resource: Resource,
): Transform | undefined {
  const given = canonicalResource(resource);
  const most = isHidden(permission, { transform: 'reveal' }, resource) ? 'mask' : 'reveal';
  const own = transformOf(grants, permission, given);
  const above = own && ceiling ? transformOf(ceiling, permission, given) : own;
  return own && above && stricter(stricter(own, above), most);
}

function transformOf(
  { permissions, rules, quarantined }: EffectiveGrants,
  permission: string,
  given: Resource,
): Transform | undefined {
  const isScoped = hasTrait(permission, 'scoped');
  const byDestination = hasTrait(permission, 'destination');
  let deciding: Rule | undefined;
  for (const rule of rules)
    if (
      rule.permissions.includes(permission) &&
      (!deciding || compareRules(rule, deciding) < 0) &&
      (!isScoped || matchesRule(rule, given)) &&
      (!byDestination || isDestinationOf(rule, given))
    )
      deciding = rule;
  if (deciding) return deciding.transform;
  return !byDestination && permissions.includes(permission) ? plainTransform({ quarantined }) : undefined;
}

function matchesRule(rule: Rule, given: Resource): boolean {
  if (rule.container === undefined) return matches(conditionsOf(rule), given);
  const container = canonicalContainer(rule.container);
  return container === '/' || given.container?.startsWith(container) === true;
}

export function isDestinationOf({ destinations = [] }: Rule, { destination }: Resource): boolean {
  return destination !== undefined && destinations.includes(destination);
}

/** The destinations where a rule of the policy lets tokens with this resource be used. */
export function destinationsFor({ rules }: Policy, resource: Resource): Set<string> {
  const given = canonicalResource(resource);
  const matching = rules.filter(
    ({ permissions, conditions }) => permissions.has('token:use') && matches(conditions, given),
  );
  return new Set(matching.flatMap(({ rule }) => rule.destinations ?? []));
}

/** Negative if `a` takes precedence. */
function compareRules(a: Rule, b: Rule): number {
  return (
    a.priority - b.priority ||
    compareTransforms(a.transform, b.transform) ||
    Number(requiresPurpose(b)) - Number(requiresPurpose(a))
  );
}

export function isGrantedSomewhere(policy: Policy, permission: string): boolean {
  return policy.granted.has(permission);
}

export function canonicalResource({ id, container, destination }: Resource): Resource {
  return { id, container: container === undefined ? undefined : canonicalContainer(container), destination };
}

export function matches(conditions: Step['conditions'], resource: Resource): boolean {
  for (const { attribute, operator, value } of conditions) {
    const given = resource[attribute];
    if (given === undefined) return false;
    if (operator === 'equals' ? given !== value : !given.startsWith(value)) return false;
  }
  return true;
}
