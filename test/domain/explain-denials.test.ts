/** Explanations of denied requests. Each row is a setup and the expected reason. */
import { describe, expect, test } from 'bun:test';
import { denialReason, explain, missingReason, type Question, trace } from '../../src/domain/explain.ts';
import type { Resource } from '../../src/domain/policy.ts';
import { application, type ConditionTuple, policyOf, rule, session } from '../support/explain-inputs.ts';

const card: Resource = { id: 'card-43', container: '/customers/43/' };
const read = 'token:read';
const inCustomers: ConditionTuple[] = [['container', 'starts_with', '/customers/']];

const denials: [setup: string, asked: Question, reason: string, permission?: string, resource?: Resource][] =
  [
    [
      'an application without the permission',
      application(policyOf(['token:create'])),
      'this application does not have token:read in its permissions or rules',
    ],
    [
      'a matching rule with another permission',
      application(policyOf([], rule('/pci/', [read]), rule('/customers/', ['token:create']))),
      'rule 2 matches but grants token:create, not token:read',
    ],
    [
      'a wide and a narrow matching rule with another permission: names the narrow one',
      application(policyOf([], rule('/', ['token:create']), rule('/customers/43/', ['token:update']))),
      'rule 2 matches but grants token:update, not token:read',
    ],
    [
      'a rule for every resource with another permission',
      application(policyOf([], rule(undefined, ['token:create', 'token:delete']))),
      'rule 1 matches but grants token:create, token:delete, not token:read',
    ],
    [
      'a matching rule with many other permissions: names three',
      application(
        policyOf(
          [],
          rule('/', ['token:create', 'token:update', 'token:delete', 'invoice:read', 'invoice:pay']),
        ),
      ),
      'rule 1 matches but grants token:create, token:update, token:delete and 2 more, not token:read',
    ],
    [
      'a matching rule with three other permissions: names all',
      application(policyOf([], rule('/', ['token:create', 'token:update', 'token:delete']))),
      'rule 1 matches but grants token:create, token:update, token:delete, not token:read',
    ],
    [
      'two matching rules with other permissions: names the lower priority',
      application(
        policyOf(
          [],
          rule('/customers/', ['token:delete'], { priority: 2 }),
          rule('/customers/43/', ['token:create']),
        ),
      ),
      'rule 2 matches but grants token:create, not token:read',
    ],
    [
      'rules for other containers: names the nearest',
      application(policyOf([], rule('/pci/', [read]), rule('/customers/42/', [read]))),
      'rule 2 grants token:read but does not match: container /customers/43/ is not in /customers/42/',
    ],
    [
      'rules for other containers: names the nearest one with the permission',
      application(policyOf([], rule('/customers/42/', ['token:create']), rule('/pci/', [read]))),
      'rule 2 grants token:read but does not match: container /customers/43/ is not in /pci/',
    ],
    [
      'a rule for exactly the parent container: nearer than one for a sibling',
      session(
        policyOf(
          [],
          rule([['container', 'starts_with', '/customers/42/']], [read]),
          rule([['container', 'equals', '/customers/']], [read]),
        ),
      ),
      'rule 2 grants token:read but does not match: container /customers/43/ is not /customers/',
    ],
    [
      'rules for other ids: names the one with the longer common prefix',
      session(
        policyOf(
          [],
          rule([['id', 'starts_with', 'iban-']], [read]),
          rule([['id', 'equals', 'card-42']], [read]),
        ),
      ),
      'rule 2 grants token:read but does not match: id card-43 is not card-42',
    ],
    [
      'a container with a longer last segment',
      application(policyOf([], rule('/customers/4', [read]))),
      'rule 1 grants token:read but does not match: container /customers/43/ is not in /customers/4/',
    ],
    [
      'a session for one customer',
      session(policyOf([], rule([['container', 'starts_with', '/customers/42/']], [read]))),
      'rule 1 grants token:read but does not match: container /customers/43/ is not in /customers/42/',
    ],
    [
      'a session for one token',
      session(policyOf([], rule([['id', 'equals', 'card-42']], [read]))),
      'rule 1 grants token:read but does not match: id card-43 is not card-42',
    ],
    [
      'several failing conditions',
      session(
        policyOf(
          [],
          rule(
            [
              ['container', 'equals', '/customers/'],
              ['id', 'starts_with', 'iban-'],
            ],
            [read],
          ),
        ),
      ),
      'rule 1 grants token:read but does not match: container /customers/43/ is not /customers/ and id card-43 does not start with iban-',
    ],
    [
      'one failing condition, and another rule with more of them',
      session(
        policyOf(
          [],
          rule(
            [
              ['id', 'starts_with', 'iban-'],
              ['container', 'starts_with', '/pci/'],
            ],
            [read],
          ),
          rule([['id', 'starts_with', 'iban-'], ...inCustomers], [read], { priority: 2 }),
        ),
      ),
      'rule 2 grants token:read but does not match: id card-43 does not start with iban-',
    ],
    ['a session that is not authorized', session(policyOf([])), 'this session has not been authorized yet'],
    [
      'a resource without a container',
      application(policyOf([], rule('/invoices/', ['invoice:approve']))),
      'rule 1 grants invoice:approve but does not match: no container was given to compare with /invoices/',
      'invoice:approve',
      { id: 'invoice-7' },
    ],
    [
      'a resource without a container, and only rules with one',
      application(policyOf([], rule('/invoices/', ['invoice:approve']), rule('/a/', ['invoice:approve']))),
      'rule 1 grants invoice:approve but does not match: no container was given to compare with /invoices/',
      'invoice:approve',
      { id: 'invoice-7' },
    ],
    [
      'a resource without an id',
      session(policyOf([], rule([['id', 'starts_with', 'invoice-']], ['invoice:approve']))),
      'rule 1 grants invoice:approve but does not match: no id was given to compare with invoice-',
      'invoice:approve',
      { container: '/invoices/' },
    ],
    [
      'a custom permission',
      application(policyOf([], rule('/invoices/', ['invoice:read']))),
      'rule 1 matches but grants invoice:read, not invoice:approve',
      'invoice:approve',
      { container: '/Invoices/2026/' },
    ],
    [
      'a permission that does not apply to data',
      application(policyOf([read], rule('/', [read]))),
      'this application does not have application:read in its permissions or rules',
      'application:read',
      card,
    ],
    [
      'an authorizer with another container',
      session(policyOf([read]), policyOf([], rule('/customers/42/', [read]))),
      'this key is limited by its authorizer, whose rule 1 grants token:read but does not match: container /customers/43/ is not in /customers/42/',
    ],
    [
      'an authorizer whose rule has another permission',
      session(policyOf([read]), policyOf([], rule('/customers/', ['token:create']))),
      'this key is limited by its authorizer, whose rule 1 matches but grants token:create, not token:read',
    ],
    [
      'an authorizer without the permission',
      session(policyOf([read]), policyOf(['token:create'])),
      'this key is limited by its authorizer, which does not have token:read in its permissions or rules',
    ],
    [
      'a session and an authorizer without the permission',
      session(policyOf(['token:create']), policyOf(['token:create'])),
      'this session does not have token:read in its permissions or rules',
    ],
  ];

describe('a denial is explained by the smallest missing grant:', () => {
  test.each(denials)('%s', (_, asked, reason, permission = read, resource = card) => {
    const { missing, ...answer } = explain(asked, permission, resource);
    expect(answer).toEqual({ allowed: false, reason });
    expect(missing?.permission).toBe(permission);
  });
});

describe('missingReason explains a permission that is not granted on any resource:', () => {
  const notGranted = 'does not have token:read in its permissions or rules';
  test.each([
    [
      'an application with rules for other permissions',
      application(policyOf([], rule('/', ['token:create']))),
      `this application ${notGranted}`,
    ],
    ['an application without grants', application(policyOf([])), `this application ${notGranted}`],
    ['a session', session(policyOf(['token:create'])), `this session ${notGranted}`],
    [
      'a session with other permissions and rules',
      session(policyOf(['token:create'], rule(inCustomers, ['token:create']))),
      `this session ${notGranted}`,
    ],
    [
      'a session whose authorizer does not have it either',
      session(policyOf(['token:create']), policyOf(['token:create'])),
      `this session ${notGranted}`,
    ],
    [
      'a session whose authorizer does not have it any more',
      session(policyOf([], rule(inCustomers, [read])), policyOf(['token:create'])),
      'this key is limited to what its authorizer may do now',
    ],
    ['a session that is not authorized', session(policyOf([])), 'this session has not been authorized yet'],
  ])('%s', (_, asked, reason) => {
    expect(missingReason(asked, read)).toBe(reason);
  });
});

describe('the missing grant is returned as data:', () => {
  test.each<[string, string, Resource, object]>([
    ['on the container of the resource', read, card, { permission: read, container: '/customers/43/' }],
    ['without a container if none was given', read, { id: 'card-43' }, { permission: read }],
    [
      'without a container for a permission that does not apply to data',
      'log:read',
      card,
      { permission: 'log:read' },
    ],
  ])('%s', (_, permission, resource, missing) => {
    expect(explain(application(policyOf(['token:create'])), permission, resource).missing).toStrictEqual(
      missing as never,
    );
  });
});

test('a reason contains at most three conditions', () => {
  const conditions = Array.from(
    { length: 20 },
    (_, at): ConditionTuple => ['id', 'starts_with', `invoice-${at}`],
  );
  expect(explain(session(policyOf([], rule(conditions, [read]))), read, card).reason).toBe(
    'rule 1 grants token:read but does not match: id card-43 does not start with invoice-0 and id card-43 does not start with invoice-1 and id card-43 does not start with invoice-2 and 17 more',
  );
});

describe('an explanation that hides the authorizer', () => {
  const limited = 'this key is limited to what its authorizer may do now';
  const own = policyOf([], rule(inCustomers, [read], { transform: 'reveal' }));
  const hidden = (...above: Parameters<typeof policyOf>) => ({
    ...session(own, policyOf(...above)),
    hidesAuthorizer: true,
  });
  const [description, secret] = ['secret', '/secret/'];

  test.each([
    ['has no access elsewhere', hidden([], rule(secret, [read], { description }))],
    ['has another permission there', hidden([], rule('/', ['token:create'], { description }))],
    ['has no grants', hidden([])],
  ])('is the same denial if the authorizer %s', (_, asked) => {
    expect(explain(asked, read, card)).toStrictEqual({ allowed: false, reason: limited });
    expect(denialReason(asked, read, card)).toBe(limited);
    expect(trace(asked, read, card).map(({ of }) => of)).toEqual(['session', 'session']);
  });

  test('says that the authorizer limits the transform, without its rule', () => {
    const asked = hidden([], rule('/', [read], { transform: 'redact', description }));
    expect(explain(asked, read, card)).toStrictEqual({ allowed: true, transform: 'redact', reason: limited });
  });

  test('contains the rules of the session if they decide', () => {
    const asked = hidden([], rule('/', [read], { transform: 'reveal' }));
    expect(explain(asked, read, card)).toMatchObject({
      transform: 'reveal',
      rule: { of: 'session', rule: 1 },
    });
    expect(explain(asked, read, { container: '/pci/' }).missing).toEqual({
      permission: read,
      container: '/pci/',
    });
  });
});
