/** What a caller is refused, and in which words. */
import { describe, expect, test } from 'bun:test';
import { Failure } from '../../src/domain/error.ts';
import type { Grants, Owner } from '../../src/domain/grant.ts';
import { ready } from '../../src/domain/policy.ts';
import {
  explained,
  holds,
  mustHold,
  ownerOf,
  type Principal,
  permit,
  refuseUnheld,
} from '../../src/domain/principal.ts';
import { at, grants, when } from '../support/grants.ts';

const base = {
  tenantId: 't',
  applicationId: 'a',
  origins: undefined,
  authority: undefined,
  digest: Buffer.alloc(0),
  now: 0,
};

function application(own: Grants, type: Owner = 'private'): Principal {
  return { ...base, kind: 'application', application: { type } as never, policy: ready(own) };
}

function session(own: Grants, above?: Grants): Principal {
  return { ...base, kind: 'session', sessionId: 's', policy: ready(own), ceiling: above && ready(above) };
}

function refusal(act: () => unknown): { code: string; detail: string } {
  try {
    act();
  } catch (error) {
    if (error instanceof Failure) return { code: error.code, detail: error.detail };
    throw error;
  }
  throw new Error('was not refused');
}

const pci = { container: '/pci/' };

test('an Application is owned by its type, a Session is a Session', () => {
  for (const type of ['private', 'public', 'management'] as const)
    expect(ownerOf(application(grants(), type))).toBe(type);
  expect(ownerOf(session(grants('token:read')))).toBe('session');
});

describe('holding a permission at all', () => {
  test.each<[string, Principal, boolean]>([
    ['plainly', application(grants('token:read')), true],
    ['by a rule', application(grants(pci)), true],
    ['not without a grant', application(grants('token:create')), false],
    ['as a Session without a ceiling', session(grants('token:read')), true],
    ['as a Session whose authorizer holds it', session(grants('token:read'), grants(pci)), true],
    ['not as a Session whose authorizer does not', session(grants('token:read'), grants()), false],
    ['not as a Session that was not granted it', session(grants(), grants('token:read')), false],
  ])('%s', (_, principal, expected) => {
    expect(holds(principal, 'token:read')).toBe(expected);
    if (expected) return expect(mustHold(principal, 'token:read')).toBeUndefined();
    const { code, detail } = refusal(() => mustHold(principal, 'token:read'));
    expect(code).toBe('permission_missing');
    expect(detail).toMatch(/^This needs the permission token:read: .+[^.]\.$/);
  });
});

describe('using a permission on something', () => {
  test('answers with the transform', () => {
    expect(permit(application(grants(pci)), 'token:read', at('/pci/'), true)).toBe('reveal');
    expect(permit(application(grants('token:read')), 'token:read', at('/a/'), true)).toBe('mask');
    expect(
      permit(
        session(grants(when(['id', 'equals', 'card-1'])), grants('token:read')),
        'token:read',
        at('/a/'),
        true,
      ),
    ).toBe('mask');
  });

  test('is refused with the reason that an explanation gives, but for where a thing lies that the caller did not say', () => {
    const principal = application(grants(pci));
    const { reason } = explained(principal, 'token:read', at('/secret-project/'));
    const refused = (isSaid: boolean) =>
      refusal(() => permit(principal, 'token:read', at('/secret-project/'), isSaid)).detail;
    expect(refused(true)).toBe(`This needs the permission token:read: ${reason}.`);
    expect(reason).toContain('/pci/');
    expect(refused(false)).toBe(
      'This needs the permission token:read: rule 1 grants token:read but does not match: its container is not in /pci/.',
    );
  });

  test('is refused under a ceiling that does not reach there', () => {
    const principal = session(grants('token:read'), grants(pci));
    expect(permit(principal, 'token:read', at('/pci/'), true)).toBe('mask');
    expect(refusal(() => permit(principal, 'token:read', at('/a/'), true))).toEqual({
      code: 'permission_missing',
      detail:
        'This needs the permission token:read: this Session may do no more than its authorizer, which does not have token:read here.',
    });
    expect(explained(principal, 'token:read', at('/a/')).trace.map((step) => step.of)).toEqual([
      'session',
      'authorizer',
      'authorizer',
    ]);
  });
});

test('whoever hands out what it does not hold hears the first of it', () => {
  const asked = ['token:read', 'log:read', 'tenant:read'];
  expect(refusal(() => refuseUnheld(application(grants('token:read')), asked))).toEqual({
    code: 'grant_not_held',
    detail: 'This touches log:read, which this key does not hold itself.',
  });
});
