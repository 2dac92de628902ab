/** Explanations of allowed requests. Each row is a setup and the expected reason. */
import { describe, expect, test } from 'bun:test';
import { Explanation, explain, type Question, Step, trace } from '../../src/domain/explain.ts';
import type { Resource } from '../../src/domain/policy.ts';
import { application, type ConditionTuple, policyOf, rule, session } from '../support/explain-inputs.ts';

const card: Resource = { id: 'card-43', container: '/customers/43/' };
const read = 'token:read';
const inCustomers: ConditionTuple[] = [['container', 'starts_with', '/customers/']];

const approvals: [
  setup: string,
  asked: Question,
  permission: string,
  transform: string,
  reason: string,
  rule: object,
][] = [
  [
    'a permission without a rule',
    application(policyOf([read], rule('/pci/', [read]))),
    read,
    'mask',
    'this application has token:read in its permissions, with the transform mask',
    { of: 'application', rule: 'permissions' },
  ],
  [
    'a rule for every resource',
    application(policyOf([], rule(undefined, [read], { transform: 'reveal', description: 'Payments' }))),
    read,
    'reveal',
    'rule 1 grants token:read with the transform reveal: it applies to every resource',
    { of: 'application', rule: 1, description: 'Payments' },
  ],
  [
    'the rule with the lowest priority, in any order',
    application(
      policyOf(
        [],
        rule('/customers/', [read], { priority: 9, transform: 'reveal' }),
        rule('/customers/', [read], { priority: 3, transform: 'redact' }),
      ),
    ),
    read,
    'redact',
    'rule 2 grants token:read with the transform redact: container /customers/43/ is in /customers/',
    { of: 'application', rule: 2 },
  ],
  [
    'a rule after one that does not match',
    application(policyOf([], rule('/pci/', [read]), rule('/customers/', [read], { priority: 2 }))),
    read,
    'mask',
    'rule 2 grants token:read with the transform mask: container /customers/43/ is in /customers/',
    { of: 'application', rule: 2 },
  ],
  [
    'exactly the container',
    session(policyOf([], rule([['container', 'starts_with', '/Customers/43']], [read]))),
    read,
    'mask',
    'rule 1 grants token:read with the transform mask: container is /customers/43/',
    { of: 'session', rule: 1 },
  ],
  [
    'conditions that all hold',
    session(policyOf([], rule([...inCustomers, ['id', 'starts_with', 'card-']], [read]))),
    read,
    'mask',
    'rule 1 grants token:read with the transform mask: container /customers/43/ is in /customers/ and id card-43 starts with card-',
    { of: 'session', rule: 1 },
  ],
  [
    'one token by its id',
    session(policyOf([], rule([['id', 'equals', 'card-43']], [read]))),
    read,
    'mask',
    'rule 1 grants token:read with the transform mask: id is card-43',
    { of: 'session', rule: 1 },
  ],
  [
    'an authorizer with a stricter rule',
    session(
      policyOf([], rule(inCustomers, [read], { transform: 'reveal' })),
      policyOf([], rule('/customers/', [read], { transform: 'redact', description: 'Desk' })),
    ),
    read,
    'redact',
    'this key is limited by its authorizer, whose rule 1 grants token:read with the transform redact: container /customers/43/ is in /customers/',
    { of: 'authorizer', rule: 1, description: 'Desk' },
  ],
  [
    'an authorizer with a stricter permission without a rule',
    session(policyOf([], rule(inCustomers, [read], { transform: 'reveal' })), policyOf([read])),
    read,
    'mask',
    'this key is limited by its authorizer, which has token:read in its permissions, with the transform mask',
    { of: 'authorizer', rule: 'permissions' },
  ],
  [
    'an authorizer with a less strict transform',
    session(policyOf([read]), policyOf([], rule('/', [read], { transform: 'reveal' }))),
    read,
    'mask',
    'this session has token:read in its permissions, with the transform mask',
    { of: 'session', rule: 'permissions' },
  ],
  [
    'a rule with a permission that does not apply to data',
    application(policyOf([], rule('/pci/', ['application:read']))),
    'application:read',
    'mask',
    'rule 1 grants application:read with the transform mask: application:read does not apply to data, so containers and conditions are ignored',
    { of: 'application', rule: 1 },
  ],
];

describe('an allowed request is explained by', () => {
  test.each(approvals)('%s', (_, asked, permission, transform, reason, rule) => {
    const answer = explain(asked, permission, card);
    expect(answer).toStrictEqual({ allowed: true, transform, reason, rule } as typeof answer);
    const decided = trace(asked, permission, card).find(
      (step) => step.of === answer.rule?.of && step.rule === answer.rule.rule,
    );
    expect(decided).toMatchObject({ grants: true, matches: true, transform });
    expect(Explanation.parse(answer)).toEqual(answer);
  });
});

test('a token with max_uses is masked, even if a rule reveals it, and the reason says why', () => {
  const reveals = { transform: 'reveal' } as const;
  const limited = { ...card, max_uses: 1 };
  for (const [given, transform, why] of [
    [reveals, 'mask', ', because a token with max_uses is never revealed'],
    [{ ...reveals, require_purpose: true }, 'mask', ', because a token with max_uses is never revealed'],
    [{ transform: 'redact' }, 'redact', ''],
  ] as const)
    expect(explain(application(policyOf([], rule('/customers/', [read], given))), read, limited)).toEqual({
      allowed: true,
      transform,
      reason: `rule 1 grants token:read with the transform ${transform}${why}: container /customers/43/ is in /customers/`,
      rule: { of: 'application', rule: 1 },
    });
});

test('a denied request is explained by its reason and the missing grant', () => {
  const answer = explain(application(policyOf([])), read, card);
  expect(Explanation.parse(answer)).toEqual({
    allowed: false,
    reason: 'this application does not have token:read in its permissions or rules',
    missing: { permission: read, container: '/customers/43/' },
  });
});

test('the trace lists every rule in order of precedence, with whether it grants and why it matches', () => {
  const own = policyOf(
    ['token:create'],
    rule('/customers/', [read], { priority: 2, transform: 'reveal' }),
    rule('/pci/', [read], { priority: 1, transform: 'redact' }),
  );
  const asked = session(own, policyOf([read]));
  expect(trace(asked, read, card).map((step) => Step.parse(step))).toEqual([
    {
      of: 'session',
      rule: 2,
      priority: 1,
      transform: 'redact',
      grants: true,
      matches: false,
      why: 'container /customers/43/ is not in /pci/',
    },
    {
      of: 'session',
      rule: 1,
      priority: 2,
      transform: 'reveal',
      grants: true,
      matches: true,
      why: 'container /customers/43/ is in /customers/',
    },
    {
      of: 'session',
      rule: 'permissions',
      transform: 'mask',
      grants: false,
      matches: true,
      why: 'permissions without a rule apply to every resource',
    },
    {
      of: 'authorizer',
      rule: 'permissions',
      transform: 'mask',
      grants: true,
      matches: true,
      why: 'permissions without a rule apply to every resource',
    },
  ]);
});
