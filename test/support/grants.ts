/** Short builders for grants, rules and resources. */
import type { Grants } from '../../src/domain/grant.ts';
import type { Resource, Verdict } from '../../src/domain/policy.ts';
import type { Condition, Rule, Transform } from '../../src/domain/rule.ts';

/** Strings are plain permissions, objects are rules. */
export function grants(...parts: (string | Partial<Rule>)[]): Grants {
  return {
    permissions: parts.filter((part) => typeof part === 'string'),
    rules: parts.filter((part) => typeof part !== 'string').map(rule),
  };
}

/** Fields that all principals have. */
export const principalBase = {
  tenantId: 't',
  tenantTag: 'k3ZrT9',
  applicationId: 'a',
  origins: undefined,
  authority: undefined,
  digest: Buffer.alloc(0),
  now: 7,
};

/** A rule that reveals every token, overridden by `fields`. */
export function rule(fields: Partial<Rule>): Rule {
  return { priority: 1, transform: 'reveal', permissions: ['token:read'], ...fields } as Rule;
}

export function when(
  ...conditions: (readonly [Condition['attribute'], Condition['operator'], string])[]
): Partial<Rule> {
  return {
    conditions: conditions.map(([attribute, operator, value]) => ({ attribute, operator, value })),
  };
}

export function at(container: string, id = 'card-1'): Resource {
  return { id, container };
}

export type Outcome = Transform | 'denied';

export function outcome(verdict: Verdict): Outcome {
  return verdict.allowed ? verdict.transform : 'denied';
}
