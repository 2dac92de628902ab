/** The reason names the quarantine if the result would be different without it. */
import { expect, test } from 'bun:test';
import { explain, explainDenial, type Question } from '../../src/domain/explain.ts';
import { compilePolicy } from '../../src/domain/policy.ts';
import { quarantined } from '../../src/domain/quarantine.ts';
import { grants } from '../support/grants.ts';

const all = grants({ container: '/cards/', permissions: ['token:read', 'token:update'] });
const inQuarantine = compilePolicy(quarantined(all, 'application'));
const card = { id: 'card-1', container: '/cards/' };
const application: Question = { holder: 'application', policy: inQuarantine };
const session: Question = { holder: 'session', policy: compilePolicy(quarantined(all, 'authorizer')) };
const limited: Question = { ...session, ceiling: compilePolicy(all) };

test('a read is redacted by the quarantine, not by the rule', () => {
  expect(explain(application, 'token:read', card)).toMatchObject({
    allowed: true,
    transform: 'redact',
    reason: 'the application is in quarantine: token:read has the transform redact',
  });
  for (const question of [session, limited, { ...limited, hidesAuthorizer: true }])
    expect(explain(question, 'token:read', card)).toMatchObject({
      transform: 'redact',
      reason: 'the authorizer is in quarantine: token:read has the transform redact',
    });
});

test('a change is denied by the quarantine, and no grant is missing', () => {
  const reason = 'the application is in quarantine: token:update cannot be used';
  expect(explain(application, 'token:update', card)).toEqual({ allowed: false, reason });
  expect(explainDenial(application, 'token:update', card)).toEqual({ reason });
  for (const question of [session, limited])
    expect(explainDenial(question, 'token:update', card)).toEqual({
      reason: 'the authorizer is in quarantine: token:update cannot be used',
    });
});

test('a read that no rule allows is denied by the rules', () => {
  const note = { id: 'note-1', container: '/notes/' };
  const expected = {
    reason: 'rule 1 grants token:read but does not match: container /notes/ is not in /cards/',
    missing: { permission: 'token:read', container: '/notes/' },
  };
  expect(explain(application, 'token:read', note)).toMatchObject(expected);
  expect(explainDenial(application, 'token:read', note)).toMatchObject(expected);
});
