/** The same answer as `decideUnder`, with the reasons: what each rule made of the question, and what is missing. */

import { isA } from './permission.ts';
import {
  type CompiledRule,
  decide,
  isGrantedSomewhere,
  matches,
  type Policy,
  type Resource,
  type Verdict,
} from './policy.ts';
import { canonicalContainer } from './rule.ts';
import type { Test } from './scope.ts';
import { compareTransforms, type Transform } from './transform.ts';

export type Holder = 'application' | 'session' | 'authorizer';

/** What one rule, counted from 1 as listed, or the plain permissions made of the question. */
export interface Step {
  readonly of: Holder;
  readonly rule: number | 'permissions';
  readonly priority?: number;
  readonly transform: Transform;
  readonly grants: boolean;
  readonly matches: boolean;
  readonly why: string;
}

/** The smallest grant that would allow it. Without a container, a grant for everything. */
export interface MissingGrant {
  readonly permission: string;
  readonly container?: string;
}

export interface Explanation {
  readonly allowed: boolean;
  readonly transform?: Transform;
  readonly reason: string;
  /** The one that decided. */
  readonly rule?: Pick<Step, 'of' | 'rule'> & { readonly description?: string };
  readonly missing?: MissingGrant;
}

export interface Question {
  readonly holder: 'application' | 'session';
  readonly policy: Policy;
  readonly ceiling?: Policy | undefined;
  /** Whether the answer must not show the authorizer's rules. */
  readonly hidesAuthorizer?: boolean;
}

/** All that a session learns about its ceiling: that there is one, and that it decided. */
const limited = 'this Session is limited to what its authorizer may do now';

/** Builds the reason of the deciding side only; `trace` lists every rule. */
export function explain(
  { holder, policy, ceiling, hidesAuthorizer }: Question,
  permission: string,
  resource: Resource,
): Explanation {
  const own = decide(policy, permission, resource);
  if (!own.allowed) return refused(holder, policy, permission, resource);
  const above = ceiling && decide(ceiling, permission, resource);
  if (!above) return granted(holder, own, permission, resource);
  if (!above.allowed)
    return hidesAuthorizer
      ? { allowed: false, reason: limited }
      : refused('authorizer', ceiling, permission, resource);
  if (compareTransforms(own.transform, above.transform) <= 0)
    return granted(holder, own, permission, resource);
  return hidesAuthorizer
    ? { allowed: true, transform: above.transform, reason: limited }
    : granted('authorizer', above, permission, resource);
}

function granted(
  of: Holder,
  { transform, rule }: Verdict & { allowed: true },
  permission: string,
  resource: Resource,
): Explanation {
  const description = rule?.rule.description;
  return {
    allowed: true,
    transform,
    reason: grounds(of, rule, permission, resource),
    rule: {
      of,
      rule: rule ? rule.index + 1 : 'permissions',
      ...(description !== undefined && { description }),
    },
  };
}

function refused(of: Holder, policy: Policy, permission: string, resource: Resource): Explanation {
  const { container } = resource;
  const narrowed = container !== undefined && isA('scoped', permission);
  return {
    allowed: false,
    reason: denial(of, policy, permission, resource),
    missing: { permission, ...(narrowed && { container }) },
  };
}

/** Every rule in the order in which they decide, with what it made of the question. */
export function trace(
  { holder, policy, ceiling, hidesAuthorizer }: Question,
  permission: string,
  resource: Resource,
): Step[] {
  const own = stepsOf(holder, policy, permission, resource);
  if (!ceiling || hidesAuthorizer) return own;
  return [...own, ...stepsOf('authorizer', ceiling, permission, resource)];
}

/** Why the caller is denied, in terms of its own rules and of a container that it named itself. */
export function refusal(question: Question, permission: string, resource: Resource): string {
  return explain({ ...question, hidesAuthorizer: true }, permission, resource).reason;
}

/** Why the caller does not hold a permission at all. */
export function lacking({ holder, policy }: Question, permission: string): string {
  return isGrantedSomewhere(policy, permission) ? limited : nowhere(holder, policy, permission);
}

function stepsOf(of: Holder, policy: Policy, permission: string, resource: Resource): Step[] {
  const scoped = isA('scoped', permission);
  const given = canonical(resource);
  const steps = policy.rules.map((ready): Step => {
    const { rule, tests } = ready;
    return {
      of,
      rule: ready.index + 1,
      priority: rule.priority,
      transform: rule.transform,
      grants: ready.permissions.has(permission),
      matches: !scoped || allHold(tests, given),
      why: why(ready, permission, given),
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
      why: 'permissions are for everything',
    },
  ];
}

function why({ tests }: CompiledRule, permission: string, given: Resource): string {
  return isA('scoped', permission)
    ? account(tests, given)
    : `${permission} is not about data, so nothing narrows it`;
}

function canonical({ id, container }: Resource): Resource {
  return { id, container: container === undefined ? undefined : canonicalContainer(container) };
}

function allHold(tests: readonly Test[], { id, container }: Resource): boolean {
  return matches(tests, id, container);
}

function failing(tests: readonly Test[], { id, container }: Resource): Test[] {
  return tests.filter((test) => !matches([test], id, container));
}

/** Limits the length of a reason: a rule may have 20 conditions of 500 characters. */
const mostConditions = 3;

/** The conditions that do not hold, or else those that do. */
function account(tests: readonly Test[], given: Resource): string {
  if (tests.length === 0) return 'it is for everything';
  const [told, tell] = allHold(tests, given) ? [tests, support] : [failing(tests, given), objection];
  const sentences = told.slice(0, mostConditions).map((test) => tell(test, given[test.attribute]));
  const more = told.length - sentences.length;
  return [...sentences, ...(more > 0 ? [`${more} more`] : [])].join(' and ');
}

function support({ attribute, value }: Test, given: string | undefined): string {
  if (given === value) return `${attribute} is ${value}`;
  return `${attribute} ${given} ${attribute === 'container' ? 'is in' : 'starts with'} ${value}`;
}

function objection({ attribute, operator, value }: Test, given: string | undefined): string {
  if (given === undefined) return `no ${attribute} was given to compare with ${value}`;
  const subject = `${attribute} ${given}`;
  if (operator === 'equals') return `${subject} is not ${value}`;
  return `${subject} ${attribute === 'container' ? 'is not in' : 'does not start with'} ${value}`;
}

function grounds(of: Holder, rule: CompiledRule | undefined, permission: string, resource: Resource): string {
  if (!rule) return `${holderOf(of)} has ${permission} among its permissions, with the transform mask`;
  const because = why(rule, permission, canonical(resource));
  return `${ruleOf(of, rule)} grants ${permission} with the transform ${rule.rule.transform}: ${because}`;
}

/** The smallest change that would have allowed it: a permission more in a rule that matches, a wider rule, or a new grant. */
function denial(of: Holder, policy: Policy, permission: string, resource: Resource): string {
  if (!isA('scoped', permission)) return nowhere(of, policy, permission);
  const given = canonical(resource);
  const [matching] = policy.rules
    .filter(({ tests }) => allHold(tests, given))
    .sort((a, b) => narrowness(b.tests) - narrowness(a.tests));
  if (matching)
    return `${ruleOf(of, matching)} matches but grants ${few(matching.rule.permissions)}, not ${permission}`;
  const [nearest] = policy.rules
    .filter(({ permissions }) => permissions.has(permission))
    .map((rule) => ({ rule, distance: distance(rule.tests, given) }))
    .sort((a, b) => a.distance - b.distance);
  if (!nearest) return nowhere(of, policy, permission);
  const because = account(nearest.rule.tests, given);
  return `${ruleOf(of, nearest.rule)} grants ${permission} but does not match: ${because}`;
}

/** One permission more costs least where it reaches least: the longer what is compared with, the less that is. */
function narrowness(tests: readonly Test[]): number {
  return tests.reduce((sum, { value }) => sum + value.length, 0);
}

/** How far a rule is from matching: the more it objects to, the farther; then the less it has in common. */
function distance(tests: readonly Test[], given: Resource): number {
  const objections = failing(tests, given).map(
    ({ attribute, value }) => 2 - likeness(given[attribute], value),
  );
  return objections.reduce((sum, one) => sum + one, 0);
}

/** How much of the value the text begins with: from none, which is 0, to all of it, which is 1. */
function likeness(text: string | undefined, value: string): number {
  let same = 0;
  while (same < value.length && text?.[same] === value[same]) same++;
  return same / value.length;
}

function nowhere(of: Holder, { grants }: Policy, permission: string): string {
  if (of === 'session' && grants.permissions.length + grants.rules.length === 0)
    return 'this Session has not been authorized yet, so it may do nothing';
  return `${holderOf(of)} has ${permission} neither among its permissions nor in a rule`;
}

function few(permissions: readonly string[]): string {
  const [shown, more] = [permissions.slice(0, 3).join(', '), permissions.length - 3];
  return more > 0 ? `${shown} and ${more} more` : shown;
}

const bound = 'this Session may do no more than its authorizer';

/** How a sentence about a rule begins, and how one about who holds it does. */
function ruleOf(of: Holder, { index }: CompiledRule): string {
  const number = index + 1;
  return of === 'authorizer' ? `${bound}, whose rule ${number}` : `rule ${number}`;
}

function holderOf(of: Holder): string {
  if (of === 'authorizer') return `${bound}, which`;
  return of === 'session' ? 'this Session' : 'this Application';
}
