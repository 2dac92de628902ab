/** The same answer as `decide`, with the reasons: what each rule made of the question, and what is missing. */
import { isA } from './permission.ts';
import {
  decide,
  decideUnder,
  matches,
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
    grounds: grounds(holder, rule, permission, steps),
    denial: verdict.allowed ? undefined : denial(holder, policy, permission, steps),
  };
}

function stepsOf(of: Holder, policy: Policy, permission: string, resource: Resource): Step[] {
  const scoped = isA('scoped', permission);
  const container = resource.container === undefined ? undefined : canonicalContainer(resource.container);
  const steps = policy.rules.map((ready): Step => {
    const { rule, tests } = ready;
    return {
      of,
      rule: ready.index + 1,
      priority: rule.priority,
      transform: rule.transform,
      grants: ready.permissions.has(permission),
      matches: !scoped || matches(tests, resource.id, container),
      why: scoped ? account(tests, resource.id, container) : 'containers and conditions narrow Tokens only',
    };
  });
  const plain = policy.plain.has(permission);
  return [
    ...steps,
    {
      of,
      rule: 'permissions',
      transform: 'mask',
      grants: plain,
      matches: true,
      why: 'they are for everything',
    },
  ];
}

function account(tests: readonly Test[], id: string | undefined, container: string | undefined): string {
  if (tests.length === 0) return 'it is for everything';
  const values = { id, container };
  const failing = tests.find((test) => !matches([test], id, container));
  return failing
    ? sentence(failing, values, false)
    : tests.map((test) => sentence(test, values, true)).join(' and ');
}

function sentence(
  { attribute, operator, value }: Test,
  given: Record<Test['attribute'], string | undefined>,
  holds: boolean,
): string {
  const actual = given[attribute];
  if (actual === undefined) return `no ${attribute} was given`;
  const not = holds ? '' : ' not';
  if (operator === 'equals') return `${attribute} ${actual} is${not} ${value}`;
  if (attribute === 'container') return `container ${actual} is${not} in ${value}`;
  return holds ? `id ${actual} starts with ${value}` : `id ${actual} does not start with ${value}`;
}

function grounds(
  of: Holder,
  rule: ReadyRule | undefined,
  permission: string,
  steps: readonly Step[],
): string {
  if (!rule) return `${subject(of)} holds ${permission} plainly`;
  const why = steps.find((step) => step.rule === rule.index + 1)?.why;
  return `rule ${rule.index + 1} ${whose(of)}grants ${permission}: ${why}`;
}

/** The smallest change that would have allowed it: a permission more in a rule that matches, a wider rule, or a new grant. */
function denial(of: Holder, policy: Policy, permission: string, steps: readonly Step[]): string {
  if (!isA('scoped', permission)) return `${subject(of)} holds it neither plainly nor by a rule`;
  const rules = steps.filter((step) => step.rule !== 'permissions');
  const matching = rules.find((step) => step.matches);
  if (matching) {
    const granted = policy.grants.rules[(matching.rule as number) - 1]?.permissions.join(', ');
    return `rule ${matching.rule} ${whose(of)}matches but grants ${granted}, not ${permission}`;
  }
  const granting = rules.find((step) => step.grants);
  if (granting)
    return `rule ${granting.rule} ${whose(of)}grants ${permission} but does not match: ${granting.why}`;
  return `${subject(of)} holds it neither plainly nor by a rule`;
}

function subject(of: Holder): string {
  return of === 'authorizer'
    ? 'the authorizer of this Session'
    : `this ${of === 'session' ? 'Session' : 'Application'}`;
}

function whose(of: Holder): string {
  return of === 'authorizer' ? 'of the authorizer ' : '';
}
