import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { compilePolicy } from '../../src/domain/policy.ts';
import { runSteps } from '../../src/domain/steps.ts';
import { boundedUses, mergeContainers, UnusedGrant, Use, unusedGrants } from '../../src/domain/usage.ts';
import { grants } from '../support/grants.ts';

const times = (...containers: string[]) => new Map(containers.map((container, at) => [container, at + 1]));
const below = (parent: string, count: number) => Array.from({ length: count }, (_, at) => `${parent}${at}/`);

describe('mergeContainers', () => {
  test('does not change uses within the limit', () => {
    const few = times('/', '/a/', '/a/b/');
    expect(mergeContainers(few, 3)).toEqual(few);
  });

  test('merges only containers with many siblings', () => {
    const many = times('/pci/high/', ...below('/customers/', 30), '/general/');
    expect(mergeContainers(many, 10)).toEqual(
      new Map([
        ['/pci/high/', 1],
        ['/customers/', 31],
        ['/general/', 32],
      ]),
    );
  });

  test('merges the largest group of siblings first, and no more than needed', () => {
    const alone = below('/pci/', 3);
    const many = times(...below('/customers/', 10), ...alone);
    expect([...mergeContainers(many, 5).keys()]).toEqual(['/customers/', ...alone]);
  });

  test('merges into the root as a last resort', () => {
    expect(mergeContainers(times('/a/', '/b/', '/c/d/e/'), 1)).toEqual(new Map([['/', 3]]));
  });

  test('returns at most the given number, and covers every container with its latest time', () => {
    const segment = fc.constantFrom('a', 'b', 'c', 'long-one', '1', '2', '3');
    const container = fc
      .array(segment, { maxLength: 6 })
      .map((parts) => `/${parts.map((part) => `${part}/`).join('')}`);
    const some = fc.array(fc.tuple(container, fc.integer({ min: 1, max: 1000 })), { maxLength: 120 });
    fc.assert(
      fc.property(some, fc.integer({ min: 1, max: 60 }), (entries, most) => {
        const before = new Map(entries);
        const after = mergeContainers(before, most);
        expect(after.size).toBeLessThanOrEqual(most);
        for (const [below, at] of before) {
          const over = [...after].filter(([above]) => below.startsWith(above)).map(([, time]) => time);
          expect(Math.max(...over)).toBeGreaterThanOrEqual(at);
        }
        const known = new Set(before.values());
        for (const [above, at] of after) {
          expect(known.has(at)).toBe(true);
          expect([...before.keys()].some((below) => below.startsWith(above))).toBe(true);
        }
      }),
      { numRuns: 200 },
    );
  });
});

describe('boundedUses', () => {
  const total = (uses: ReadonlyMap<string, ReadonlyMap<string, number>>) =>
    [...uses.values()].reduce((sum, times) => sum + times.size, 0);

  test('does not change uses within the limit', () => {
    const few = new Map([['a:b', times('/a/', '/b/')]]);
    expect(boundedUses(few, 2, 2)).toEqual(few);
  });

  test('merges containers before it drops permissions, least recently used first', () => {
    const many = new Map(
      Array.from({ length: 10 }, (_, at) => [
        `a:b-${at}`,
        new Map([
          ['/a/', at],
          ['/b/', at],
          ['/c/', at],
        ]),
      ]),
    );
    const ten = boundedUses(many, 10, 3);
    expect([...ten.keys()].sort()).toEqual([...many.keys()].sort());
    expect(total(ten)).toBe(10);
    expect([...boundedUses(many, 4, 3).keys()].sort()).toEqual(['a:b-6', 'a:b-7', 'a:b-8', 'a:b-9']);
  });

  test('drops permissions by their latest use, and orders them only then', () => {
    const mixed = new Map([
      [
        'a:old-and-new',
        new Map([
          ['/a/', 1],
          ['/b/', 9],
        ]),
      ],
      ['a:between', new Map([['/a/', 5]])],
      ['a:latest', new Map([['/a/', 10]])],
    ]);
    expect([...boundedUses(mixed, 2, 2).keys()]).toEqual(['a:latest', 'a:old-and-new']);
    expect([...boundedUses(mixed, 3, 2).keys()]).toEqual([...mixed.keys()]);
  });
});

describe('unusedGrants', () => {
  const pci = { container: '/PCI/', permissions: ['token:read', 'token:delete'] };
  const everything = { priority: 2, container: undefined, permissions: ['token:read'] };
  const cases: [
    title: string,
    granted: Parameters<typeof grants>,
    used: [string, string][],
    unused: string[],
  ][] = [
    [
      'returns all grants before the first use',
      ['token:read', pci],
      [],
      ['permissions token:read /', '1 token:read /pci/', '1 token:delete /pci/'],
    ],
    ['omits used grants', ['token:read'], [['token:read', '/a/']], []],
    [
      'returns permissions that a rule precedes',
      ['token:read', pci],
      [
        ['token:read', '/pci/x/'],
        ['token:delete', '/pci/'],
      ],
      ['permissions token:read /'],
    ],
    [
      'returns a rule that another one for the same container precedes',
      [{ ...pci, priority: 2 }, pci],
      [
        ['token:read', '/pci/'],
        ['token:delete', '/pci/'],
      ],
      ['1 token:read /pci/', '1 token:delete /pci/'],
    ],
    [
      'returns grants in the order of the rules',
      [
        { priority: 2, container: '/a/' },
        { priority: 1, container: '/b/' },
      ],
      [],
      ['1 token:read /a/', '2 token:read /b/'],
    ],
    [
      'returns a rule for another container',
      [pci, everything],
      [
        ['token:read', '/a/'],
        ['token:delete', '/pci/'],
      ],
      ['1 token:read /pci/'],
    ],
    [
      'omits a rule that decides one of several uses',
      [pci, everything],
      [
        ['token:read', '/a/'],
        ['token:read', '/pci/'],
        ['token:delete', '/pci/'],
      ],
      [],
    ],
    [
      'omits a rule for a container directly below a used one',
      ['token:read', pci],
      [
        ['token:read', '/'],
        ['token:delete', '/'],
      ],
      [],
    ],
    [
      'omits a rule for a container deep below a used one',
      ['token:read', { container: '/pci/high/' }],
      [['token:read', '/pci/']],
      [],
    ],
    [
      'returns a rule whose container shares only a part of the last segment',
      [pci],
      [
        ['token:read', '/pci-other/'],
        ['token:delete', '/pc/'],
      ],
      ['1 token:read /pci/', '1 token:delete /pci/'],
    ],
    [
      'handles permissions that do not apply to containers',
      ['log:read', { container: '/a/', permissions: ['application:read'] }],
      [['application:read', '/']],
      ['permissions log:read /'],
    ],
    [
      'ignores uses of permissions that are no longer granted',
      ['token:read'],
      [['token:create', '/a/']],
      ['permissions token:read /'],
    ],
  ];
  test.each(cases)('%s', (_, granted, used, unused) => {
    const places = used.map(([permission, container]) => ({ permission, container }));
    const found = runSteps(unusedGrants(compilePolicy(grants(...granted)), places));
    expect(found.map(({ rule, permission, container }) => `${rule} ${permission} ${container}`)).toEqual(
      unused,
    );
  });
});

test('Use and UnusedGrant contain all fields', () => {
  const use = { permission: 'token:read', container: '/', last_used_at: '2026-01-01T00:00:00.000Z' };
  expect(Use.parse(use)).toEqual(use);
  for (const rule of [1, 'permissions'] as const) {
    const grant = { rule, permission: 'token:read', container: '/pci/' };
    expect(UnusedGrant.parse(grant)).toEqual(grant);
  }
  for (const rule of ['', 1.5, undefined])
    expect(UnusedGrant.safeParse({ rule, permission: 'token:read', container: '/pci/' }).success).toBe(false);
  for (const schema of [Use, UnusedGrant]) expect(schema.safeParse({}).success).toBe(false);
});
