/**
 * What grants allow. A policy is grants made ready to decide with. The same question about the same policy
 * always has the same answer, so it may remember some.
 */

import type { Grants } from './grant.ts';
import { Memo, type Shelf } from './memo.ts';
import { isA } from './permission.ts';
import { canonicalContainer, type Rule } from './rule.ts';
import { narrowest, type Test } from './scope.ts';
import { compareTransforms, stricter, type Transform } from './transform.ts';

/** What a permission is used on. What is absent is matched by nothing that asks about it. */
export interface Resource {
  readonly id?: string | undefined;
  readonly container?: string | undefined;
}

export interface CompiledRule {
  /** Its place in the grants, from 0. */
  readonly index: number;
  readonly rule: Rule;
  readonly permissions: ReadonlySet<string>;
  /** All must hold; none at all means everything. */
  readonly tests: readonly Test[];
}

/** A rule that grants a permission, with what it decides if it matches. */
interface Step {
  readonly tests: readonly Test[];
  /** The container, where the only test is to lie in it or below: by far the most common rule. */
  readonly below: string | undefined;
  readonly verdict: Verdict;
}

/** All that has to do with one permission. */
interface PermissionRules {
  /** In the order in which they decide. */
  readonly steps: readonly Step[];
  readonly otherwise: Verdict;
  /** Where nothing but the container matters: what was decided of which, as it was asked. */
  readonly known: Shelf<Verdict> | undefined;
}

export interface Policy {
  readonly grants: Grants;
  readonly plain: ReadonlySet<string>;
  /** In the order in which they decide: the first that grants and matches wins. */
  readonly rules: readonly CompiledRule[];
  /** By permission. Not a Map, since an object is asked in half the time. */
  readonly byPermission: { readonly [permission: string]: PermissionRules };
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
  const named = [...plain, ...grants.rules.flatMap(({ permissions }) => permissions)];
  const byPermission: Record<string, PermissionRules> = Object.create(null);
  for (const permission of named) byPermission[permission] ??= rulesFor(permission, plain, rules);
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
    .flatMap((rule) => {
      // A rule with many conditions costs a decision no more than one with two.
      const tests = scoped ? narrowest(rule.tests) : [];
      return tests ? [stepOf(rule, tests)] : [];
    });
  const byContainer = steps.every(({ tests }) => tests.every(({ attribute }) => attribute === 'container'));
  const otherwise = plain.has(permission) ? plainly : denied;
  return { steps, otherwise, known: byContainer ? new Map() : undefined };
}

function stepOf(rule: CompiledRule, tests: readonly Test[]): Step {
  const [only, ...more] = tests;
  const isPrefix = more.length === 0 && only?.attribute === 'container' && only.operator === 'starts_with';
  return {
    tests,
    below: isPrefix ? only.value : undefined,
    verdict: { allowed: true, transform: rule.rule.transform, rule },
  };
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

/** Everything is below the root, also what has no container. */
function withoutRoot(tests: Test[]): Test[] {
  return tests.filter(
    ({ attribute, operator, value }) => attribute === 'id' || operator === 'equals' || value !== '/',
  );
}

/** `rule` is absent where the plain permissions allow. */
export type Verdict =
  | { readonly allowed: true; readonly transform: Transform; readonly rule: CompiledRule | undefined }
  | { readonly allowed: false };

const denied: Verdict = { allowed: false };
const plainly: Verdict = { allowed: true, transform: 'mask', rule: undefined };

/** So many containers are remembered, of all policies and permissions together. */
const mostKnown = 16_384;
const memo = new Memo<Verdict>(mostKnown);

export function decide(policy: Policy, permission: string, resource: Resource): Verdict {
  const lane = policy.byPermission[permission];
  if (!lane) return denied;
  const { container } = resource;
  if (!lane.known || container === undefined) return first(lane, resource);
  const known = lane.known.get(container);
  if (known) return known;
  const verdict = first(lane, resource);
  memo.keep(lane.known, container, verdict);
  return verdict;
}

function first({ steps, otherwise }: PermissionRules, { id, container }: Resource): Verdict {
  const folded = container === undefined ? undefined : canonicalContainer(container);
  for (const { tests, below, verdict } of steps) {
    const matching = below === undefined ? matches(tests, id, folded) : isWithin(folded, below);
    if (matching) return verdict;
  }
  return otherwise;
}

const slash = 47;

/** `above` ends with a slash. Most other containers have none at that place, which is seen sooner than the rest. */
function isWithin(container: string | undefined, above: string): boolean {
  if (container === undefined) return false;
  return container.charCodeAt(above.length - 1) === slash && container.startsWith(above);
}

/** With a ceiling, both must allow, and the stricter transform counts. */
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

/** Whether the policy grants the permission at all, on whatever. */
export function isGrantedSomewhere(policy: Policy, permission: string): boolean {
  return permission in policy.byPermission;
}

/** `container` is in its canonical form, in which a prefix always ends with a whole segment. */
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
