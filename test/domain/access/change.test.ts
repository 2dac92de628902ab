/** The changes between two policies agree with their decisions about every resource. */
import { describe, expect, test } from 'bun:test';
import {
  Access,
  type AccessChange,
  accessChanges,
  accessOf,
  compareAccess,
  isChange,
  namedContainers,
  nearestAbove,
  sessionChange,
} from '../../../src/domain/access/change.ts';
import { hasTrait } from '../../../src/domain/permission.ts';
import { compilePolicy, type Policy } from '../../../src/domain/policy.ts';
import { canonicalContainer } from '../../../src/domain/rule.ts';
import { runSteps } from '../../../src/domain/steps.ts';
import { grants, when } from '../../support/grants.ts';
import { Random, randomContainer, randomGrants } from '../../support/random-policy.ts';

const permissions = ['token:read', 'token:update', 'invoice:read', 'decision:create', 'application:read'];
const scoped = permissions.filter((permission) => hasTrait(permission, 'scoped'));

/** The listed changes of the permission in the container and in all containers above it. */
function listed(changes: readonly AccessChange[], permission: string, container: string) {
  const own = changes.filter((change) => change.permission === permission);
  if (!hasTrait(permission, 'scoped')) return own;
  const above = own.filter((change) => container.startsWith(change.container as string));
  return above;
}

test('every decision that changes is in the list, with the same decisions before and after', () => {
  const random = new Random(1);
  let changed = 0;
  for (let round = 0; round < 1500; round++) {
    const [before, after] = [randomGrants(random, 'application'), randomGrants(random, 'application')];
    if (random.chance(0.5)) after.rules.push(...before.rules);
    const policies = [compilePolicy(before), compilePolicy(after)] as const;
    const changes = runSteps(accessChanges(...policies));
    for (const { from, to } of changes) expect(from).not.toBe(to);
    for (const permission of permissions) {
      const container = canonicalContainer(randomContainer(random));
      const [from, to] = policies.map((policy) => accessOf(policy, undefined, permission, { container }));
      const found = listed(changes, permission, container).filter(
        (change) => change.from === from && change.to === to,
      );
      const isAllowed = [from, to].map((access) => access !== 'denied');
      if (hasTrait(permission, 'scoped') ? from === to : isAllowed[0] === isAllowed[1]) continue;
      changed++;
      expect([permission, container, found.length > 0]).toEqual([permission, container, true]);
    }
  }
  expect(changed).toBeGreaterThan(500);
});

test('equal policies have no changes, and the order of rules does not matter', () => {
  const random = new Random(2);
  for (let round = 0; round < 300; round++) {
    const grants = randomGrants(random, 'application');
    const shuffled = { ...grants, rules: random.shuffled(grants.rules) };
    expect(runSteps(accessChanges(compilePolicy(grants), compilePolicy(shuffled)))).toEqual([]);
  }
});

const ids = ['card-1', 'card-10', 'card-', 'Card-1', 'card', 'tok:1.a', 'a-b', 'x'];

/** Whether a session with `policy` gets other decisions under `after` than under `before`, for random resources. */
function differs(random: Random, policy: Policy, before: Policy, after: Policy): boolean {
  for (let tries = 0; tries < 200; tries++) {
    const resource = { id: random.of(ids), container: randomContainer(random) };
    for (const permission of scoped)
      if (accessOf(policy, before, permission, resource) !== accessOf(policy, after, permission, resource))
        return true;
  }
  return false;
}

test('finds every session whose access changes with its ceiling, and its largest change', () => {
  const random = new Random(3);
  let [affected, unaffected] = [0, 0];
  for (let round = 0; round < 400; round++) {
    const grants = randomGrants(random, 'session');
    const before = compilePolicy(randomGrants(random, 'application'));
    const after = compilePolicy(randomGrants(random, 'application'));
    const changed = new Set(runSteps(accessChanges(before, after)).map(({ permission }) => permission));
    const { largest, complete } = runSteps(sessionChange(grants, before, after, changed));
    expect(complete).toBe(true);
    if (!largest) {
      expect(differs(random, compilePolicy(grants), before, after)).toBe(false);
      unaffected++;
      continue;
    }
    affected++;
    expect(largest.from).not.toBe(largest.to);
  }
  expect([affected, unaffected].every((count) => count > 50)).toBe(true);
});

test('a change that equals the change of the container above is left out', () => {
  const rule = (container: string, transform: 'reveal' | 'mask') => ({
    priority: 1,
    container,
    transform,
    permissions: ['token:read'],
    description: undefined,
    conditions: undefined,
  });
  const policy = (...rules: ReturnType<typeof rule>[]) => compilePolicy({ permissions: [], rules });
  const before = policy(rule('/cards/', 'reveal'), rule('/cards/old/', 'reveal'));
  const after = policy(rule('/cards/', 'mask'), rule('/cards/old/', 'mask'));
  expect(runSteps(accessChanges(before, after))).toEqual([
    { permission: 'token:read', container: '/cards/', from: 'reveal', to: 'mask' },
  ]);
  expect(nearestAbove('/cards/old/', new Map([['/', 1]]))).toBe(1);
});

test('a decision is one of four, from no access to all of the data', () => {
  const decisions: Access[] = ['reveal', 'redact', 'denied', 'mask'];
  expect(decisions.sort(compareAccess)).toEqual(['denied', 'redact', 'mask', 'reveal']);
  for (const decision of decisions) expect(Access.parse(decision)).toBe(decision);
  expect(Access.safeParse('').success).toBe(false);
});

describe('another decision is a change', () => {
  test.each<[string, Access, Access, boolean]>([
    ['token:read', 'mask', 'mask', false],
    ['token:read', 'mask', 'reveal', true],
    ['token:update', 'mask', 'redact', true],
    ['invoice:read', 'redact', 'reveal', true],
    ['token:read', 'denied', 'redact', true],
    ['token:delete', 'mask', 'reveal', false],
    ['token:delete', 'mask', 'denied', true],
    ['decision:create', 'reveal', 'redact', false],
    ['decision:create', 'denied', 'denied', false],
    ['decision:create', 'denied', 'reveal', true],
  ])('of %s from %s to %s: %p', (permission, from, to, expected) => {
    expect(isChange(permission, from, to)).toBe(expected);
  });
});

describe('changes are listed', () => {
  test('by permission, without a container if the permission has none', () => {
    const before = compilePolicy(grants('token:update', 'decision:create', 'tenant:read'));
    const after = compilePolicy(grants('token:read', 'application:read', 'tenant:read'));
    expect(runSteps(accessChanges(before, after))).toStrictEqual([
      { permission: 'application:read', from: 'denied', to: 'mask' },
      { permission: 'decision:create', from: 'mask', to: 'denied' },
      { permission: 'token:read', container: '/', from: 'denied', to: 'mask' },
      { permission: 'token:update', container: '/', from: 'mask', to: 'denied' },
    ]);
  });

  test('with the containers above first, then alphabetically, for every order of the rules', () => {
    const rules = ['/b/', '/b/d/', '/a/', '/c/', '/cards/'].map((container) => ({ container }));
    for (const order of [rules, rules.toReversed()]) {
      const changes = runSteps(accessChanges(compilePolicy(grants()), compilePolicy(grants(...order))));
      expect(changes.map(({ container }) => container)).toEqual(['/a/', '/b/', '/c/', '/cards/']);
    }
  });
});

test('the containers of a permission are those of its rules, and the root', () => {
  const application = compilePolicy(
    grants({ container: 'Cards' }, { container: '/invoices/', permissions: ['invoice:read'] }),
  );
  const session = compilePolicy(
    grants(when(['id', 'equals', 'card-1'], ['container', 'equals', '/cards/old/']), {
      container: '/cards/',
    }),
  );
  expect(namedContainers([application, session], 'token:read')).toEqual(['/', '/cards/', '/cards/old/']);
  expect(namedContainers([application, session], 'invoice:read')).toEqual(['/', '/invoices/']);
  expect(namedContainers([application, session], 'token:update')).toEqual(['/']);
});
