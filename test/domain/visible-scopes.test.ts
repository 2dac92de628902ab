/** The scopes in which a permission is granted. proof.test.ts compares them with single decisions. */
import { describe, expect, test } from 'bun:test';
import type { Grants } from '../../src/domain/grant.ts';
import { compilePolicy } from '../../src/domain/policy.ts';
import { intersect, type Scope } from '../../src/domain/scope.ts';
import { within as limitTo, visible } from '../../src/domain/visible-scopes.ts';
import { grants, when } from '../support/grants.ts';

const within = (value: string) => ({ value, exact: false });
const exactly = (value: string) => ({ value, exact: true });
const seen = (own: Grants, above?: Grants) =>
  visible({ policy: compilePolicy(own), ceiling: above && compilePolicy(above) }, 'token:read');
const exact = (scopes: Scope[]) => ({ scopes, exact: true });

const pci = { container: '/pci/' };
const high = { container: '/PCI/high' };
const everywhere: Scope[] = [{}];

describe('visible scopes', () => {
  test.each<[string, Grants, Scope[]]>([
    ['none without a grant', grants(), []],
    ['none for another permission', grants('token:create'), []],
    ['none for a rule with another permission', grants({ ...pci, permissions: ['token:create'] }), []],
    ['everything for a permission without a rule', grants('token:read', pci), everywhere],
    ['everything for a rule without a container', grants({}), everywhere],
    ['everything for a rule on the root', grants({ container: '/' }, pci), everywhere],
    ['a container and those below', grants(pci), [{ container: within('/pci/') }]],
    ['the wider of two nested rules', grants(high, pci), [{ container: within('/pci/') }]],
    [
      'one scope for two equal rules',
      grants(pci, { container: '/a/', priority: 2 }, { ...pci, priority: 3 }),
      [{ container: within('/pci/') }, { container: within('/a/') }],
    ],
    [
      'several containers',
      grants(pci, { container: '/a/' }),
      [{ container: within('/pci/') }, { container: within('/a/') }],
    ],
    ['one id', grants(when(['id', 'equals', 'card-1'])), [{ id: exactly('card-1') }]],
    [
      'one id in exactly one container',
      grants(when(['id', 'starts_with', 'c'], ['container', 'equals', '/pci/'], ['id', 'equals', 'card'])),
      [{ id: exactly('card'), container: exactly('/pci/') }],
    ],
    ['none for contradicting conditions', grants(when(['id', 'equals', 'a'], ['id', 'equals', 'b'])), []],
    [
      'none for an id without the required prefix',
      grants(when(['id', 'equals', 'a'], ['id', 'starts_with', 'ab'])),
      [],
    ],
    [
      'a rule without resources does not hide another rule',
      grants(
        when(['container', 'equals', '/a/'], ['container', 'starts_with', '/b/']),
        when(['id', 'equals', 'x']),
      ),
      [{ id: exactly('x') }],
    ],
    [
      'overlapping scopes',
      grants(when(['id', 'starts_with', 'c']), when(['container', 'starts_with', '/pci/'])),
      [{ id: within('c') }, { container: within('/pci/') }],
    ],
    [
      'the shorter prefix of an id',
      grants(
        when(['id', 'starts_with', 'card-']),
        when(['id', 'starts_with', 'c']),
        when(['id', 'equals', 'cd']),
      ),
      [{ id: within('c') }],
    ],
  ])('%s', (_, own, scopes) => {
    expect(seen(own)).toEqual(exact(scopes));
  });

  test.each<[string, Grants, Grants, Scope[]]>([
    ['the scopes of the ceiling', grants('token:read'), grants(pci), [{ container: within('/pci/') }]],
    ['the scopes of the session', grants(pci), grants('token:read'), [{ container: within('/pci/') }]],
    ['none if the two do not overlap', grants(pci), grants({ container: '/a/' }), []],
    ['none if the authorizer has no access', grants(pci), grants(), []],
    ['none if the session has no grants', grants(), grants(pci), []],
    [
      'the intersection of both',
      grants(when(['id', 'starts_with', 'c'])),
      grants(pci),
      [{ id: within('c'), container: within('/pci/') }],
    ],
    [
      'the narrower of the two for each attribute',
      grants(when(['container', 'starts_with', '/pci/']), when(['container', 'equals', '/a/b/'])),
      grants(high, { container: '/a/' }),
      [{ container: within('/pci/high/') }, { container: exactly('/a/b/') }],
    ],
  ])('with a ceiling: %s', (_, own, above, scopes) => {
    expect(seen(own, above)).toEqual(exact(scopes));
  });

  const ids = (count: number) => Array.from({ length: count }, (_, n) => when(['id', 'equals', `card-${n}`]));
  const containers = (count: number) => Array.from({ length: count }, (_, n) => ({ container: `/c${n}/` }));
  const both = { id: exactly('card-0'), container: within('/c0/') };

  test.each<[own: number, above: number, count: number, isExact: boolean, first: Scope]>([
    [10, 10, 100, true, both],
    [10, 11, 10, false, { id: exactly('card-0') }],
    [11, 10, 10, false, { container: within('/c0/') }],
    [11, 11, 11, false, { id: exactly('card-0') }],
  ])(
    'for %d rules under a ceiling with %d: %d scopes, exact: %p',
    (ownCount, aboveCount, count, isExact, first) => {
      const { scopes, exact } = seen(grants(...ids(ownCount)), grants(...containers(aboveCount)));
      expect([scopes.length, exact, scopes[0]]).toEqual([count, isExact, first]);
    },
  );
});

describe.each([true, false])('scopes limited to a container, exact: %p', (exact) => {
  test.each<[string, Scope[], Scope[]]>([
    ['/', [{}, { id: exactly('a') }], [{}, { id: exactly('a') }]],
    ['/a/', [], []],
    ['/a/', [{}], [{ container: within('/a/') }]],
    ['/a/', [{ id: exactly('x') }], [{ id: exactly('x'), container: within('/a/') }]],
    ['/a/', [{ container: within('/') }], [{ container: within('/a/') }]],
    [
      '/a/',
      [{ container: within('/b/') }, { container: within('/a/b/') }, { container: exactly('/a/') }],
      [{ container: within('/a/b/') }, { container: exactly('/a/') }],
    ],
  ])('%s: %j becomes %j', (container, scopes, expected) => {
    expect(limitTo({ scopes, exact }, container)).toEqual({ scopes: expected, exact });
  });
});

describe('scopes intersect:', () => {
  test.each<[Scope, Scope, Scope | undefined]>([
    [{}, {}, {}],
    [{}, { id: within('a') }, { id: within('a') }],
    [{ id: within('a') }, {}, { id: within('a') }],
    [{ id: within('a') }, { id: within('ab') }, { id: within('ab') }],
    [{ id: exactly('ab') }, { id: within('a') }, { id: exactly('ab') }],
    [{ id: exactly('ab') }, { id: exactly('ab') }, { id: exactly('ab') }],
    [{ id: exactly('ab') }, { id: exactly('a') }, undefined],
    [{ id: exactly('a') }, { id: within('ab') }, undefined],
    [{ id: within('a') }, { id: within('b') }, undefined],
    [{ id: within('a') }, { container: within('/a/') }, { id: within('a'), container: within('/a/') }],
    [{ id: within('a'), container: within('/a/') }, { container: within('/b/') }, undefined],
    [{ id: within('a'), container: within('/a/') }, { id: within('b') }, undefined],
  ])('%j and %j in %j', (a, b, both) => {
    expect(intersect(a, b)).toEqual(both);
    expect(intersect(b, a)).toEqual(both);
  });
});

test('a decision makes at most two comparisons for a rule with any number of conditions', () => {
  const conditions = Array.from({ length: 20 }, (_, n) =>
    n % 2
      ? (['id', 'starts_with', 'card-'.slice(0, 1 + (n % 5))] as const)
      : (['container', 'starts_with', `/a/${'b/'.repeat(n / 2)}`] as const),
  );
  const never = when(['id', 'equals', 'a'], ['id', 'equals', 'b']);
  const policy = compilePolicy(grants(...Array.from({ length: 49 }, () => when(...conditions)), never));
  const steps = policy.stepsFor('token:read');
  expect(steps.map(({ conditions }) => conditions.length)).toEqual(Array(49).fill(2));
});
