/** The same answer as `decide`, with the reasons: what each rule made of the question, and what is missing. */
import { isA } from './permission.ts';
import {
  decide,
  decideUnder,
  matches,
  names,
  type Policy,
  type ReadyRule,
  type Resource,
  type Test,
} from './policy.ts';
import { canonicalContainer } from './rule.ts';
import type { Transform } from './transform.ts';

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

export interface Explanation {
  readonly allowed: boolean;
  readonly transform?: Transform;
  readonly reason: string;
  /** The one that decided. */
  readonly rule?: Pick<Step, 'of' | 'rule'> & { readonly description?: string };
  readonly trace: readonly Step[];
}

export interface Question {
  readonly holder: 'application' | 'session';
  readonly policy: Policy;
  readonly ceiling?: Policy | undefined;
}

export function explain(
  { holder, policy, ceiling }: Question,
  permission: string,
  resource: Resource,
): Explanation {
  const verdict = decideUnder(policy, ceiling, permission, resource);
  const own = side(holder, policy, permission, resource);
  const above = ceiling && side('authorizer', ceiling, permission, resource);
  const trace = [...own.steps, ...(above?.steps ?? [])];
  if (!verdict.allowed) return { allowed: false, reason: own.denial ?? (above?.denial as string), trace };
  const deciding = above && verdict.transform !== own.transform ? above : own;
  const description = deciding.rule?.rule.description;
  return {
    allowed: true,
    transform: verdict.transform,
    reason: deciding.grounds,
    rule: {
      of: deciding.holder,
      rule: deciding.rule ? deciding.rule.index + 1 : 'permissions',
      ...(description !== undefined && { description }),
    },
    trace,
  };
}

/**
 * Why it is denied, for the one who is: nothing of what the authorizer may do elsewhere, and no name of a container
 * that it has not said itself.
 */
export function refusal(
  { holder, policy, ceiling }: Question,
  permission: string,
  resource: Resource,
  isSaid: boolean,
): string {
  if (!decide(policy, permission, resource).allowed)
    return denial(holder, policy, permission, resource, isSaid);
  const above = ceiling as Policy;
  return names(above, permission)
    ? `${bound}, which does not have ${permission} here`
    : nowhere('authorizer', above, permission);
}

/** Why a permission is not held at all, whatever it would be used on. */
export function lacking({ holder, policy, ceiling }: Question, permission: string): string {
  return ceiling && names(policy, permission)
    ? nowhere('authorizer', ceiling, permission)
    : nowhere(holder, policy, permission);
}

/** One of the two that have a say: the caller itself, or the authorizer above it. */
function side(holder: Holder, policy: Policy, permission: string, resource: Resource) {
  const steps = stepsOf(holder, policy, permission, resource);
  const verdict = decide(policy, permission, resource);
  const rule = verdict.allowed ? verdict.rule : undefined;
  return {
    holder,
    steps,
    rule,
    transform: verdict.allowed ? verdict.transform : undefined,
    grounds: grounds(holder, rule, permission, resource),
    denial: verdict.allowed ? undefined : denial(holder, policy, permission, resource),
  };
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

function why({ tests }: ReadyRule, permission: string, given: Resource): string {
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

/** What speaks against it, or else all that speaks for it. */
function account(tests: readonly Test[], given: Resource, isSaid = true): string {
  if (tests.length === 0) return 'it is for everything';
  const sentences = allHold(tests, given)
    ? tests.map((test) => support(test, given[test.attribute]))
    : failing(tests, given).map((test) => objection(test, given[test.attribute], isSaid));
  return sentences.join(' and ');
}

function support({ attribute, value }: Test, given: string | undefined): string {
  if (given === value) return `${attribute} is ${value}`;
  return `${attribute} ${given} ${attribute === 'container' ? 'is in' : 'starts with'} ${value}`;
}

function objection({ attribute, operator, value }: Test, given: string | undefined, isSaid: boolean): string {
  if (given === undefined) return `no ${attribute} was given to compare with ${value}`;
  const subject = isSaid ? `${attribute} ${given}` : `its ${attribute}`;
  if (operator === 'equals') return `${subject} is not ${value}`;
  return `${subject} ${attribute === 'container' ? 'is not in' : 'does not start with'} ${value}`;
}

function grounds(of: Holder, rule: ReadyRule | undefined, permission: string, resource: Resource): string {
  if (!rule) return `${holderOf(of)} has ${permission} among its permissions, with the transform mask`;
  const because = why(rule, permission, canonical(resource));
  return `${ruleOf(of, rule)} grants ${permission} with the transform ${rule.rule.transform}: ${because}`;
}

/** The smallest change that would have allowed it: a permission more in a rule that matches, a wider rule, or a new grant. */
function denial(of: Holder, policy: Policy, permission: string, resource: Resource, isSaid = true): string {
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
  const because = account(nearest.rule.tests, given, isSaid);
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
function ruleOf(of: Holder, { index }: ReadyRule): string {
  const number = index + 1;
  return of === 'authorizer' ? `${bound}, whose rule ${number}` : `rule ${number}`;
}

function holderOf(of: Holder): string {
  if (of === 'authorizer') return `${bound}, which`;
  return of === 'session' ? 'this Session' : 'this Application';
}
