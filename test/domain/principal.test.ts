/** Permission checks and their error messages. */
import { describe, expect, test } from 'bun:test';
import { Denial } from '../../src/domain/denial.ts';
import { Failure } from '../../src/domain/error.ts';
import { explain } from '../../src/domain/explain.ts';
import type { Grants, Owner } from '../../src/domain/grant.ts';
import { compilePolicy } from '../../src/domain/policy.ts';
import {
  actorOf,
  changeBy,
  denyEscalation,
  denyUnheldGrants,
  holds,
  identityOf,
  mustHold,
  ownerOf,
  type Principal,
  permit,
  permitNamed,
  questionAbout,
} from '../../src/domain/principal.ts';
import { at, grants, principalBase, when } from '../support/grants.ts';

function application(own: Grants, type: Owner = 'private'): Principal {
  return {
    ...principalBase,
    kind: 'application',
    application: { type } as never,
    policy: compilePolicy(own),
  };
}

function session(own: Grants, above?: Grants): Principal {
  return {
    ...principalBase,
    kind: 'session',
    sessionId: 's',
    authorizedBy: undefined,
    policy: compilePolicy(own),
    ceiling: above && compilePolicy(above),
  };
}

function failureOf(act: () => unknown): { code: string; detail: string } {
  try {
    act();
  } catch (error) {
    if (error instanceof Failure) return { code: error.code, detail: error.detail };
    throw error;
  }
  throw new Error('did not throw');
}

/** The record of the denial in the audit log. */
function recordOf(act: () => unknown): object {
  try {
    act();
  } catch (error) {
    if (!(error instanceof Denial)) throw error;
    const { code, decision, resource, isStored, createdBy } = error;
    return { code, decision, resource, isStored, createdBy };
  }
  throw new Error('did not throw');
}

const pci = { container: '/pci/' };

test('ownerOf returns the type of the application, or session', () => {
  for (const type of ['private', 'public', 'management'] as const)
    expect(ownerOf(application(grants(), type))).toBe(type);
  expect(ownerOf(session(grants('token:read')))).toBe('session');
});

test('identityOf returns the ids of the caller and of its application', () => {
  expect(identityOf(application(grants()))).toEqual({ kind: 'application', id: 'a', application_id: 'a' });
  expect(identityOf(session(grants()))).toEqual({ kind: 'session', id: 's', application_id: 'a' });
});

test('actorOf adds the application that authorized a session', () => {
  const actor = { kind: 'session', id: 's', application_id: 'a' } as const;
  expect(actorOf(session(grants()))).toStrictEqual(actor);
  const authorized = { ...session(grants()), authorizedBy: 'b' } as Principal;
  expect(actorOf(authorized)).toEqual({ ...actor, authorized_by: 'b' });
});

test('changeBy returns the application and the time of the request', () => {
  expect(changeBy(session(grants()))).toEqual({ by: 'a', at: 7 });
});

describe('holding a permission', () => {
  test.each<[string, Principal, boolean]>([
    ['plainly', application(grants('token:read')), true],
    ['by a rule', application(grants(pci)), true],
    ['not without a grant', application(grants('token:create')), false],
    ['as a session without a ceiling', session(grants('token:read')), true],
    ['as a session whose authorizer holds it', session(grants('token:read'), grants(pci)), true],
    ['not as a session whose authorizer does not', session(grants('token:read'), grants()), false],
    ['not as a session that was not granted it', session(grants(), grants('token:read')), false],
  ])('%s', (_, principal, expected) => {
    expect(holds(principal, 'token:read')).toBe(expected);
    if (expected) return expect(mustHold(principal, 'token:read')).toBeUndefined();
    const { code, detail } = failureOf(() => mustHold(principal, 'token:read'));
    expect(code).toBe('permission_missing');
    expect(detail).toMatch(/^You need the permission `token:read`: .+[^.]\.$/);
  });
});

describe('using a permission on a resource', () => {
  test('returns the transform, and whether the ceiling decided', () => {
    for (const ask of [permit, permitNamed]) {
      const own = ask(application(grants(pci)), 'token:read', at('/pci/'));
      expect([own.transform, own.isOfCeiling]).toEqual(['reveal', undefined]);
      expect(ask(application(grants('token:read')), 'token:read', at('/a/')).transform).toBe('mask');
      const bound = session(grants(when(['id', 'equals', 'card-1'])), grants('token:read'));
      const limited = ask(bound, 'token:read', at('/a/'));
      expect([limited.transform, limited.isOfCeiling]).toEqual(['mask', true]);
    }
  });

  test('is denied on a stored token with a detail that does not depend on rules or container', () => {
    const details = [
      application(grants(pci)),
      application(grants({ container: '/secret/' })),
      application(grants({ container: '/secret-project/', permissions: ['token:create'] })),
      session(grants('token:read'), grants(pci)),
      session(grants(when(['container', 'equals', '/secret-/'])), grants(pci)),
    ].map((principal) => failureOf(() => permit(principal, 'token:read', at('/secret-project/'))));
    for (const each of details)
      expect(each).toEqual({
        code: 'permission_missing',
        detail: 'You cannot use `token:read` on this token.',
      });
  });

  test('is denied on a given container with a reason from the caller’s rules', () => {
    const named = (principal: Principal) =>
      failureOf(() => permitNamed(principal, 'token:read', at('/b/'))).detail;
    expect(named(application(grants(pci)))).toBe(
      'You need the permission `token:read`: rule 1 grants token:read but does not match: container /b/ is not in /pci/.',
    );
    expect(named(session(grants('token:read'), grants(pci)))).toBe(
      'You need the permission `token:read`: this key is limited to what its authorizer may do now.',
    );
  });
});

describe('a denial is recorded', () => {
  const reason = 'rule 1 grants token:read but does not match: container /b/ is not in /pci/';
  const rule = { of: 'application', rule: 1 };
  const decision = { reason, missing: { permission: 'token:read', container: '/b/' }, rule };
  const record = {
    code: 'permission_missing',
    decision,
    resource: { ids: ['card-1'], container: '/b/' },
    isStored: false,
    createdBy: undefined,
  };
  const caller = application(grants(pci));

  test('with a stored token and its creator, if known', () => {
    const token = { ...at('/b/'), token: { created_by: 'c' } };
    const stored = { ...record, isStored: true };
    expect(recordOf(() => permit(caller, 'token:read', token))).toEqual({ ...stored, createdBy: 'c' });
    expect(recordOf(() => permit(caller, 'token:read', at('/b/')))).toEqual(stored);
  });

  test('with the resource that the caller named, or the one to log instead', () => {
    expect(recordOf(() => permitNamed(caller, 'token:read', at('/b/')))).toEqual(record);
    const logged = { id: 'card-2', container: '/c/', isStored: true, createdBy: 'c' };
    expect(recordOf(() => permitNamed(caller, 'token:read', at('/b/'), logged))).toEqual({
      ...record,
      resource: { ids: ['card-2'], container: '/c/' },
      isStored: true,
      createdBy: 'c',
    });
  });

  test('without a resource if the permission is missing everywhere', () => {
    expect(recordOf(() => mustHold(session(grants(pci), grants()), 'token:read'))).toEqual({
      ...record,
      decision: {
        reason:
          'this key is limited by its authorizer, which does not have token:read in its permissions or rules',
        missing: { permission: 'token:read' },
      },
      resource: undefined,
    });
  });
});

describe('a question about another', () => {
  test.each<[string, Parameters<typeof questionAbout>[0], string]>([
    [
      'application is answered from its grants',
      { kind: 'application', grants: grants('token:read'), ceiling: undefined },
      'this application has token:read in its permissions, with the transform mask',
    ],
    [
      'session without a ceiling is answered from its grants',
      { kind: 'session', grants: grants('token:read'), ceiling: undefined },
      'this session has token:read in its permissions, with the transform mask',
    ],
    [
      'key is limited by its authorizer',
      { kind: 'session', grants: grants('token:read'), ceiling: grants('token:create') },
      'this key is limited by its authorizer, which does not have token:read in its permissions or rules',
    ],
  ])('%s', (_, subject, reason) => {
    expect(explain(questionAbout(subject), 'token:read', at('/pci/')).reason).toBe(reason);
  });
});

test('granting unheld permissions is denied, and the detail contains the first one', () => {
  const asked = ['token:read', 'log:read', 'tenant:read'];
  expect(failureOf(() => denyUnheldGrants(application(grants('token:read')), asked))).toEqual({
    code: 'grant_not_held',
    detail: 'You cannot grant `log:read`: your key does not hold it.',
  });
});

test('changing unheld management permissions is denied, but not changing other permissions', () => {
  const caller = application(grants('tenant:read'), 'management');
  expect(denyEscalation(caller, grants('token:read'), grants('tenant:read'))).toBeUndefined();
  expect(failureOf(() => denyEscalation(caller, grants('token:read'), grants('application:delete')))).toEqual(
    {
      code: 'grant_not_held',
      detail: 'You cannot grant or change `application:delete`: your key does not hold it.',
    },
  );
});
