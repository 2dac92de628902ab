/** Proposals cover every use, and never grant more than the current rules. */
import { expect, test } from 'bun:test';
import { adviceFor, RankedGrant } from '../../../src/domain/access/advice.ts';
import { accessOf, compareAccess } from '../../../src/domain/access/change.ts';
import { compilePolicy } from '../../../src/domain/policy.ts';
import { canonicalContainer, type Rule } from '../../../src/domain/rule.ts';
import { runSteps } from '../../../src/domain/steps.ts';
import { Random, randomContainer, randomGrants } from '../../support/random-policy.ts';

const rule = (
  container: string,
  transform: Rule['transform'],
  permissions: string[],
  priority = 1,
): Rule => ({
  description: undefined,
  conditions: undefined,
  priority,
  container,
  transform,
  permissions,
});

const permissions = ['token:read', 'token:update', 'invoice:read', 'decision:create', 'application:read'];

test('random proposals cover all uses and widen nothing', () => {
  const random = new Random(7);
  let proposals = 0;
  for (let round = 0; round < 800; round++) {
    const grants = randomGrants(random, 'application');
    const policy = compilePolicy(grants);
    const uses = random
      .some(random.below(6), () => ({
        permission: random.of(permissions),
        container: canonicalContainer(randomContainer(random)),
      }))
      .filter(
        ({ permission, container }) => accessOf(policy, undefined, permission, { container }) !== 'denied',
      );
    const { proposal } = runSteps(adviceFor(grants, uses));
    if (!proposal) continue;
    proposals++;
    const smaller = compilePolicy(proposal);
    for (const { permission, container } of uses)
      expect(accessOf(smaller, undefined, permission, { container })).toBe(
        accessOf(policy, undefined, permission, { container }),
      );
    for (let tries = 0; tries < 20; tries++) {
      const [permission, container] = [random.of(permissions), randomContainer(random)];
      const [before, after] = [policy, smaller].map((one) =>
        accessOf(one, undefined, permission, { container }),
      );
      expect(compareAccess(after!, before!)).toBeLessThanOrEqual(0);
    }
  }
  expect(proposals).toBeGreaterThan(200);
});

test('narrows rules to the containers of their uses, and ranks unused grants by risk', () => {
  const grants = {
    permissions: ['log:read', 'decision:create'],
    rules: [rule('/', 'reveal', ['token:read', 'token:delete']), rule('/old/', 'mask', ['invoice:read'])],
  };
  const uses = [
    { permission: 'token:read', container: '/cards/1/' },
    { permission: 'token:read', container: '/cards/2/' },
    { permission: 'decision:create', container: '/' },
  ];
  const { unused, proposal } = runSteps(adviceFor(grants, uses));
  expect(proposal).toEqual({
    permissions: ['decision:create'],
    rules: [rule('/cards/', 'reveal', ['token:read'])],
  });
  expect(unused.map(({ risk, permission }) => `${risk} ${permission}`)).toEqual([
    'management log:read',
    'change token:delete',
    'mask invoice:read',
  ]);
});

test('does not remove an unused rule that restricts another one', () => {
  const grants = {
    permissions: [],
    rules: [rule('/pci/', 'redact', ['token:read']), rule('/', 'reveal', ['token:read'], 2)],
  };
  expect(
    runSteps(adviceFor(grants, [{ permission: 'token:read', container: '/' }])).proposal,
  ).toBeUndefined();
});

test('proposes nothing without recorded uses', () => {
  const grants = { permissions: ['token:read'], rules: [] };
  const { unused, proposal } = runSteps(adviceFor(grants, []));
  expect([unused.length, proposal]).toEqual([1, undefined]);
});

test.each<[string, Rule['transform'], RankedGrant['risk']]>([
  ['application:update', 'redact', 'management'],
  ['access:review', 'reveal', 'management'],
  ['token:create', 'redact', 'change'],
  ['token:update', 'mask', 'change'],
  ['token:delete', 'reveal', 'change'],
  ['token:read', 'reveal', 'reveal'],
  ['token:read', 'mask', 'mask'],
  ['token:read', 'redact', 'redact'],
  ['invoice:update', 'reveal', 'reveal'],
  ['vault:token:delete', 'mask', 'mask'],
  ['decision:create', 'redact', 'redact'],
])('%s with the transform %s has the risk %s', (permission, transform, risk) => {
  const { unused } = runSteps(
    adviceFor({ permissions: [], rules: [rule('Cards', transform, [permission])] }, []),
  );
  expect(unused).toEqual([{ rule: 1, permission, container: '/cards/', transform, risk }]);
});

test('lists the highest risk first, with the number and transform of each rule', () => {
  const grants = {
    permissions: ['decision:create'],
    rules: [
      rule('/a/', 'redact', ['token:read']),
      rule('/b/', 'mask', ['token:read', 'token:update']),
      rule('/c/', 'reveal', ['token:read', 'log:read']),
    ],
  };
  const grant = (rule: number, permission: string, container: string) => ({ rule, permission, container });
  expect(runSteps(adviceFor(grants, [])).unused).toEqual([
    { ...grant(3, 'log:read', '/c/'), transform: 'reveal', risk: 'management' },
    { ...grant(3, 'token:read', '/c/'), transform: 'reveal', risk: 'reveal' },
    { ...grant(2, 'token:update', '/b/'), transform: 'mask', risk: 'change' },
    { rule: 'permissions', permission: 'decision:create', container: '/', transform: 'mask', risk: 'mask' },
    { ...grant(2, 'token:read', '/b/'), transform: 'mask', risk: 'mask' },
    { ...grant(1, 'token:read', '/a/'), transform: 'redact', risk: 'redact' },
  ]);
});

test('RankedGrant has the transform and the risk of a grant', () => {
  const grant = { rule: 1, permission: 'a:b', container: '/', transform: 'mask', risk: 'mask' };
  expect(RankedGrant.parse(grant) as object).toEqual(grant);
  for (const field of Object.keys(grant))
    for (const value of [undefined, {}])
      expect(RankedGrant.safeParse({ ...grant, [field]: value }).success).toBe(false);
});
