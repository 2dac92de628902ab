/** Formatting functions of the console, without a browser. */
import { describe, expect, test } from 'bun:test';
import { sampleResources } from '../../console/src/access/evaluate.ts';
import { differences } from '../../console/src/access/grants.ts';
import { barsOf } from '../../console/src/activity/chart.tsx';
import { summarizeGrants } from '../../console/src/applications/grants-summary.ts';
import { countdown, timeAgo } from '../../console/src/frame/format.ts';
import { parseRoute } from '../../console/src/frame/route.ts';
import { treeOf } from '../../console/src/tokens/tree.ts';
import type { LogEntry, Token } from '../../sdk/src/sallyport.ts';

const now = Date.parse('2030-01-31T12:00:00Z');
const at = (milliseconds: number) => new Date(now + milliseconds).toISOString();
const [second, minute, hour, day] = [1000, 60_000, 3_600_000, 86_400_000];

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

describe('activity chart', () => {
  const entry = (milliseconds: number, result: LogEntry['result'], count?: number) =>
    ({ at: at(milliseconds), result, ...(count && { count }) }) as LogEntry;

  test('aggregated entries count with their count', () => {
    const bars = barsOf([entry(-minute, 'denied', 7), entry(-2 * hour, 'success')], now, true);
    const sum = (result: 'success' | 'denied') => bars.reduce((total, bar) => total + bar[result], 0);
    expect([sum('success'), sum('denied')]).toEqual([1, 7]);
    expect(bars.length).toBeLessThanOrEqual(48);
  });

  test('starts at the oldest known entry unless all entries are loaded', () => {
    const entries = [entry(-minute, 'success')];
    expect(barsOf(entries, now, true).length).toBeGreaterThan(barsOf(entries, now, false).length);
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
