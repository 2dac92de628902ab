import { describe, expect, test } from 'bun:test';
import { Impact, maxChanges, maxListedSessions } from '../../../src/domain/access/impact.ts';

const id = '0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5d';
const change = { permission: 'token:read', container: '/cards/', from: 'mask', to: 'reveal' };
const { container: _, ...changeOfUse } = change;
const session = { id, application: { id, name: 'desk' }, ...change };

const impact = {
  dry_run: true,
  quarantined: true,
  changes: [change],
  changes_complete: true,
  sessions: { count: 1, complete: true, data: [session] },
  tokens: { complete: false, data: [{ ...change, count: 42 }] },
  reads: {
    since: '2030-01-01T00:00:00.000Z',
    recorded: 'all',
    complete: true,
    undecided: 3,
    data: [{ ...changeOfUse, count: 7, applications: 2 }],
  },
};

/** A copy of the impact with another value at the path. Undefined removes the field. */
function impactWith(path: string, value: unknown): object {
  const copy = structuredClone(impact);
  const names = path.split('.');
  const last = names.pop() as string;
  const parent = names.reduce<Record<string, unknown>>(
    (parent, name) => parent[name] as Record<string, unknown>,
    copy,
  );
  if (value === undefined) delete parent[last];
  else parent[last] = value;
  return copy;
}

/** The paths of all fields, such as `tokens.data.0.count`. */
function pathsIn(value: unknown, path = ''): string[] {
  if (typeof value !== 'object' || value === null) return [path];
  const below = Object.entries(value).flatMap(([name, each]) =>
    pathsIn(each, path ? `${path}.${name}` : name),
  );
  return path && !/\d$/.test(path) ? [path, ...below] : below;
}

const optional = ['quarantined', 'changes.0.container', 'sessions.data.0.container'];
const paths = pathsIn(impact);
const accepts = (value: object) => Impact.safeParse(value).success;

test('has all fields of the response', () => {
  expect(Impact.parse(impact) as object).toEqual(impact);
  expect(Impact.parse({ ...impact, key: 'slp_app' })).not.toHaveProperty('key');
});

describe('fields', () => {
  test.each(paths.filter((path) => !optional.includes(path)))('%s is required', (path) => {
    expect(accepts(impactWith(path, undefined))).toBe(false);
  });

  test.each(optional)('%s is optional', (path) => {
    expect(accepts(impactWith(path, undefined))).toBe(true);
  });

  test.each<[string, unknown]>([
    ['dry_run', false],
    ['quarantined', false],
    ['changes.0.from', 'all'],
    ['sessions.data.0.id', 'a'],
    ['sessions.data.0.application.id', 'a'],
    ['tokens.data.0.to', 'all'],
    ['reads.since', 'yesterday'],
    ['reads.recorded', 'mask'],
    ['reads.data.0.from', 'all'],
  ])('%s cannot be %p', (path, value) => {
    expect(accepts(impactWith(path, value))).toBe(false);
  });

  test.each(paths.filter((path) => /(count|undecided|applications)$/.test(path)))('%s is a count', (path) => {
    const accepted = [0, 1_000_000, -1, 0.5].map((count) => accepts(impactWith(path, count)));
    expect(accepted).toEqual([true, true, false, false]);
  });
});

test.each<[string, object, number]>([
  ['changes', change, maxChanges],
  ['sessions.data', session, maxListedSessions],
])('%s may be empty, and has a maximum', (path, each, max) => {
  const accepted = [0, max, max + 1].map((count) => accepts(impactWith(path, Array(count).fill(each))));
  expect(accepted).toEqual([true, true, false]);
});

test('the other lists may be empty, and have no maximum', () => {
  for (const path of ['tokens.data', 'reads.data'])
    for (const count of [0, maxChanges + 1]) {
      const entry = { ...change, count: 1, applications: 1 };
      expect(accepts(impactWith(path, Array(count).fill(entry)))).toBe(true);
    }
});
