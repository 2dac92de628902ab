/** The largest change of a session when the grants of its application change. */
import { describe, expect, test } from 'bun:test';
import { type Access, sessionChange } from '../../src/domain/access/change.ts';
import type { Grants } from '../../src/domain/grant.ts';
import { compilePolicy } from '../../src/domain/policy.ts';
import type { Rule, Transform } from '../../src/domain/rule.ts';
import { runSteps } from '../../src/domain/steps.ts';
import { grants, when } from '../support/grants.ts';

function changeOf(session: Grants, before: Grants, after: Grants, permissions = ['token:read']) {
  return runSteps(sessionChange(session, compilePolicy(before), compilePolicy(after), new Set(permissions)));
}

/** Grants of an application: the transform of `token:read` in each container. */
function application(transforms: Record<string, Transform>): Grants {
  return grants(...Object.entries(transforms).map(([container, transform]) => ({ container, transform })));
}

/** Reveals everything, so that the application alone decides. */
const everything = grants(when(['container', 'starts_with', '/']));

describe('the largest change of a session is', () => {
  type Containers = Record<string, Transform>;
  test.each<[string, Containers, Containers, [string, Access, Access]]>([
    ['the first, if it is larger', { a: 'reveal', b: 'mask' }, {}, ['/a/', 'reveal', 'denied']],
    ['the last, if it is larger', { a: 'mask', b: 'reveal' }, {}, ['/b/', 'reveal', 'denied']],
    [
      'the first of two equal ones',
      { a: 'reveal', b: 'reveal' },
      { a: 'mask', b: 'mask' },
      ['/a/', 'reveal', 'mask'],
    ],
    [
      'two transforms less, rather than no access instead of redacted data',
      { a: 'redact', b: 'reveal' },
      { b: 'redact' },
      ['/b/', 'reveal', 'redact'],
    ],
    ['more access, too', { a: 'reveal' }, { a: 'mask', b: 'mask' }, ['/b/', 'denied', 'mask']],
  ])('%s', (_, before, after, [container, from, to]) => {
    expect(changeOf(everything, application(before), application(after))).toEqual({
      largest: { permission: 'token:read', container, from, to },
      complete: true,
    });
  });

  test.each<[string, Grants, Grants, Grants]>([
    [
      'the session has no access to the container',
      grants(when(['container', 'starts_with', '/b/'])),
      application({ a: 'reveal', b: 'mask' }),
      application({ a: 'mask', b: 'mask' }),
    ],
    [
      'the session is stricter than both',
      grants('token:read'),
      application({ a: 'reveal' }),
      application({ a: 'mask' }),
    ],
  ])('nothing if %s', (_, session, before, after) => {
    expect(changeOf(session, before, after)).toEqual({ largest: undefined, complete: true });
  });
});

describe('a permission that returns no data', () => {
  const using = (permission: string, transform: Transform) =>
    grants({ container: '/cards/', permissions: [permission], transform });
  const session = (permission: string) =>
    grants({ ...when(['container', 'starts_with', '/']), permissions: [permission] });

  test.each(['decision:create', 'token:delete'])('%s does not change with its transform', (permission) => {
    const [before, after] = [using(permission, 'reveal'), using(permission, 'redact')];
    expect(changeOf(session(permission), before, after, [permission]).largest).toBeUndefined();
  });

  test.each([
    ['token:delete', { container: '/cards/' }],
    ['decision:create', {}],
  ])('%s changes if it is removed, with a container only if it applies to one', (permission, scope) => {
    const { largest } = changeOf(session(permission), using(permission, 'mask'), grants(), [permission]);
    expect(largest).toStrictEqual({ permission, ...scope, from: 'mask', to: 'denied' });
  });
});

describe('a change is found', () => {
  const all = application({ cards: 'reveal' });
  const largest = { permission: 'token:read', container: '/cards/', from: 'mask', to: 'denied' } as const;

  test.each<[string, Partial<Rule>]>([
    ['below a container with another rule', when(['container', 'equals', '/cards/'])],
    ['for ids that no rule names', when(['id', 'equals', 'card-1'])],
    ['for ids that start differently', when(['id', 'starts_with', 'card-'])],
  ])('%s', (_, redacted) => {
    const session = grants('token:read', { ...redacted, transform: 'redact' });
    expect(changeOf(session, all, grants()).largest).toEqual(largest);
  });

  test.each<[string, Partial<Rule>]>([
    ['for an id', when(['id', 'equals', 'card-1'])],
    ['for ids with the same start', when(['id', 'starts_with', 'card-'])],
  ])('%s', (_, masked) => {
    expect(changeOf(grants({ ...masked, transform: 'mask' }), all, grants()).largest).toEqual(largest);
  });

  test('for longer ids, if the start itself has another rule', () => {
    const session = grants(
      { ...when(['id', 'equals', 'card-1']), transform: 'redact' },
      { ...when(['id', 'starts_with', 'card-1']), transform: 'mask', priority: 2 },
    );
    expect(changeOf(session, all, grants()).largest).toEqual(largest);
  });
});

describe('at most 4,000 resources are compared', () => {
  // 50 ids (49 and any other), 40 containers (39 and the root), in the container and below it: 4,000 resources.
  const ids = Array.from({ length: 48 }, (_, n) => when(['id', 'equals', `card-${n}`]));
  const inContainer = when(['id', 'equals', 'card-48'], ['container', 'starts_with', '/c0/']);
  const containers = Array.from({ length: 39 }, (_, n) => [`/c${n}/`, 'mask'] as const);
  const before = application(Object.fromEntries(containers));
  const after = application({});
  const read = { permission: 'token:read', container: '/c0/', from: 'mask', to: 'denied' } as const;

  // Has no conditions to tell resources apart: two more resources.
  const invoices = { ...when(['container', 'starts_with', '/']), permissions: ['invoice:read'] };
  const revealInvoices = { container: '/', permissions: ['invoice:read'] };
  const withInvoices = { ...before, rules: [...before.rules, ...grants(revealInvoices).rules] };
  const updates = { ...when(['id', 'equals', 'card-49']), permissions: ['token:update'] };
  const session = grants(...ids, inContainer, updates, invoices);

  test('4,000 are compared completely; permissions that do not change do not count', () => {
    expect(changeOf(session, withInvoices, after)).toEqual({ largest: read, complete: true });
  });

  test('with more, the comparison stops with the largest change so far', () => {
    const both = ['token:read', 'invoice:read'];
    expect(changeOf(session, withInvoices, after, both)).toEqual({ largest: read, complete: false });
    const invoice = { permission: 'invoice:read', container: '/', from: 'reveal', to: 'denied' } as const;
    expect(changeOf(session, withInvoices, after, ['invoice:read'])).toEqual({
      largest: invoice,
      complete: true,
    });
  });
});
