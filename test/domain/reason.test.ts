/** Which rule and which conditions a reason names. The sentences are tested with `explain`. */
import { describe, expect, test } from 'bun:test';
import { compilePolicy, decide, type Policy, type Resource } from '../../src/domain/policy.ts';
import { type Quarantined, quarantined } from '../../src/domain/quarantine.ts';
import {
  allowReason,
  denyReason,
  type Holder,
  notGranted,
  quarantineDenying,
} from '../../src/domain/reason.ts';
import { type ConditionTuple, policyOf, rule } from '../support/explain-inputs.ts';

const card: Resource = { id: 'card-43', container: '/customers/43/' };
const read = 'token:read';
const create = 'token:create';
const inCustomers: ConditionTuple = ['container', 'starts_with', '/customers/'];

describe('a denial names', () => {
  test.each<[string, Policy, rule: number | undefined, permission?: string]>([
    [
      'the narrowest matching rule, if it is first',
      policyOf([], rule('/customers/43/', [create]), rule('/', [create])),
      1,
    ],
    [
      'the narrowest matching rule, if it is between others',
      policyOf([], rule('/', [create]), rule('/customers/43/', [create]), rule('/customers/', [create])),
      2,
    ],
    [
      'the rule whose conditions are longer in total',
      policyOf(
        [],
        rule([['container', 'equals', '/customers/43/']], [create]),
        rule([inCustomers, ['id', 'starts_with', 'card-']], [create]),
      ),
      2,
    ],
    [
      'the first of equally narrow matching rules',
      policyOf([], rule('/customers/', [create]), rule('/customers/', ['token:update'])),
      1,
    ],
    [
      'the one with the lower priority of equally narrow matching rules',
      policyOf([], rule('/customers/', [create], { priority: 2 }), rule('/customers/', ['token:update'])),
      2,
    ],
    [
      'a wide matching rule rather than a near one that does not match',
      policyOf([], rule('/customers/42/', [read]), rule('/', [create])),
      2,
    ],
    [
      'the nearest rule with the permission, if it is first',
      policyOf([], rule('/customers/42/', [read]), rule('/pci/', [read])),
      1,
    ],
    [
      'the nearest rule with the permission, if it is between others',
      policyOf([], rule('/pci/', [read]), rule('/customers/42/', [read]), rule('/customs/', [read])),
      2,
    ],
    [
      'a rule with one condition that fails completely rather than one with two that nearly hold',
      policyOf(
        [],
        rule(
          [
            ['id', 'equals', 'card-44'],
            ['container', 'equals', '/customers/44/'],
          ],
          [read],
        ),
        rule([['id', 'equals', 'iban-1'], inCustomers], [read]),
      ),
      2,
    ],
    [
      'the rule of which a larger fraction of the value is given',
      policyOf(
        [],
        rule([['id', 'equals', 'card-1000-0000']], [read]),
        rule([['id', 'equals', 'card-4']], [read]),
      ),
      2,
    ],
    ['no rule if none has the permission or matches', policyOf([], rule('/pci/', [create])), undefined],
    [
      'no rule for a permission that does not apply to data',
      policyOf([], rule('/', [read])),
      undefined,
      'log:read',
    ],
  ])('%s', (_, policy, named, permission = read) => {
    const { reason, rule } = denyReason('application', policy, permission, card);
    expect(rule && rule.index + 1).toBe(named as number);
    expect(reason).toStartWith(
      named === undefined ? `this application does not have ${permission}` : `rule ${named} `,
    );
  });
});

describe('a reason names up to three conditions:', () => {
  const held: ConditionTuple[] = [
    inCustomers,
    ['id', 'starts_with', 'card-'],
    ['id', 'starts_with', 'card-43'],
    ['container', 'equals', '/Customers/43'],
    ['id', 'equals', 'card-43'],
  ];
  const three =
    'container /customers/43/ is in /customers/ and id card-43 starts with card- and id is card-43';
  test.each<[string, ConditionTuple[], string]>([
    ['all of three that hold', held.slice(0, 3), three],
    ['the first three of four that hold', held.slice(0, 4), `${three} and 1 more`],
    ['the first three of five that hold', held, `${three} and 2 more`],
    ['a container as a whole', held.slice(3, 4), 'container is /customers/43/'],
  ])('%s', (_, conditions, because) => {
    const policy = policyOf([], rule(conditions, [read]));
    const [compiled] = policy.rules;
    expect(allowReason('application', policy, compiled, 'mask', read, card)).toBe(
      `rule 1 grants token:read with the transform mask: ${because}`,
    );
  });

  test('only those that do not hold, if one does not', () => {
    const failing: ConditionTuple[] = ['a', 'b', 'c'].map((id) => ['id', 'equals', id]);
    const policy = policyOf([], rule([...held, ...failing], [read]));
    expect(denyReason('application', policy, read, card).reason).toBe(
      'rule 1 grants token:read but does not match: id card-43 is not a and id card-43 is not b and id card-43 is not c',
    );
  });

  test('with the container in its canonical form', () => {
    const upper = { ...card, container: 'Customers/43' };
    const allowing = policyOf([], rule('/customers/', [read]));
    const verdict = decide(allowing, read, upper);
    expect(
      allowReason('session', allowing, verdict.allowed ? verdict.rule : undefined, 'mask', read, upper),
    ).toBe('rule 1 grants token:read with the transform mask: container /customers/43/ is in /customers/');
    expect(denyReason('session', policyOf([], rule('/pci/', [read])), read, upper).reason).toBe(
      'rule 1 grants token:read but does not match: container /customers/43/ is not in /pci/',
    );
  });
});

describe('a quarantine', () => {
  const grants = { permissions: [read, 'token:update'], rules: [rule('/customers/', [read])] };
  test.each<[of: Holder, by: Quarantined]>([
    ['application', 'application'],
    ['session', 'session'],
    ['session', 'application'],
    ['session', 'authorizer'],
  ])('is named for the %s if the %s is in quarantine', (of, by) => {
    const policy = compilePolicy(quarantined(grants, by));
    expect(allowReason(of, policy, policy.rules[0], 'redact', read, card)).toBe(
      `the ${by} is in quarantine: token:read has the transform redact`,
    );
    expect(denyReason(of, policy, 'token:update', card)).toStrictEqual({
      reason: `the ${by} is in quarantine: token:update cannot be used`,
    });
  });

  test('denies changes and no reads', () => {
    for (const by of ['application', 'session'] as const) {
      const policy = compilePolicy(quarantined(grants, by));
      expect(quarantineDenying(policy, 'token:update')).toBe(by);
      expect(quarantineDenying(policy, read)).toBeUndefined();
    }
    expect(quarantineDenying(compilePolicy(grants), 'token:update')).toBeUndefined();
  });
});

test.each<[Holder, Policy, string]>([
  ['session', policyOf([], rule('/', [create])), 'this session'],
  ['authorizer', policyOf([]), 'this key is limited by its authorizer, which'],
])('only a session without any grants has not been authorized yet: %s', (of, policy, holder) => {
  expect(notGranted(of, policy, read)).toBe(`${holder} does not have token:read in its permissions or rules`);
});
