import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { compilePolicy } from '../../src/domain/policy.ts';
import { boundedUses, mergeContainers, UnusedGrant, Use, unusedGrants } from '../../src/domain/usage.ts';
import { grants } from '../support/grants.ts';

const moments = (...containers: string[]) => new Map(containers.map((container, at) => [container, at + 1]));
const below = (parent: string, count: number) => Array.from({ length: count }, (_, at) => `${parent}${at}/`);

describe('containers that are too many', () => {
  test('stay as they are while they fit', () => {
    const few = moments('/', '/a/', '/a/b/');
    expect(mergeContainers(few, 3)).toEqual(few);
  });

  test('are put together where there are many beside each other, and nowhere else', () => {
    const many = moments('/pci/high/', ...below('/customers/', 30), '/general/');
    expect(mergeContainers(many, 10)).toEqual(
      new Map([
        ['/pci/high/', 1],
        ['/customers/', 31],
        ['/general/', 32],
      ]),
    );
  });

  test('are put together under the most crowded parent first, and no farther than it takes', () => {
    const alone = below('/pci/', 3);
    const many = moments(...below('/customers/', 10), ...alone);
    expect([...mergeContainers(many, 5).keys()]).toEqual(['/customers/', ...alone]);
  });

  test('end in the root when nothing else is left', () => {
    expect(mergeContainers(moments('/a/', '/b/', '/c/d/e/'), 1)).toEqual(new Map([['/', 3]]));
  });

  test('whatever they are: no more than so many are left, and none is later or lost', () => {
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
        for (const [place, at] of before) {
          const over = [...after].filter(([above]) => place.startsWith(above)).map(([, moment]) => moment);
          expect(Math.max(...over)).toBeGreaterThanOrEqual(at);
        }
        const known = new Set(before.values());
        for (const [above, at] of after) {
          expect(known.has(at)).toBe(true);
          expect([...before.keys()].some((place) => place.startsWith(above))).toBe(true);
        }
      }),
      { numRuns: 200 },
    );
  });
});

describe('uses that are too many', () => {
  const total = (uses: ReadonlyMap<string, ReadonlyMap<string, number>>) =>
    [...uses.values()].reduce((sum, moments) => sum + moments.size, 0);

  test('stay as they are while they fit', () => {
    const few = new Map([['a:b', moments('/a/', '/b/')]]);
    expect(boundedUses(few, 2, 2)).toEqual(few);
  });

  test('lose containers before permissions, and of the permissions the least recently used', () => {
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
});

describe('grants of which no use is on record', () => {
  const pci = { container: '/PCI/', permissions: ['token:read', 'token:delete'] };
  const everything = { priority: 2, container: undefined, permissions: ['token:read'] };
  const cases: [
    title: string,
    granted: Parameters<typeof grants>,
    used: [string, string][],
    unused: string[],
  ][] = [
    [
      'are all of them before the first use',
      ['token:read', pci],
      [],
      ['permissions token:read /', '1 token:read /pci/', '1 token:delete /pci/'],
    ],
    ['are not those that were used', ['token:read'], [['token:read', '/a/']], []],
    [
      'are those that another rule was quicker than',
      ['token:read', pci],
      [
        ['token:read', '/pci/x/'],
        ['token:delete', '/pci/'],
      ],
      ['permissions token:read /'],
    ],
    [
      'are those of a rule that another for the same container was quicker than',
      [{ ...pci, priority: 2 }, pci],
      [
        ['token:read', '/pci/'],
        ['token:delete', '/pci/'],
      ],
      ['1 token:read /pci/', '1 token:delete /pci/'],
    ],
    [
      'are listed as the rules are, whichever decides first',
      [
        { priority: 2, container: '/a/' },
        { priority: 1, container: '/b/' },
      ],
      [],
      ['1 token:read /a/', '2 token:read /b/'],
    ],
    [
      'are those of a rule elsewhere',
      [pci, everything],
      [
        ['token:read', '/a/'],
        ['token:delete', '/pci/'],
      ],
      ['1 token:read /pci/'],
    ],
    [
      'are not those in a container below one that stands for more',
      ['token:read', pci],
      [
        ['token:read', '/'],
        ['token:delete', '/'],
      ],
      [],
    ],
    [
      'are not those somewhere below one that stands for more',
      ['token:read', { container: '/pci/high/' }],
      [['token:read', '/pci/']],
      [],
    ],
    [
      'are those beside one that only begins alike',
      [pci],
      [
        ['token:read', '/pci-other/'],
        ['token:delete', '/pc/'],
      ],
      ['1 token:read /pci/', '1 token:delete /pci/'],
    ],
    [
      'are known also where containers do not matter',
      ['log:read', { container: '/a/', permissions: ['application:read'] }],
      [['application:read', '/']],
      ['permissions log:read /'],
    ],
    [
      'do not include what is granted no more',
      ['token:read'],
      [['token:create', '/a/']],
      ['permissions token:read /'],
    ],
  ];
  test.each(cases)('%s', (_, granted, used, unused) => {
    const places = used.map(([permission, container]) => ({ permission, container }));
    const found = unusedGrants(compilePolicy(grants(...granted)), places);
    expect(found.map(({ rule, permission, container }) => `${rule} ${permission} ${container}`)).toEqual(
      unused,
    );
  });
});

test('a use and an unused grant are shown whole', () => {
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
