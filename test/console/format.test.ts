/** Formatting functions of the console, without a browser. */
import { describe, expect, test } from 'bun:test';
import { sampleResources } from '../../console/src/access/evaluate.ts';
import { differences } from '../../console/src/access/grants.ts';
import { defaults, type Filters, logQuery } from '../../console/src/activity/filters.tsx';
import { describeGap } from '../../console/src/activity/gaps.tsx';
import { operations } from '../../console/src/activity/operations.ts';
import { summarizeGrants } from '../../console/src/applications/grants-summary.ts';
import { countdown, timeAgo } from '../../console/src/frame/format.ts';
import { parseRoute } from '../../console/src/frame/route.ts';
import { treeOf } from '../../console/src/tokens/tree.ts';
import type { LogGap, Token } from '../../sdk/src/sallyport.ts';
import { operationOf } from '../../src/http/pipeline/route.ts';
import { routes } from '../../src/http/routes.ts';

const now = Date.parse('2030-01-31T12:00:00Z');
const at = (milliseconds: number) => new Date(now + milliseconds).toISOString();
const [second, minute, hour, day] = [1000, 60_000, 3_600_000, 86_400_000];

test.each([
  [{ reason: 'archived', to: at(0) }, /^Entries before 31 Jan 2030, .* were moved to an archive/],
  [{ reason: 'archived' }, /^Earlier entries were moved to an archive/],
  [{ reason: 'reads_not_recorded', to: at(0) }, /^Reads were not recorded until 31 Jan 2030, .*\.$/],
  [
    { reason: 'reads_not_recorded', transforms: ['mask'], from: at(-day), to: at(0) },
    /^Reads with mask were not recorded from 30 Jan 2030, .* until 31 Jan 2030/,
  ],
] as [LogGap, RegExp][])('a gap in the log is described: %p', (gap, expected) => {
  expect(describeGap(gap)).toMatch(expected);
});

test.each([
  [90 * day, '90d'],
  [2 * day + 3 * hour, '2d 3h'],
  [3 * minute, '3m 0s'],
  [9 * second, '9s'],
  [500, '0s'],
  [0, 'expired'],
  [-day, 'expired'],
])('countdown formats %d ms with at most two units', (remaining, expected) => {
  expect(countdown(at(remaining), now)).toBe(expected);
});

test.each([
  [-20 * second, 'just now'],
  [-5 * minute, '5 minutes ago'],
  [-day, 'yesterday'],
  [-40 * day, 'last month'],
])('timeAgo formats a time %d ms from now', (offset, expected) => {
  expect(timeAgo(at(offset), now)).toBe(expected);
});

describe('grants', () => {
  const rule = { priority: 1, container: '/pci/', transform: 'mask' as const, permissions: ['token:read'] };
  const before = { name: 'desk', permissions: ['log:read'], rules: [rule] };

  test('differences lists added, removed and changed fields', () => {
    const after = { ...before, name: 'help desk', rules: [{ ...rule, transform: 'reveal' as const }] };
    expect(differences(before, after)).toEqual([
      { kind: 'changed', text: 'name “desk” → “help desk”' },
      { kind: 'removed', text: 'rule 1. mask in /pci/: token:read' },
      { kind: 'added', text: 'rule 1. reveal in /pci/: token:read' },
    ]);
  });

  test('differences of equal grants is empty', () => {
    expect(differences(before, { ...before, rules: [{ ...rule }] })).toEqual([]);
  });

  test('sample resources cover the containers of both versions', () => {
    const moved = { ...before, rules: [{ ...rule, container: 'cards' }] };
    const containers = sampleResources(before, moved).map(({ container }) => container);
    expect(containers).toContainValues(['/pci/', '/cards/', '/pci/example/', '/elsewhere/']);
  });

  test('summarizeGrants is short', () => {
    expect(summarizeGrants(before, 14)).toBe('mask /pci/ · log read');
  });
});

describe('activity', () => {
  test('the list of operations contains all that the service writes about requests', () => {
    const written = routes.flatMap((route) => ('permission' in route ? [operationOf(route)] : []));
    expect(operations).toContainValues(written);
  });

  test('filters become the query of the service', () => {
    const query = (change: Partial<Filters>) => logQuery({ ...defaults, ...change }, now);
    expect(query({ period: '1h' })).toEqual({ from: at(-hour) });
    expect(query({ period: 'all', result: 'denied', q: ' /pci/ ' })).toEqual({
      result: 'denied',
      container: '/pci/',
    });
    expect(query({ period: 'custom', from: at(-day), to: 'nonsense', q: 'card-1' })).toEqual({
      from: at(-day),
      token: 'card-1',
    });
  });
});

test('containers that differ in case or slashes are one branch, whose count includes its children', () => {
  const tokens = ['/a/B/', 'a/b', '/a/', '/c/'].map((container) => ({ container }) as Token);
  const root = treeOf(tokens);
  expect([root.count, root.branches.map(({ path, count }) => [path, count])]).toEqual([
    4,
    [
      ['/a/', 3],
      ['/c/', 1],
    ],
  ]);
  expect(root.branches[0]?.branches[0]).toMatchObject({ path: '/a/b/', count: 2 });
});

test('a malformed percent-encoding in the URL is left unchanged', () => {
  expect(parseRoute('#/applications/%E0%A4%A').parts).toEqual(['applications', '%E0%A4%A']);
});
