/** Access decisions. A policy is a list of grants, compiled so that a decision reads only the rules it needs. */
import type { Grants } from './grant.ts';
import { isA } from './permission.ts';
import { canonicalContainer, type Rule } from './rule.ts';
import { narrowest, type Test } from './scope.ts';
import { compareTransforms, stricter, type Transform } from './transform.ts';

/** What a permission is used on. A missing attribute never matches a condition. */
export interface Resource {
  readonly id?: string | undefined;
  readonly container?: string | undefined;
}

export interface CompiledRule {
  /** Its index in the grants. */
  readonly index: number;
  readonly rule: Rule;
  readonly permissions: ReadonlySet<string>;
  /** All must hold. A rule without tests matches every resource. */
  readonly tests: readonly Test[];
}

/** A rule that grants a permission, with the verdict if it matches. */
interface Step {
  readonly tests: readonly Test[];
  readonly verdict: Verdict;
}

/** The rules that grant one permission. */
interface PermissionRules {
  /** In order of precedence. */
  readonly steps: readonly Step[];
  /** The verdict if no step matches. */
  readonly otherwise: Verdict;
}

export interface Policy {
  readonly grants: Grants;
  readonly plain: ReadonlySet<string>;
  /** In order of precedence: the first that grants the permission and matches the resource decides. */
  readonly rules: readonly CompiledRule[];
  readonly byPermission: ReadonlyMap<string, PermissionRules>;
}

export function compilePolicy(grants: Grants): Policy {
  const rules = grants.rules.map((rule, index) => ({
    index,
    rule,
    permissions: new Set(rule.permissions),
    tests: testsOf(rule),
  }));
  rules.sort(
    (a, b) => a.rule.priority - b.rule.priority || compareTransforms(a.rule.transform, b.rule.transform),
  );
  const plain = new Set(grants.permissions);
  const named = new Set([...plain, ...grants.rules.flatMap(({ permissions }) => permissions)]);
  const byPermission = new Map(
    Array.from(named, (permission) => [permission, rulesFor(permission, plain, rules)] as const),
  );
  return { grants, plain, rules, byPermission };
}

function rulesFor(
  permission: string,
  plain: ReadonlySet<string>,
  rules: readonly CompiledRule[],
): PermissionRules {
  const scoped = isA('scoped', permission);
  const steps = rules
    .filter(({ permissions }) => permissions.has(permission))
    .flatMap((rule): Step[] => {
      // At most two tests remain, however many conditions the rule has.
      const tests = scoped ? narrowest(rule.tests) : [];
      return tests ? [{ tests, verdict: { allowed: true, transform: rule.rule.transform, rule } }] : [];
    });
  return { steps, otherwise: plain.has(permission) ? allowedByPermission : denied };
}

function testsOf(rule: Rule): Test[] {
  if (rule.container !== undefined) {
    return withoutRoot([
      { attribute: 'container', operator: 'starts_with', value: canonicalContainer(rule.container) },
    ]);
  }
  const tests = (rule.conditions ?? []).map(({ attribute, operator, value }) => ({
    attribute,
    operator,
    value: attribute === 'container' ? canonicalContainer(value) : value,
  }));
  return withoutRoot(tests);
}

/** The root container includes every resource, also one without a container. */
function withoutRoot(tests: Test[]): Test[] {
  return tests.filter(
    ({ attribute, operator, value }) => attribute === 'id' || operator === 'equals' || value !== '/',
  );
}

/** `rule` is undefined if the permission is granted without a rule. */
export type Verdict =
  | { readonly allowed: true; readonly transform: Transform; readonly rule: CompiledRule | undefined }
  | { readonly allowed: false };

const denied: Verdict = { allowed: false };
const allowedByPermission: Verdict = { allowed: true, transform: 'mask', rule: undefined };

export function decide(policy: Policy, permission: string, { id, container }: Resource): Verdict {
  const granted = policy.byPermission.get(permission);
  if (!granted) return denied;
  const canonical = container === undefined ? undefined : canonicalContainer(container);
  for (const { tests, verdict } of granted.steps) if (matches(tests, id, canonical)) return verdict;
  return granted.otherwise;
}

/** With a ceiling, both policies must allow. The stricter transform applies. */
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
  return { ...own, transform: stricter(own.transform, above.transform) };
}

/** Whether the policy grants the permission on any resource. */
export function isGrantedSomewhere(policy: Policy, permission: string): boolean {
  return policy.byPermission.has(permission);
}

/** `container` must be canonical, so that `starts_with` compares whole segments. */
export function matches(
  tests: readonly Test[],
  id: string | undefined,
  container: string | undefined,
): boolean {
  for (const test of tests) {
    const value = test.attribute === 'id' ? id : container;
    if (value === undefined) return false;
    if (test.operator === 'equals' ? value !== test.value : !value.startsWith(test.value)) return false;
  }
  return true;
}
