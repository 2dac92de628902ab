/** Where a permission may be used at all. That it agrees with each decision, proof.test.ts shows. */
import { describe, expect, test } from 'bun:test';
import type { Grants } from '../../src/domain/grant.ts';
import { compilePolicy } from '../../src/domain/policy.ts';
import { intersect, type Scope } from '../../src/domain/scope.ts';
import { visible } from '../../src/domain/visible-scopes.ts';
import { grants, when } from '../support/grants.ts';

const within = (value: string) => ({ value, exact: false });
const exactly = (value: string) => ({ value, exact: true });
const seen = (own: Grants, above?: Grants) =>
  visible({ policy: compilePolicy(own), ceiling: above && compilePolicy(above) }, 'token:read');
const exact = (scopes: Scope[]) => ({ scopes, exact: true });

const pci = { container: '/pci/' };
const high = { container: '/PCI/high' };
const everywhere: Scope[] = [{}];

describe('what is visible', () => {
  test.each<[string, Grants, Scope[]]>([
    ['is nothing without a grant', grants(), []],
    ['is nothing by a grant of something else', grants('token:create'), []],
    ['is nothing by a rule for something else', grants({ ...pci, permissions: ['token:create'] }), []],
    ['is everything by a plain permission', grants('token:read', pci), everywhere],
    ['is everything by a rule without a container', grants({}), everywhere],
    ['is everything by a rule on the root', grants({ container: '/' }, pci), everywhere],
    ['is a container and below', grants(pci), [{ container: within('/pci/') }]],
    ['is given by the wider of two rules', grants(high, pci), [{ container: within('/pci/') }]],
    [
      'is given once by two rules alike, in the place of the first',
      grants(pci, { container: '/a/', priority: 2 }, { ...pci, priority: 3 }),
      [{ container: within('/pci/') }, { container: within('/a/') }],
    ],
    [
      'lies in several containers',
      grants(pci, { container: '/a/' }),
      [{ container: within('/pci/') }, { container: within('/a/') }],
    ],
    ['is one id', grants(when(['id', 'equals', 'card-1'])), [{ id: exactly('card-1') }]],
    [
      'is one id in a container, and that container alone',
      grants(when(['id', 'starts_with', 'c'], ['container', 'equals', '/pci/'], ['id', 'equals', 'card'])),
      [{ id: exactly('card'), container: exactly('/pci/') }],
    ],
    [
      'is nothing where conditions exclude each other',
      grants(when(['id', 'equals', 'a'], ['id', 'equals', 'b'])),
      [],
    ],
    [
      'is nothing where an id does not start as it must',
      grants(when(['id', 'equals', 'a'], ['id', 'starts_with', 'ab'])),
      [],
    ],
    [
      'of a rule with nothing left does not hide that of another',
      grants(
        when(['container', 'equals', '/a/'], ['container', 'starts_with', '/b/']),
        when(['id', 'equals', 'x']),
      ),
      [{ id: exactly('x') }],
    ],
    [
      'may overlap, where neither contains the other',
      grants(when(['id', 'starts_with', 'c']), when(['container', 'starts_with', '/pci/'])),
      [{ id: within('c') }, { container: within('/pci/') }],
    ],
    [
      'is given by the shorter start of an id',
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
    ['is what the ceiling leaves', grants('token:read'), grants(pci), [{ container: within('/pci/') }]],
    ['is what the Session was granted', grants(pci), grants('token:read'), [{ container: within('/pci/') }]],
    ['is nothing where the two lie apart', grants(pci), grants({ container: '/a/' }), []],
    ['is nothing below an authorizer that sees nothing', grants(pci), grants(), []],
    ['is nothing for a Session that was granted nothing', grants(), grants(pci), []],
    [
      'is bounded by both',
      grants(when(['id', 'starts_with', 'c'])),
      grants(pci),
      [{ id: within('c'), container: within('/pci/') }],
    ],
    [
      'is the narrower of the two, whichever has it',
      grants(when(['container', 'starts_with', '/pci/']), when(['container', 'equals', '/a/b/'])),
      grants(high, { container: '/a/' }),
      [{ container: within('/pci/high/') }, { container: exactly('/a/b/') }],
    ],
  ])('under a ceiling %s', (_, own, above, scopes) => {
    expect(seen(own, above)).toEqual(exact(scopes));
  });

  test('under a ceiling with too many common parts is looked for on the smaller side', () => {
    const starts = Array.from({ length: 11 }, (_, n) => when(['id', 'starts_with', `${n % 10}${n}`]));
    const above = Array.from({ length: 10 }, (_, n) => ({ container: `/c${n}/` }));
    const { scopes, exact } = seen(grants(...starts), grants(...above));
    expect([scopes.length, exact]).toEqual([10, false]);
    expect(scopes[0]).toEqual({ container: within('/c0/') });
  });
});

describe('two scopes meet', () => {
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

test('however many conditions a rule has, a decision makes at most two comparisons for it', () => {
  const conditions = Array.from({ length: 20 }, (_, n) =>
    n % 2
      ? (['id', 'starts_with', 'card-'.slice(0, 1 + (n % 5))] as const)
      : (['container', 'starts_with', `/a/${'b/'.repeat(n / 2)}`] as const),
  );
  const never = when(['id', 'equals', 'a'], ['id', 'equals', 'b']);
  const policy = compilePolicy(grants(...Array.from({ length: 49 }, () => when(...conditions)), never));
  const steps = policy.byPermission.get('token:read')?.steps ?? [];
  expect(steps.map(({ tests }) => tests.length)).toEqual(Array(49).fill(2));
});
