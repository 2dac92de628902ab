/**
 * Evaluates grants with the service's own decision code. So the preview of an unsaved draft has the same results and
 * reasons as the saved application.
 */

import { accessOf } from '../../../src/domain/access/change.ts';
import { explain, trace } from '../../../src/domain/explain.ts';
import { compilePolicy, forPurpose } from '../../../src/domain/policy.ts';
import { quarantined } from '../../../src/domain/quarantine.ts';
import { currentRules } from '../../../src/domain/rule.ts';
import type { DecisionResult } from './decision-trace.tsx';
import type { Grants } from './grants.ts';

export interface Resource {
  readonly id?: string | undefined;
  readonly container?: string | undefined;
  readonly max_uses?: number | undefined;
}

export interface GrantHolder {
  readonly holder: 'application' | 'session';
  readonly grants: Grants;
  /** The authorizer's grants, if they limit the session. */
  readonly ceiling?: Grants | undefined;
  /** Whether the application is in quarantine. */
  readonly isQuarantined?: boolean;
}

function policyOf({ permissions, rules }: Grants, isQuarantined = false) {
  const whole = rules.map(({ description, container, conditions, require_purpose, expires_at, ...rest }) => ({
    ...rest,
    ...(require_purpose && { require_purpose }),
    ...(expires_at && { expires_at }),
    description,
    container,
    conditions,
  }));
  const own = { permissions: [...permissions], rules: currentRules(whole, Date.now()) };
  return compilePolicy(isQuarantined ? quarantined(own) : own);
}

export function evaluator({
  holder,
  grants,
  ceiling,
  isQuarantined,
}: GrantHolder): (permission: string, resource: Resource) => DecisionResult {
  const policy = policyOf(grants, isQuarantined);
  const question = forPurpose({ holder, policy, ceiling: ceiling && policyOf(ceiling) }, 'any');
  return (permission, resource) => ({
    ...explain(question, permission, resource),
    require_purpose: accessOf(policy, question.ceiling, permission, resource) === 'reveal_with_purpose',
    trace: trace(question, permission, resource),
  });
}

/** Sample resources: containers and ids in the rules, children of some containers, and one that no rule matches. */
export function sampleResources(...grants: readonly (Grants | undefined)[]): Resource[] {
  const rules = grants.flatMap((each) => each?.rules ?? []);
  const containers = new Set<string>();
  const ids = new Set<string>();
  for (const { container, conditions } of rules) {
    if (container !== undefined) containers.add(container);
    for (const { attribute, value } of conditions ?? []) (attribute === 'id' ? ids : containers).add(value);
  }
  const slashed = [...containers].map((each) => `/${each.replace(/^\/|\/$/g, '')}/`.replace('//', '/'));
  const below = slashed.slice(0, 3).map((each) => `${each}example/`);
  const samples = [...new Set([...slashed, ...below, '/general/', '/elsewhere/'])];
  const first = slashed[0] ?? '/general/';
  return [
    ...samples.slice(0, 12).map((container) => ({ container })),
    ...[...ids].slice(0, 4).map((id) => ({ id, container: first })),
  ];
}
