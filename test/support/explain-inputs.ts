/** Short builders for rules and for the inputs of `explain`. */
import type { Question } from '../../src/domain/explain.ts';
import { compilePolicy, type Policy } from '../../src/domain/policy.ts';
import type { Rule } from '../../src/domain/rule.ts';

export type ConditionTuple = [
  attribute: 'id' | 'container',
  operator: 'equals' | 'starts_with',
  value: string,
];

export function rule(
  scope: string | ConditionTuple[] | undefined,
  permissions: string[],
  fields: Partial<Rule> = {},
): Rule {
  const container = typeof scope === 'string' ? scope : undefined;
  const conditions = Array.isArray(scope)
    ? scope.map(([attribute, operator, value]) => ({ attribute, operator, value }))
    : undefined;
  return {
    priority: 1,
    transform: 'mask',
    description: undefined,
    permissions,
    container,
    conditions,
    ...fields,
  };
}

export const policyOf = (permissions: string[], ...rules: Rule[]) => compilePolicy({ permissions, rules });
export const application = (policy: Policy): Question => ({ holder: 'application', policy });
export const session = (policy: Policy, ceiling?: Policy): Question => ({
  holder: 'session',
  policy,
  ceiling,
});
