/** Explains decisions: the same result as `decideUnder`, with the reason, the deciding rule and the missing grant. */

import { z } from 'zod';
import { Flag, Text } from './common-fields.ts';
import { hasTrait } from './permission.ts';
import {
  type Allowed,
  type CompiledRule,
  canonicalResource,
  decide,
  decideUnder,
  isDestinationOf,
  isGrantedSomewhere,
  matches,
  type Policy,
  plainTransform,
  type Resource,
  type Verdict,
} from './policy.ts';
import { allowReason, denyReason, type Holder, notGranted, quarantineDenying, why } from './reason.ts';
import { compareTransforms, requiresPurpose, Transform } from './rule.ts';

const RuleOwner = z.enum(['application', 'session', 'delegation', 'authorizer']);

const ruleFields = {
  of: RuleOwner.describe('The owner of the rule.'),
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
    require_purpose: z
      .literal(true)
      .exactOptional()
      .describe('The rule reveals data only to requests that state a purpose, and masks it for others.'),
    grants: Flag.describe('Whether the rule grants the permission.'),
    matches: Flag.describe('Whether the rule matches the resource.'),
    why: Text.describe('Why the rule matches or does not match.'),
  })
  .meta({ id: 'DecisionStep' });
export type Step = z.infer<typeof Step>;

export const DecidingRule = z
  .object({ ...ruleFields, description: Text.exactOptional().describe('The description of the rule.') })
  .meta({ id: 'DecidingRule' });
export type DecidingRule = z.infer<typeof DecidingRule>;

export const MissingGrant = z
  .object({
    permission: Text.describe('The missing permission.'),
    container: Text.exactOptional().describe(
      'The container to grant it on. Absent if the grant needs no container.',
    ),
    destination: Text.exactOptional().describe(
      'The destination to grant it for. Absent if the grant needs none.',
    ),
    transform: Transform.exactOptional().describe(
      'The transform that the grant needs. Absent if every transform is enough.',
    ),
  })
  .meta({ id: 'MissingGrant' });
type MissingGrant = z.infer<typeof MissingGrant>;

export const Explanation = z.object({
  allowed: Flag.describe('Whether the credential has access.'),
  transform: Transform.exactOptional().describe('How to show the data. Absent if denied.'),
  reason: Text.describe('The reason, as a sentence.'),
  rule: DecidingRule.exactOptional().describe('The rule that allowed it.'),
  missing: MissingGrant.exactOptional().describe(
    'The smallest grant that would allow it. Absent if allowed, if the credential is invalid, and if the authorizer of the session or delegation lacks the grant and you cannot see its rules.',
  ),
});
export type Explanation = z.infer<typeof Explanation>;

export interface Question {
  readonly holder: Exclude<Holder, 'authorizer'>;
  readonly policy: Policy;
  readonly ceiling?: Policy | undefined;
  /** Whether the explanation must not reveal the authorizer's rules. */
  readonly hidesAuthorizer?: boolean;
}

/** The reason if the ceiling decides and the caller may not see the authorizer's rules. */
const limitedByAuthorizer = 'this key is limited to what its authorizer may do now';

/** Returns the decision with its reason. To list every rule, use `trace`. */
export function explain(
  { holder, policy, ceiling, hidesAuthorizer }: Question,
  permission: string,
  resource: Resource,
): Explanation {
  const own = decide(policy, permission, resource);
  if (!own.allowed) return denied(holder, policy, permission, resource);
  const above = ceiling && decide(ceiling, permission, resource);
  if (!above) return allowed(holder, policy, own, permission, resource);
  if (!above.allowed)
    return hidesAuthorizer
      ? { allowed: false, reason: limitedByAuthorizer }
      : denied('authorizer', ceiling, permission, resource);
  if (compareTransforms(own.transform, above.transform) <= 0)
    return allowed(holder, policy, own, permission, resource);
  return hidesAuthorizer
    ? { allowed: true, transform: above.transform, reason: limitedByAuthorizer }
    : allowed('authorizer', ceiling, above, permission, resource);
}

/** The rule that decides about the permission on the resource. Undefined if it is denied. */
export function decidingRule(
  { holder, policy, ceiling }: Question,
  permission: string,
  resource: Resource,
): DecidingRule | undefined {
  const verdict = decideUnder(policy, ceiling, permission, resource);
  return verdict.allowed ? ruleOf(holder, verdict) : undefined;
}

export function ruleOf(holder: Question['holder'], { rule, isOfCeiling }: Allowed): DecidingRule {
  return ruleView(isOfCeiling ? 'authorizer' : holder, rule);
}

function ruleView(of: Holder, rule: CompiledRule | undefined): DecidingRule {
  const description = rule?.rule.description;
  return {
    of,
    rule: rule ? rule.index + 1 : 'permissions',
    ...(description !== undefined && { description }),
  };
}

function allowed(
  of: Holder,
  policy: Policy,
  { transform, rule }: Verdict & { allowed: true },
  permission: string,
  resource: Resource,
): Explanation {
  const reason = allowReason(of, policy, rule, transform, permission, resource);
  return { allowed: true, transform, reason, rule: ruleView(of, rule) };
}

function denied(of: Holder, policy: Policy, permission: string, resource: Resource): Explanation {
  const { reason } = denyReason(of, policy, permission, resource);
  return { allowed: false, reason, ...missingFields(policy, permission, resource) };
}

function missingFields(policy: Policy, permission: string, resource: Resource) {
  return quarantineDenying(policy, permission) ? {} : { missing: missingGrant(permission, resource) };
}

function missingGrant(permission: string, { container, destination }: Resource): MissingGrant {
  const isScoped = container !== undefined && hasTrait(permission, 'scoped');
  const isSent = destination !== undefined && hasTrait(permission, 'destination');
  return { permission, ...(isScoped && { container }), ...(isSent && { destination }) };
}

/** A denial as the audit log records it, with the authorizer's rules. */
export interface ExplainedDenial {
  readonly reason: string;
  /** Absent if the quarantine denies the permission. */
  readonly missing?: MissingGrant;
  /** The rule that comes closest to allowing the request. The reason names it. */
  readonly rule?: DecidingRule;
}

export function explainDenial(
  { holder, policy, ceiling }: Question,
  permission: string,
  resource: Resource,
): ExplainedDenial {
  const isOwn = !ceiling || !decide(policy, permission, resource).allowed;
  const [of, denying] = isOwn ? [holder, policy] : (['authorizer', ceiling] as const);
  const { reason, rule } = denyReason(of, denying, permission, resource);
  return {
    reason,
    ...missingFields(denying, permission, resource),
    ...(rule && { rule: ruleView(of, rule) }),
  };
}

/** Like `explainDenial`, but for a permission that the caller has on no resource. */
export function explainMissing({ holder, policy, ceiling }: Question, permission: string): ExplainedDenial {
  const isOwn = !ceiling || !isGrantedSomewhere(policy, permission);
  const reason = notGranted(isOwn ? holder : 'authorizer', isOwn ? policy : ceiling, permission);
  return { reason, missing: { permission } };
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

/**
 * Why the caller is denied, without the authorizer's rules. Use it only for a container that the caller sent, because
 * the reason names the container.
 */
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
  const byDestination = hasTrait(permission, 'destination');
  const given = canonicalResource(resource);
  const steps = policy.rules.map((compiled): Step => {
    const { rule, conditions } = compiled;
    return {
      of,
      rule: compiled.index + 1,
      priority: rule.priority,
      transform: rule.transform,
      ...(requiresPurpose(rule) && { require_purpose: true }),
      grants: compiled.permissions.has(permission),
      matches: (!scoped || matches(conditions, given)) && (!byDestination || isDestinationOf(rule, given)),
      why: why(compiled, permission, given),
    };
  });
  return [
    ...steps,
    {
      of,
      rule: 'permissions',
      transform: plainTransform(policy),
      grants: policy.plain.has(permission),
      matches: true,
      why: 'permissions without a rule apply to every resource',
    },
  ];
}
