/** The sentences that explain decisions. */
import { hasTrait } from './permission.ts';
import {
  type CompiledRule,
  canonicalResource,
  isDestinationOf,
  isHidden,
  matches,
  type Policy,
  type Resource,
} from './policy.ts';
import { isRead, type Quarantined } from './quarantine.ts';
import { type Condition, requiresPurpose, type Transform } from './rule.ts';

/** Whose rules decide: the caller's, or those of the authorizer that limits a session or delegation. */
export type Holder = 'application' | 'session' | 'delegation' | 'authorizer';

export function why({ rule, conditions }: CompiledRule, permission: string, given: Resource): string {
  if (hasTrait(permission, 'destination') && matches(conditions, given) && !isDestinationOf(rule, given))
    return otherDestination(given);
  return hasTrait(permission, 'scoped')
    ? describeConditions(conditions, given)
    : `${permission} does not apply to data, so containers and conditions are ignored`;
}

function otherDestination({ destination }: Resource): string {
  return destination === undefined
    ? 'no destination was given to compare with its destinations'
    : `destination ${destination} is not in its destinations`;
}

function failing(conditions: readonly Condition[], given: Resource): Condition[] {
  return conditions.filter((condition) => !matches([condition], given));
}

/** Limits the length of a reason: a rule may have 20 conditions of 500 characters. */
const maxConditions = 3;

/** Describes the conditions that do not hold or, if all hold, all of them. */
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

export function allowReason(
  of: Holder,
  { quarantined }: Policy,
  rule: CompiledRule | undefined,
  transform: Transform,
  permission: string,
  resource: Resource,
): string {
  if (quarantined) return `the ${quarantined} is in quarantine: ${permission} has the transform redact`;
  if (!rule) return `${holderOf(of)} has ${permission} in its permissions, with the transform ${transform}`;
  const because = why(rule, permission, canonicalResource(resource));
  const remark = isHidden(permission, rule.rule, resource)
    ? ', because a token with max_uses is never revealed'
    : !requiresPurpose(rule.rule)
      ? ''
      : transform === 'reveal'
        ? ' and a purpose'
        : ', or reveal with a purpose';
  return `${ruleOf(of, rule)} grants ${permission} with the transform ${transform}${remark}: ${because}`;
}

/**
 * Names the smallest change that would allow access: another permission in a matching rule, a wider rule, a new grant.
 */
export function denyReason(
  of: Holder,
  policy: Policy,
  permission: string,
  resource: Resource,
): { reason: string; rule?: CompiledRule } {
  const by = quarantineDenying(policy, permission);
  if (by) return { reason: `the ${by} is in quarantine: ${permission} cannot be used` };
  if (!hasTrait(permission, 'scoped')) return { reason: notGranted(of, policy, permission) };
  const given = canonicalResource(resource);
  const elsewhere = hasTrait(permission, 'destination')
    ? policy.rules.find((rule) => rule.permissions.has(permission) && matches(rule.conditions, given))
    : undefined;
  if (elsewhere)
    return {
      reason: `${ruleOf(of, elsewhere)} grants ${permission} but does not match: ${otherDestination(given)}`,
      rule: elsewhere,
    };
  const [matching] = policy.rules
    .filter(({ conditions }) => matches(conditions, given))
    .sort((a, b) => narrowness(b.conditions) - narrowness(a.conditions));
  if (matching)
    return {
      reason: `${ruleOf(of, matching)} matches but grants ${firstThree(matching.rule.permissions)}, not ${permission}`,
      rule: matching,
    };
  const [nearest] = policy.rules
    .filter(({ permissions }) => permissions.has(permission))
    .map((rule) => ({ rule, distance: distance(rule.conditions, given) }))
    .sort((a, b) => a.distance - b.distance);
  if (!nearest) return { reason: notGranted(of, policy, permission) };
  const because = describeConditions(nearest.rule.conditions, given);
  return {
    reason: `${ruleOf(of, nearest.rule)} grants ${permission} but does not match: ${because}`,
    rule: nearest.rule,
  };
}

/** Whose quarantine denies the permission, if one does. A new grant would then not help. */
export function quarantineDenying({ quarantined }: Policy, permission: string): Quarantined | undefined {
  return isRead(permission) ? undefined : quarantined;
}

/** Longer values match fewer resources, so adding a permission to the narrowest rule grants the least. */
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

export function notGranted(of: Holder, { grants }: Policy, permission: string): string {
  if (of === 'session' && grants.permissions.length + grants.rules.length === 0)
    return 'this session has not been authorized yet';
  const places = hasTrait(permission, 'destination') ? 'rules' : 'permissions or rules';
  return `${holderOf(of)} does not have ${permission} in its ${places}`;
}

function firstThree(permissions: readonly string[]): string {
  const [first, more] = [permissions.slice(0, 3).join(', '), permissions.length - 3];
  return more > 0 ? `${first} and ${more} more` : first;
}

const ceiling = 'this key is limited by its authorizer';

function ruleOf(of: Holder, { index }: CompiledRule): string {
  const number = index + 1;
  return of === 'authorizer' ? `${ceiling}, whose rule ${number}` : `rule ${number}`;
}

function holderOf(of: Holder): string {
  if (of === 'authorizer') return `${ceiling}, which`;
  return `this ${of}`;
}
