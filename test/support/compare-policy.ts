/** Compares the policy with the naive implementation on one case, and reports the first difference. */

import { accessOf } from '../../src/domain/access/change.ts';
import { type Explanation, explain, type Question, type Step, trace } from '../../src/domain/explain.ts';
import type { Grants } from '../../src/domain/grant.ts';
import {
  compilePolicy,
  decide,
  decideUnder,
  forPurpose,
  type Policy,
  type Resource,
  transformUnder,
} from '../../src/domain/policy.ts';
import { quarantined } from '../../src/domain/quarantine.ts';
import type { Bound, Scope } from '../../src/domain/scope.ts';
import { inBoth, type Visible, visible } from '../../src/domain/visible-scopes.ts';
import {
  isDataPermission,
  naiveDecide,
  naiveDecideUnder,
  plainPermissions,
  ruleMatches,
} from './naive-policy.ts';
import { type Case, Random, randomCase } from './random-policy.ts';

export interface Disagreement {
  readonly about: string;
  readonly actual: unknown;
  readonly expected: unknown;
  readonly testCase: Case;
}

export function caseFromSeed(seed: number): Case {
  return randomCase(new Random(seed));
}

/** The first difference, or undefined if both agree. */
export function disagreement(testCase: Case): Disagreement | undefined {
  for (const [about, actual, expected] of comparisons(testCase)) {
    if (!Bun.deepEquals(actual, expected)) return { about, actual, expected, testCase };
  }
  return undefined;
}

type Comparison = [about: string, actual: unknown, expected: unknown];

function* comparisons(testCase: Case): Generator<Comparison> {
  const { grants, ceiling, permission, resource, purpose } = testCase;
  const compiled = (of: Grants) => forPurpose({ policy: compilePolicy(of) }, purpose).policy;
  const policy = compiled(grants);
  const above = ceiling && compiled(ceiling);
  const expected = naiveDecideUnder(grants, ceiling, permission, resource, purpose);
  yield* compareDecide('the holder', policy, grants, testCase);
  if (above) yield* compareDecide('the ceiling', above, ceiling, testCase);

  yield ['decideUnder', outcome(decideUnder(policy, above, permission, resource)), expected];
  yield* comparePurposes(testCase, policy, above);
  const transform = expected.allowed ? expected.transform : undefined;
  const redacted = transform && /:read$|^decision:create$/.test(permission) ? 'redact' : undefined;
  const isolated = quarantined(grants);
  yield ['in quarantine', transformUnder(isolated, ceiling, permission, resource), redacted];
  const verdict = decideUnder(compiled(isolated), above, permission, resource);
  yield ['in quarantine, compiled', verdict.allowed ? verdict.transform : undefined, redacted];
  const question = { holder: testCase.holder, policy, ceiling: above };
  const explanation = explain(question, permission, resource);
  yield* compareExplanation(testCase, explanation, trace(question, permission, resource), expected);
  yield* compareHidden(question, explanation, testCase);
  if (isDataPermission(permission))
    yield* compareScopes(permission, visible({ policy, ceiling: above }, permission), resource, expected);
  yield* compareSearch(testCase, policy, above);

  const backwards = compiled({ ...grants, rules: grants.rules.toReversed() });
  yield [
    'the same rules in reverse order',
    outcome(decideUnder(backwards, above, permission, resource)),
    expected,
  ];
}

/** Checks the maximum access of a request, and that `require_purpose` never reveals more than the rule without it. */
function* comparePurposes(
  { grants, ceiling, permission, resource, purpose }: Case,
  policy: Policy,
  above: Policy | undefined,
): Generator<Comparison> {
  const stating = (stated: string | undefined) => {
    const verdict = naiveDecideUnder(grants, ceiling, permission, resource, stated);
    return verdict.allowed ? verdict.transform : undefined;
  };
  const [most, least] = [stating('any'), stating(undefined)];
  yield ['transformUnder', transformUnder(grants, ceiling, permission, resource), most];
  const access = most === least ? (most ?? 'denied') : 'reveal_with_purpose';
  yield ['accessOf', accessOf(policy, above, permission, resource), access];
  const stated = forPurpose(forPurpose({ policy, ceiling: above }, 'other'), purpose);
  yield [
    'the purpose of another request',
    outcome(decideUnder(stated.policy, stated.ceiling, permission, resource)),
    outcome(decideUnder(policy, above, permission, resource)),
  ];
  const withoutPurpose = (of: Grants) => ({
    ...of,
    rules: of.rules.map(({ require_purpose, ...rule }) => rule),
  });
  const free = transformUnder(
    withoutPurpose(grants),
    ceiling && withoutPurpose(ceiling),
    permission,
    resource,
  );
  const rank = (transform: string | undefined) => [undefined, 'redact', 'mask', 'reveal'].indexOf(transform);
  yield ['a required purpose never reveals more', rank(stating(purpose)) <= rank(free), true];
}

function* compareDecide(
  whose: string,
  policy: Policy,
  grants: Grants,
  { permission, resource, purpose }: Case,
): Generator<Comparison> {
  const verdict = decide(policy, permission, resource);
  const expected = naiveDecide(grants, permission, resource, purpose);
  yield [`decide for ${whose}`, outcome(verdict), outcome(expected)];
  if (!verdict.allowed || !expected.allowed) return;
  const decider = verdict.rule?.index ?? plainPermissions;
  yield [`the rule that decides for ${whose}`, expected.deciders.includes(decider), true];
}

function outcome(verdict: { allowed: false } | { allowed: true; transform: string }) {
  return verdict.allowed ? { allowed: true, transform: verdict.transform } : { allowed: false };
}

function* compareExplanation(
  testCase: Case,
  { allowed, transform, reason, rule, missing }: Explanation,
  trace: readonly Step[],
  expected: ReturnType<typeof naiveDecideUnder>,
): Generator<Comparison> {
  yield ['explain', allowed ? { allowed, transform } : { allowed }, expected];
  yield ['a reason is given', reason.length > 0 && !reason.includes('undefined'), true];
  const sides = [{ holder: testCase.holder as Step['of'], grants: testCase.grants }];
  if (testCase.ceiling) sides.push({ holder: 'authorizer', grants: testCase.ceiling });
  const steps = (list: readonly Step[]) =>
    list
      .map(
        ({ of, rule, priority, transform, require_purpose, grants, matches, why }) =>
          `${of} ${rule} ${priority} ${transform} ${require_purpose} ${grants} ${matches} ${why.length > 0}`,
      )
      .toSorted();
  yield ['the trace', steps(trace), steps(sides.flatMap((side) => expectedSteps(side, testCase)))];
  if (!expected.allowed) {
    yield ['the rule named in a denial', rule, undefined];
    yield ['the missing permission', missing?.permission, testCase.permission];
    return;
  }
  const side = sides.find(({ holder }) => holder === rule?.of);
  const verdict = side && naiveDecide(side.grants, testCase.permission, testCase.resource, testCase.purpose);
  const index = typeof rule?.rule === 'number' ? rule.rule - 1 : plainPermissions;
  yield [
    'the rule named',
    verdict?.allowed && verdict.transform === transform && verdict.deciders.includes(index),
    true,
  ];
  const first = trace.find((step) => step.of === rule?.of && step.grants && step.matches);
  yield ['the first step that grants and matches', first?.rule, rule?.rule];
}

/** Hiding the authorizer must not change the decision, only what is reported about it. */
function* compareHidden(
  question: Question,
  full: Explanation,
  { permission, resource }: Case,
): Generator<Comparison> {
  const hidden = explain({ ...question, hidesAuthorizer: true }, permission, resource);
  const { allowed, transform, rule } = hidden;
  yield [
    'the decision with the authorizer hidden',
    { allowed, transform },
    { allowed: full.allowed, transform: full.transform },
  ];
  const alone = explain({ ...question, ceiling: undefined }, permission, resource);
  const bound = { allowed, ...(transform && { transform }), reason: limited };
  yield ['the explanation with the authorizer hidden', hidden, hidden.reason === limited ? bound : alone];
  yield [
    'the holder of the rule named with the authorizer hidden',
    rule?.of ?? question.holder,
    question.holder,
  ];
}

const limited = 'this key is limited to what its authorizer may do now';

function expectedSteps(
  { holder, grants }: { holder: Step['of']; grants: Grants },
  { permission, resource }: Case,
): Step[] {
  const rules = grants.rules.map(
    (rule, index): Step => ({
      of: holder,
      rule: index + 1,
      priority: rule.priority,
      transform: rule.transform,
      ...(rule.require_purpose && { require_purpose: true }),
      grants: rule.permissions.includes(permission),
      matches: ruleMatches(rule, permission, resource),
      why: 'any',
    }),
  );
  const grantsPlainly = permission !== 'token:use' && grants.permissions.includes(permission);
  return [
    ...rules,
    {
      of: holder,
      rule: plainPermissions,
      transform: 'mask',
      grants: grantsPlainly,
      matches: true,
      why: 'any',
    },
  ];
}

/** A search finds the tokens that its caller may both search and read. */
function* compareSearch(
  { grants, ceiling, resource, purpose }: Case,
  policy: Policy,
  above: Policy | undefined,
): Generator<Comparison> {
  const permissions = ['token:search', 'token:read'] as const;
  const [search, read] = permissions.map((each) => visible({ policy, ceiling: above }, each));
  const allowed = permissions.every(
    (each) => naiveDecideUnder(grants, ceiling, each, resource, purpose).allowed,
  );
  yield* compareScopes('a search', inBoth(search as Visible, read as Visible), resource, { allowed });
}

function* compareScopes(
  what: string,
  { scopes, exact }: Visible,
  resource: Resource,
  { allowed }: { allowed: boolean },
): Generator<Comparison> {
  const inScope = scopes.some((scope) => isInScope(resource, scope));
  const expected = exact ? allowed : true;
  yield [`whether the resource is in a scope of ${what}`, exact ? inScope : inScope || !allowed, expected];
  const redundant = scopes.filter((scope, at) =>
    scopes.some((other, index) => index !== at && contains(other, scope)),
  );
  yield [`scopes of ${what} contained in another`, redundant, []];
}

/** Whether a resource is in a scope. Does not use the functions of src/domain that it is compared with. */
export function isInScope({ id, container }: Resource, scope: Scope): boolean {
  const path = container?.toLowerCase().split('/').filter(Boolean) ?? [];
  const canonical = path.length === 0 ? '/' : `/${path.join('/')}/`;
  return passes(id, scope.id) && passes(container === undefined ? undefined : canonical, scope.container);
}

function passes(value: string | undefined, bound: Bound | undefined): boolean {
  if (!bound) return true;
  if (value === undefined) return false;
  return bound.exact ? value === bound.value : value.slice(0, bound.value.length) === bound.value;
}

function contains(wide: Scope, narrow: Scope): boolean {
  return (['id', 'container'] as const).every((attribute) => {
    const [outer, inner] = [wide[attribute], narrow[attribute]];
    if (!outer) return true;
    if (!inner) return false;
    return inner.exact || !outer.exact ? passes(inner.value, outer) : false;
  });
}

/** Removes rules and permissions while the difference remains. */
export function shrink(found: Disagreement): Disagreement {
  const smaller = narrowings(found.testCase)
    .map(disagreement)
    .find((still) => still?.about === found.about);
  return smaller ? shrink(smaller) : found;
}

function narrowings(testCase: Case): Case[] {
  const without = (grants: Grants): Grants[] => [
    ...grants.rules.map((_, at) => ({ ...grants, rules: grants.rules.toSpliced(at, 1) })),
    ...grants.permissions.map((_, at) => ({ ...grants, permissions: grants.permissions.toSpliced(at, 1) })),
  ];
  return [
    ...without(testCase.grants).map((grants) => ({ ...testCase, grants })),
    ...(testCase.ceiling ? without(testCase.ceiling).map((ceiling) => ({ ...testCase, ceiling })) : []),
    ...(testCase.ceiling ? [{ ...testCase, ceiling: undefined }] : []),
  ];
}
