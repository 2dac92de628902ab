/** What the console says and draws, without a browser. */
import { describe, expect, test } from 'bun:test';
import { differences } from '../../console/src/access/grants.ts';
import { samplesOf } from '../../console/src/access/judge.ts';
import { barsOf } from '../../console/src/activity/chart.tsx';
import { grantsInShort } from '../../console/src/applications/brief.ts';
import { parsePlace } from '../../console/src/frame/place.ts';
import { ago, countdown } from '../../console/src/frame/words.ts';
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
])('what is left of %d ms is said in two units at most', (left, said) => {
  expect(countdown(at(left), now)).toBe(said);
});

test.each([
  [-20 * second, 'just now'],
  [-5 * minute, '5 minutes ago'],
  [-day, 'yesterday'],
  [-40 * day, 'last month'],
])('a moment %d ms from now is said in words', (moment, said) => {
  expect(ago(at(moment), now)).toBe(said);
});

describe('a difference', () => {
  const rule = { priority: 1, container: '/pci/', transform: 'mask' as const, permissions: ['token:read'] };
  const before = { name: 'desk', permissions: ['log:read'], rules: [rule] };

  test('names what is added, removed and changed, and nothing else', () => {
    const after = { ...before, name: 'help desk', rules: [{ ...rule, transform: 'reveal' as const }] };
    expect(differences(before, after)).toEqual([
      { kind: 'changed', text: 'name “desk” → “help desk”' },
      { kind: 'removed', text: 'rule 1. mask in /pci/: token:read' },
      { kind: 'added', text: 'rule 1. reveal in /pci/: token:read' },
    ]);
  });

  test('is empty where there is none', () => {
    expect(differences(before, { ...before, rules: [{ ...rule }] })).toEqual([]);
  });

  test('shows in the places that either side speaks of', () => {
    const moved = { ...before, rules: [{ ...rule, container: 'cards' }] };
    const containers = samplesOf(before, moved).map(({ container }) => container);
    expect(containers).toContainValues(['/pci/', '/cards/', '/pci/example/', '/elsewhere/']);
  });

  test('is short in a list', () => {
    expect(grantsInShort(before, 14)).toBe('mask /pci/ · log read');
  });
});

describe('the chart', () => {
  const entry = (milliseconds: number, result: LogEntry['result'], count?: number) =>
    ({ at: at(milliseconds), result, ...(count && { count }) }) as LogEntry;

  test('counts every entry once, and those that stand for many as many', () => {
    const bars = barsOf([entry(-minute, 'denied', 7), entry(-2 * hour, 'success')], now, true);
    const sum = (result: 'success' | 'denied') => bars.reduce((total, bar) => total + bar[result], 0);
    expect([sum('success'), sum('denied')]).toEqual([1, 7]);
    expect(bars.length).toBeLessThanOrEqual(48);
  });

  test('draws no empty time before the oldest entry that it knows, unless it knows all', () => {
    const entries = [entry(-minute, 'success')];
    expect(barsOf(entries, now, true).length).toBeGreaterThan(barsOf(entries, now, false).length);
  });
});

test('containers that differ in case or slashes are one branch, and count what lies below', () => {
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

test('a place that cannot be decoded is shown as it is, not thrown at', () => {
  expect(parsePlace('#/applications/%E0%A4%A').parts).toEqual(['applications', '%E0%A4%A']);
});
