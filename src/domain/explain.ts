/** Explains decisions: the same result as `decideUnder`, with the reason, the deciding rule and the missing grant. */

import { z } from 'zod';
import { hasTrait } from './permission.ts';
import {
  type CompiledRule,
  canonicalResource,
  decide,
  isGrantedSomewhere,
  matches,
  type Policy,
  type Resource,
  type Verdict,
} from './policy.ts';
import { type Condition, compareTransforms, Transform } from './rule.ts';

const Holder = z.enum(['application', 'session', 'authorizer']);
type Holder = z.infer<typeof Holder>;

const ruleFields = {
  of: Holder.describe('The owner of the rule.'),
  rule: z
    .union([z.int(), z.literal('permissions')])
    .describe(
      'The position of the rule, starting at 1, or `permissions` for the permissions without a rule.',
    ),
};

/** Whether one rule grants the permission and matches the resource. */
export const Step = z
  .object({
    ...ruleFields,
    priority: z
      .int()
      .exactOptional()
      .describe('The priority of the rule. Absent for the permissions without a rule, which come last.'),
    transform: Transform.describe('The transform of the rule.'),
    grants: z.boolean().describe('Whether the rule grants the permission.'),
    matches: z.boolean().describe('Whether the rule matches the resource.'),
    why: z.string().describe('Why the rule matches or does not match.'),
  })
  .meta({ id: 'DecisionStep' });
export type Step = z.infer<typeof Step>;

export const DecidingRule = z
  .object({ ...ruleFields, description: z.string().exactOptional().describe('The description of the rule.') })
  .meta({ id: 'DecidingRule' });

export const MissingGrant = z
  .object({
    permission: z.string().describe('The missing permission.'),
    container: z
      .string()
      .exactOptional()
      .describe('The container to grant it on. Absent if the grant needs no container.'),
  })
  .meta({ id: 'MissingGrant' });

export const Explanation = z.object({
  allowed: z.boolean().describe('Whether the credential has access.'),
  transform: Transform.exactOptional().describe('How to show the data. Absent if denied.'),
  reason: z.string().describe('The reason, as a sentence.'),
  rule: DecidingRule.exactOptional().describe('The rule that allowed it.'),
  missing: MissingGrant.exactOptional().describe(
    'The smallest grant that would allow it. Absent if allowed, if the credential is invalid, and if the authorizer of the session lacks the grant and you cannot see its rules.',
  ),
});
export type Explanation = z.infer<typeof Explanation>;

export interface Question {
  readonly holder: 'application' | 'session';
  readonly policy: Policy;
  readonly ceiling?: Policy | undefined;
  /** Whether the explanation must not reveal the authorizer's rules. */
  readonly hidesAuthorizer?: boolean;
}

/** The only reason that a session gets about its ceiling. */
const limitedByAuthorizer = 'this session is limited to what its authorizer may do now';

/** The result and its reason. `trace` lists every rule. */
export function explain(
  { holder, policy, ceiling, hidesAuthorizer }: Question,
  permission: string,
  resource: Resource,
): Explanation {
  const own = decide(policy, permission, resource);
  if (!own.allowed) return denied(holder, policy, permission, resource);
  const above = ceiling && decide(ceiling, permission, resource);
  if (!above) return allowed(holder, own, permission, resource);
  if (!above.allowed)
    return hidesAuthorizer
      ? { allowed: false, reason: limitedByAuthorizer }
      : denied('authorizer', ceiling, permission, resource);
  if (compareTransforms(own.transform, above.transform) <= 0)
    return allowed(holder, own, permission, resource);
  return hidesAuthorizer
    ? { allowed: true, transform: above.transform, reason: limitedByAuthorizer }
    : allowed('authorizer', above, permission, resource);
}

function allowed(
  of: Holder,
  { transform, rule }: Verdict & { allowed: true },
  permission: string,
  resource: Resource,
): Explanation {
  const description = rule?.rule.description;
  return {
    allowed: true,
    transform,
    reason: allowReason(of, rule, permission, resource),
    rule: {
      of,
      rule: rule ? rule.index + 1 : 'permissions',
      ...(description !== undefined && { description }),
    },
  };
}

function denied(of: Holder, policy: Policy, permission: string, resource: Resource): Explanation {
  const { container } = resource;
  const isScoped = container !== undefined && hasTrait(permission, 'scoped');
  return {
    allowed: false,
    reason: denyReason(of, policy, permission, resource),
    missing: { permission, ...(isScoped && { container }) },
  };
}

/** Every rule in order of precedence, with whether and why it matched. */
export function trace(
  { holder, policy, ceiling, hidesAuthorizer }: Question,
  permission: string,
  resource: Resource,
): Step[] {
  const own = stepsOf(holder, policy, permission, resource);
  if (!ceiling || hidesAuthorizer) return own;
  return [...own, ...stepsOf('authorizer', ceiling, permission, resource)];
}

/** Why the caller is denied, without the authorizer's rules. Only for a container that the caller sent. */
export function denialReason(question: Question, permission: string, resource: Resource): string {
  return explain({ ...question, hidesAuthorizer: true }, permission, resource).reason;
}

/** Why the caller does not have the permission on any resource. */
export function missingReason({ holder, policy }: Question, permission: string): string {
  return isGrantedSomewhere(policy, permission)
    ? limitedByAuthorizer
    : notGranted(holder, policy, permission);
}

function stepsOf(of: Holder, policy: Policy, permission: string, resource: Resource): Step[] {
  const scoped = hasTrait(permission, 'scoped');
  const given = canonicalResource(resource);
  const steps = policy.rules.map((compiled): Step => {
    const { rule, conditions } = compiled;
    return {
      of,
      rule: compiled.index + 1,
      priority: rule.priority,
      transform: rule.transform,
      grants: compiled.permissions.has(permission),
      matches: !scoped || matches(conditions, given),
      why: why(compiled, permission, given),
    };
  });
  return [
    ...steps,
    {
      of,
      rule: 'permissions',
      transform: 'mask',
      grants: policy.plain.has(permission),
      matches: true,
      why: 'permissions without a rule apply to every resource',
    },
  ];
}

function why({ conditions }: CompiledRule, permission: string, given: Resource): string {
  return hasTrait(permission, 'scoped')
    ? describeConditions(conditions, given)
    : `${permission} does not apply to data, so containers and conditions are ignored`;
}

function failing(conditions: readonly Condition[], given: Resource): Condition[] {
  return conditions.filter((condition) => !matches([condition], given));
}

/** Limits the length of a reason: a rule may have 20 conditions of 500 characters. */
const maxConditions = 3;

/** Lists the conditions that do not hold. If all hold, lists them. */
function describeConditions(conditions: readonly Condition[], given: Resource): string {
  if (conditions.length === 0) return 'it applies to every resource';
  const [relevant, describe] = matches(conditions, given)
    ? [conditions, describeMatch]
    : [failing(conditions, given), describeMismatch];
  const sentences = relevant
    .slice(0, maxConditions)
    .map((condition) => describe(condition, given[condition.attribute]));
  const more = relevant.length - sentences.length;
  return [...sentences, ...(more > 0 ? [`${more} more`] : [])].join(' and ');
}

function describeMatch({ attribute, value }: Condition, given: string | undefined): string {
  if (given === value) return `${attribute} is ${value}`;
  return `${attribute} ${given} ${attribute === 'container' ? 'is in' : 'starts with'} ${value}`;
}

function describeMismatch({ attribute, operator, value }: Condition, given: string | undefined): string {
  if (given === undefined) return `no ${attribute} was given to compare with ${value}`;
  const subject = `${attribute} ${given}`;
  if (operator === 'equals') return `${subject} is not ${value}`;
  return `${subject} ${attribute === 'container' ? 'is not in' : 'does not start with'} ${value}`;
}

function allowReason(
  of: Holder,
  rule: CompiledRule | undefined,
  permission: string,
  resource: Resource,
): string {
  if (!rule) return `${holderOf(of)} has ${permission} in its permissions, with the transform mask`;
  const because = why(rule, permission, canonicalResource(resource));
  return `${ruleOf(of, rule)} grants ${permission} with the transform ${rule.rule.transform}: ${because}`;
}

/** Names the smallest change that would allow it: another permission in a matching rule, a wider rule, or a new grant. */
function denyReason(of: Holder, policy: Policy, permission: string, resource: Resource): string {
  if (!hasTrait(permission, 'scoped')) return notGranted(of, policy, permission);
  const given = canonicalResource(resource);
  const [matching] = policy.rules
    .filter(({ conditions }) => matches(conditions, given))
    .sort((a, b) => narrowness(b.conditions) - narrowness(a.conditions));
  if (matching)
    return `${ruleOf(of, matching)} matches but grants ${firstThree(matching.rule.permissions)}, not ${permission}`;
  const [nearest] = policy.rules
    .filter(({ permissions }) => permissions.has(permission))
    .map((rule) => ({ rule, distance: distance(rule.conditions, given) }))
    .sort((a, b) => a.distance - b.distance);
  if (!nearest) return notGranted(of, policy, permission);
  const because = describeConditions(nearest.rule.conditions, given);
  return `${ruleOf(of, nearest.rule)} grants ${permission} but does not match: ${because}`;
}

/** Longer values match fewer resources, so adding a permission to that rule grants less. */
function narrowness(conditions: readonly Condition[]): number {
  return conditions.reduce((sum, { value }) => sum + value.length, 0);
}

/** How far a rule is from matching: by the number of failing conditions, then by the length of the common prefixes. */
function distance(conditions: readonly Condition[], given: Resource): number {
  return failing(conditions, given)
    .map(({ attribute, value }) => 2 - commonPrefix(given[attribute], value))
    .reduce((sum, one) => sum + one, 0);
}

/** The common prefix as a fraction of the value, from 0 to 1. */
function commonPrefix(text: string | undefined, value: string): number {
  let same = 0;
  while (same < value.length && text?.[same] === value[same]) same++;
  return same / value.length;
}

function notGranted(of: Holder, { grants }: Policy, permission: string): string {
  if (of === 'session' && grants.permissions.length + grants.rules.length === 0)
    return 'this session has not been authorized yet';
  return `${holderOf(of)} does not have ${permission} in its permissions or rules`;
}

function firstThree(permissions: readonly string[]): string {
  const [first, more] = [permissions.slice(0, 3).join(', '), permissions.length - 3];
  return more > 0 ? `${first} and ${more} more` : first;
}

const ceiling = 'this session is limited by its authorizer';

function ruleOf(of: Holder, { index }: CompiledRule): string {
  const number = index + 1;
  return of === 'authorizer' ? `${ceiling}, whose rule ${number}` : `rule ${number}`;
}

function holderOf(of: Holder): string {
  if (of === 'authorizer') return `${ceiling}, which`;
  return of === 'session' ? 'this session' : 'this application';
}
