/** Which rule decided and why a request was denied, for sessions that their authorizer limits. */
import { describe, expect, test } from 'bun:test';
import {
  decidingRule,
  type ExplainedDenial,
  explainDenial,
  explainMissing,
  type Question,
} from '../../src/domain/explain.ts';
import type { Transform } from '../../src/domain/rule.ts';
import { application, policyOf, rule, session } from '../support/explain-inputs.ts';

const card = { id: 'card-43', container: '/customers/43/' };
const read = 'token:read';
const with43 = (transform: Transform, description?: string) =>
  policyOf([], rule('/pci/', [read]), rule('/customers/43/', [read], { transform, description }));
const elsewhere = policyOf([], rule('/customers/42/', [read], { description: 'Desk' }));
const nothing = policyOf([]);
const other = policyOf(['token:create']);

describe('the deciding rule is', () => {
  test.each<[string, Question, object | undefined]>([
    ['the rule of an application', application(with43('mask')), { of: 'application', rule: 2 }],
    [
      'the rule of a session without a ceiling, with its description',
      session(with43('mask', 'Card')),
      { of: 'session', rule: 2, description: 'Card' },
    ],
    [
      'the rule of the session if it is stricter',
      session(with43('redact'), policyOf([read])),
      { of: 'session', rule: 2 },
    ],
    [
      'the rule of the session if the authorizer is equally strict',
      session(with43('mask'), policyOf([read])),
      { of: 'session', rule: 2 },
    ],
    [
      'the rule of the authorizer if it is stricter',
      session(policyOf([read]), with43('redact', 'Desk')),
      { of: 'authorizer', rule: 2, description: 'Desk' },
    ],
    [
      'the permissions of the authorizer if they are stricter',
      session(with43('reveal'), policyOf([read])),
      { of: 'authorizer', rule: 'permissions' },
    ],
    ['none if the session is denied', session(elsewhere, with43('reveal')), undefined],
    ['none if the session is denied without a ceiling', session(elsewhere), undefined],
    ['none if the authorizer is denied', session(with43('redact'), elsewhere), undefined],
    ['none if both are denied', session(nothing, nothing), undefined],
  ])('%s', (_, asked, expected) => {
    expect(decidingRule(asked, read, card)).toStrictEqual(expected as never);
  });
});

describe('a denial is recorded with', () => {
  const missing = { permission: read, container: '/customers/43/' };
  const notIn42 = 'grants token:read but does not match: container /customers/43/ is not in /customers/42/';
  const description = 'Desk';
  test.each<[string, Question, ExplainedDenial]>([
    [
      'the nearest rule of an application',
      application(elsewhere),
      { reason: `rule 1 ${notIn42}`, missing, rule: { of: 'application', rule: 1, description } },
    ],
    [
      'the nearest rule of a session, not the one of its authorizer',
      session(elsewhere, policyOf([], rule('/pci/', [read]))),
      { reason: `rule 1 ${notIn42}`, missing, rule: { of: 'session', rule: 1, description } },
    ],
    [
      'the nearest rule of a session whose authorizer is allowed',
      session(elsewhere, policyOf([read])),
      { reason: `rule 1 ${notIn42}`, missing, rule: { of: 'session', rule: 1, description } },
    ],
    [
      'the nearest rule of the authorizer if the session is allowed',
      session(with43('mask'), elsewhere),
      {
        reason: `this key is limited by its authorizer, whose rule 1 ${notIn42}`,
        missing,
        rule: { of: 'authorizer', rule: 1, description },
      },
    ],
    [
      'no rule if no rule of the authorizer comes close',
      session(with43('mask'), other),
      {
        reason:
          'this key is limited by its authorizer, which does not have token:read in its permissions or rules',
        missing,
      },
    ],
  ])('%s', (_, asked, expected) => {
    expect(explainDenial(asked, read, card)).toStrictEqual(expected);
  });
});

describe('a permission that is missing on every resource is recorded as missing in the grants of', () => {
  const notGranted = 'does not have token:read in its permissions or rules';
  test.each<[string, Question, string]>([
    ['an application', application(other), `this application ${notGranted}`],
    ['a session without a ceiling', session(other), `this session ${notGranted}`],
    ['a session whose authorizer has it', session(other, elsewhere), `this session ${notGranted}`],
    ['a session whose authorizer does not have it', session(other, other), `this session ${notGranted}`],
    ['a pending session', session(nothing, nothing), 'this session has not been authorized yet'],
    [
      'the authorizer, if the session has it by a rule',
      session(elsewhere, nothing),
      `this key is limited by its authorizer, which ${notGranted}`,
    ],
  ])('%s', (_, asked, reason) => {
    expect(explainMissing(asked, read)).toStrictEqual({ reason, missing: { permission: read } });
  });
});
