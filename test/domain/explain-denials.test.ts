/** Denials as people read them: each row is a set-up, a question, and the sentence that answers it. */
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
      'an Application without it',
      application(policyOf(['token:create'])),
      'this application does not have token:read in its permissions or rules',
    ],
    [
      'a rule for the container that grants something else',
      application(policyOf([], rule('/pci/', [read]), rule('/customers/', ['token:create']))),
      'rule 2 matches but grants token:create, not token:read',
    ],
    [
      'a wide and a narrow rule that match and grant something else: the narrow one is the smaller grant',
      application(policyOf([], rule('/', ['token:create']), rule('/customers/43/', ['token:update']))),
      'rule 2 matches but grants token:update, not token:read',
    ],
    [
      'a rule for everything that grants something else',
      application(policyOf([], rule(undefined, ['token:create', 'token:delete']))),
      'rule 1 matches but grants token:create, token:delete, not token:read',
    ],
    [
      'a rule that grants a great deal else',
      application(
        policyOf(
          [],
          rule('/', ['token:create', 'token:update', 'token:delete', 'invoice:read', 'invoice:pay']),
        ),
      ),
      'rule 1 matches but grants token:create, token:update, token:delete and 2 more, not token:read',
    ],
    [
      'a rule that grants three other things, all of which are named',
      application(policyOf([], rule('/', ['token:create', 'token:update', 'token:delete']))),
      'rule 1 matches but grants token:create, token:update, token:delete, not token:read',
    ],
    [
      'two rules that match and grant something else, of which the first by priority is named',
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
      'rules for other containers, of which the nearest is named',
      application(policyOf([], rule('/pci/', [read]), rule('/customers/42/', [read]))),
      'rule 2 grants token:read but does not match: container /customers/43/ is not in /customers/42/',
    ],
    [
      'rules for other containers, of which a nearer one grants something else',
      application(policyOf([], rule('/customers/42/', ['token:create']), rule('/pci/', [read]))),
      'rule 2 grants token:read but does not match: container /customers/43/ is not in /pci/',
    ],
    [
      'a rule for the container above alone, which is nearer than one for a neighbour',
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
      'rules for other ids, of which one has nothing in common',
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
      'a container that only begins alike',
      application(policyOf([], rule('/customers/4', [read]))),
      'rule 1 grants token:read but does not match: container /customers/43/ is not in /customers/4/',
    ],
    [
      'a Session for one customer',
      session(policyOf([], rule([['container', 'starts_with', '/customers/42/']], [read]))),
      'rule 1 grants token:read but does not match: container /customers/43/ is not in /customers/42/',
    ],
    [
      'a Session for one Token',
      session(policyOf([], rule([['id', 'equals', 'card-42']], [read]))),
      'rule 1 grants token:read but does not match: id card-43 is not card-42',
    ],
    [
      'conditions of which none holds',
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
      'conditions of which one does not hold, beside a rule that is farther off',
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
    [
      'a Session that nobody has authorized',
      session(policyOf([])),
      'this session has not been authorized yet',
    ],
    [
      'a resource without a container',
      application(policyOf([], rule('/invoices/', ['invoice:approve']))),
      'rule 1 grants invoice:approve but does not match: no container was given to compare with /invoices/',
      'invoice:approve',
      { id: 'invoice-7' },
    ],
    [
      'a resource without a container, where every rule asks for one',
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
      'a family of one’s own',
      application(policyOf([], rule('/invoices/', ['invoice:read']))),
      'rule 1 matches but grants invoice:read, not invoice:approve',
      'invoice:approve',
      { container: '/Invoices/2026/' },
    ],
    [
      'what is not about data',
      application(policyOf([read], rule('/', [read]))),
      'this application does not have application:read in its permissions or rules',
      'application:read',
      card,
    ],
    [
      'an authorizer that sees another container',
      session(policyOf([read]), policyOf([], rule('/customers/42/', [read]))),
      'this session is limited by its authorizer, whose rule 1 grants token:read but does not match: container /customers/43/ is not in /customers/42/',
    ],
    [
      'an authorizer whose rule grants something else',
      session(policyOf([read]), policyOf([], rule('/customers/', ['token:create']))),
      'this session is limited by its authorizer, whose rule 1 matches but grants token:create, not token:read',
    ],
    [
      'an authorizer that has lost it',
      session(policyOf([read]), policyOf(['token:create'])),
      'this session is limited by its authorizer, which does not have token:read in its permissions or rules',
    ],
    [
      'a Session that lacks it as well as its authorizer',
      session(policyOf(['token:create']), policyOf(['token:create'])),
      'this session does not have token:read in its permissions or rules',
    ],
  ];

describe('a denial names the smallest grant that is missing:', () => {
  test.each(denials)('%s', (_, asked, reason, permission = read, resource = card) => {
    const { missing, ...answer } = explain(asked, permission, resource);
    expect(answer).toEqual({ allowed: false, reason });
    expect(missing?.permission).toBe(permission);
  });
});

describe('whoever does not hold a permission at all hears whose it lacks:', () => {
  const nowhere = 'does not have token:read in its permissions or rules';
  test.each([
    [
      'an Application with rules for other things',
      application(policyOf([], rule('/', ['token:create']))),
      `this application ${nowhere}`,
    ],
    ['an Application with nothing', application(policyOf([])), `this application ${nowhere}`],
    ['a Session', session(policyOf(['token:create'])), `this session ${nowhere}`],
    [
      'a Session with a permission and a rule for other things',
      session(policyOf(['token:create'], rule(inCustomers, ['token:create']))),
      `this session ${nowhere}`,
    ],
    [
      'a Session under an authorizer that lacks it too',
      session(policyOf(['token:create']), policyOf(['token:create'])),
      `this session ${nowhere}`,
    ],
    [
      'a Session whose authorizer has lost it',
      session(policyOf([], rule(inCustomers, [read])), policyOf(['token:create'])),
      'this session is limited to what its authorizer may do now',
    ],
    [
      'a Session that nobody has authorized',
      session(policyOf([])),
      'this session has not been authorized yet',
    ],
  ])('%s', (_, asked, reason) => {
    expect(missingReason(asked, read)).toBe(reason);
  });
});

describe('the missing grant is data:', () => {
  test.each<[string, string, Resource, object]>([
    ['on the container of the resource', read, card, { permission: read, container: '/customers/43/' }],
    ['without a container if none was given', read, { id: 'card-43' }, { permission: read }],
    ['without a container if none narrows it', 'log:read', card, { permission: 'log:read' }],
  ])('%s', (_, permission, resource, missing) => {
    expect(explain(application(policyOf(['token:create'])), permission, resource).missing).toStrictEqual(
      missing as never,
    );
  });
});

test('a reason names at most three conditions', () => {
  const conditions = Array.from(
    { length: 20 },
    (_, at): ConditionTuple => ['id', 'starts_with', `invoice-${at}`],
  );
  expect(explain(session(policyOf([], rule(conditions, [read]))), read, card).reason).toBe(
    'rule 1 grants token:read but does not match: id card-43 does not start with invoice-0 and id card-43 does not start with invoice-1 and id card-43 does not start with invoice-2 and 17 more',
  );
});

describe('an answer that hides the authorizer', () => {
  const limited = 'this session is limited to what its authorizer may do now';
  const own = policyOf([], rule(inCustomers, [read], { transform: 'reveal' }));
  const hidden = (...above: Parameters<typeof policyOf>) => ({
    ...session(own, policyOf(...above)),
    hidesAuthorizer: true,
  });
  const [description, secret] = ['secret', '/secret/'];

  test.each([
    ['has no access elsewhere', hidden([], rule(secret, [read], { description }))],
    ['has another permission there', hidden([], rule('/', ['token:create'], { description }))],
    ['has nothing', hidden([])],
  ])('is the same denial whether it %s', (_, asked) => {
    expect(explain(asked, read, card)).toStrictEqual({ allowed: false, reason: limited });
    expect(denialReason(asked, read, card)).toBe(limited);
    expect(trace(asked, read, card).map(({ of }) => of)).toEqual(['session', 'session']);
  });

  test('says that it narrows the view, and by no rule', () => {
    const asked = hidden([], rule('/', [read], { transform: 'redact', description }));
    expect(explain(asked, read, card)).toStrictEqual({ allowed: true, transform: 'redact', reason: limited });
  });

  test('explains by the rules of the session where those decide', () => {
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
