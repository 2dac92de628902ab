/** Formatting functions of the console, without a browser. */
import { describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import { sampleResources } from '../../console/src/access/evaluate.ts';
import { differences } from '../../console/src/access/grants.ts';
import { readableChanges } from '../../console/src/activity/entry.tsx';
import { defaults, type Filters, type Found, logQuery } from '../../console/src/activity/filters.tsx';
import { describeGap } from '../../console/src/activity/gaps.tsx';
import { operations } from '../../console/src/activity/operations.ts';
import { readsOf, summarizeGrants } from '../../console/src/applications/grants-summary.ts';
import { describeOmitted } from '../../console/src/charts/log-counts.tsx';
import { describeMissing } from '../../console/src/charts/request-counts.ts';
import { requiredPermission } from '../../console/src/frame/connection.ts';
import { countdown, formatDate, timeAgo } from '../../console/src/frame/format.ts';
import { parseRoute } from '../../console/src/frame/route.ts';
import { accessLinks, coherentPart, groupedBelow, nodesOf } from '../../console/src/overview/access-links.ts';
import { countsWithin, expiriesOf } from '../../console/src/overview/summaries.ts';
import { treeOf } from '../../console/src/tokens/tree.ts';
import type { Application, LogGap, Token } from '../../sdk/src/sallyport.ts';
import { operationOf } from '../../src/http/pipeline/route.ts';
import { routes } from '../../src/http/routes.ts';

const now = Date.parse('2030-01-31T12:00:00Z');
const at = (milliseconds: number) => new Date(now + milliseconds).toISOString();
const [second, minute, hour, day] = [1000, 60_000, 3_600_000, 86_400_000];

test.each([
  [{ reason: 'archived', to: at(0) }, `^Entries before ${formatDate(at(0))} were moved to an archive`],
  [{ reason: 'archived' }, '^Earlier entries were moved to an archive'],
  [{ reason: 'reads_not_recorded', to: at(0) }, `^Reads were not recorded until ${formatDate(at(0))}\\.$`],
  [
    { reason: 'reads_not_recorded', transforms: ['mask'], from: at(-day), to: at(0) },
    `^Reads with mask were not recorded from ${formatDate(at(-day))} until ${formatDate(at(0))}`,
  ],
] as [LogGap, string][])('a gap in the log is described: %p', (gap, expected) => {
  expect(describeGap(gap)).toMatch(new RegExp(expected));
});

test('what counts leave out is described: entries, denials and gaps', () => {
  const denials = { total: 0, data: [], applications: [], counted_from: at(-hour) };
  const gap: LogGap = { reason: 'archived', to: at(-day) };
  expect(describeOmitted({ counted_from: at(0), denials, gaps: [gap, gap] })).toEqual([
    `Too many entries to count: those before ${formatDate(at(0))} are left out.`,
    `Too many denials to count: those before ${formatDate(at(-hour))} are left out.`,
    describeGap(gap),
  ]);
  expect(describeOmitted({})).toEqual([]);
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

test.each([
  [at(-day), undefined, 0, 'No requests are recorded in this period. New ones appear within a minute.'],
  [at(-30 * day), at(-day), 0, 'No requests are recorded in this period.'],
  [at(-31 * day), at(-day), 0, 'No requests are recorded in this period. Counts are stored for 30 days.'],
  [at(-31 * day), undefined, 7, 'Counts are stored for 30 days.'],
  [at(-day), undefined, 7, ''],
])('requests from %s to %s: %d', (from, to, requests, expected) => {
  expect(describeMissing({ from, ...(to !== undefined && { to }) }, now, { requests })).toBe(expected);
});

test('the name of the time zone is that of the time', () => {
  const format = join(import.meta.dirname, '../../console/src/frame/format.ts');
  const script = `const { timeZoneAt } = await import(${JSON.stringify(format)});
    console.log(...['2030-01-15', '2030-07-15'].map((date) => timeZoneAt(Date.parse(date))));`;
  // The zone of a process is fixed when it first formats a time.
  const env = { ...process.env, TZ: 'America/New_York', LC_ALL: 'en_US.UTF-8' };
  expect(Bun.spawnSync([process.execPath, '-e', script], { env }).stdout.toString()).toBe('EST EDT\n');
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

  const reading = (priority: number, transform: string, container: string, permissions = ['token:read']) =>
    ({ priority, transform, container, permissions }) as Application['rules'][number];

  test.each<[string, string[], Application['rules'], string[]]>([
    [
      'redact and reveal',
      [],
      [reading(1, 'redact', '/a/'), reading(2, 'reveal', '/b/')],
      ['reveal /b/', 'redact /a/'],
    ],
    [
      'a rule that another one replaces',
      [],
      [reading(2, 'reveal', '/a/B/'), reading(1, 'mask', '/A/')],
      ['mask /A/'],
    ],
    ['a tie', [], [reading(1, 'reveal', '/a/'), reading(1, 'redact', '/a/')], ['redact /a/']],
    [
      'a stricter rule below',
      [],
      [reading(1, 'redact', '/a/b/'), reading(2, 'reveal', '/a/')],
      ['reveal /a/', 'redact /a/b/'],
    ],
    ['no reads', ['token:create'], [reading(1, 'reveal', '/a/', ['token:create'])], []],
    ['plain permissions', ['token:read'], [], ['mask undefined']],
  ])('readsOf has the riskiest read first: %s', (_, permissions, rules, expected) => {
    const reads = readsOf({ permissions, rules }).map(
      ({ transform, container }) => `${transform} ${container}`,
    );
    expect(reads).toEqual(expected);
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
    const query = (change: Partial<Filters>, found: Found = {}) =>
      logQuery({ ...defaults, ...change }, found, now) as unknown;
    expect(query({ period: '1h' })).toEqual({ from: at(-hour) });
    expect(query({ period: 'all', result: 'denied' }, { container: '/pci/' })).toEqual({
      result: 'denied',
      container: '/pci/',
    });
    expect(query({ period: 'custom', from: at(-day), to: 'nonsense' }, { token: 'card-1' })).toEqual({
      from: at(-day),
      token: 'card-1',
    });
    expect(query({ period: '1h', result: 'denied' }, { request_id: 'r-1' })).toEqual({ request_id: 'r-1' });
  });

  test('changes are shown like those of the review dialog, and unknown values as JSON', () => {
    const rule = { priority: 1, container: '/pci/', transform: 'mask', permissions: ['token:read'] };
    const changes = readableChanges({
      name: { from: 'desk', to: 'help desk' },
      permissions: { from: ['log:read'], to: ['log:read', 'token:create'] },
      rules: { from: [], to: [rule] },
      allowed_networks: { from: 7 },
      keys: { to: { ending: 'ab\u202ed' } },
    });
    expect(changes).toEqual([
      { kind: 'changed', text: 'name “desk” → “help desk”' },
      { kind: 'added', text: 'permission token:create' },
      { kind: 'added', text: 'rule 1. mask in /pci/: token:read' },
      { kind: 'removed', text: 'allowed_networks 7' },
      { kind: 'added', text: 'keys {"ending":"ab\\u{202e}d"}' },
    ]);
  });
});

test('the console knows the permission of every route, so that it sends no request that would be denied', () => {
  for (const route of routes) {
    const path = route.path.replaceAll(/:\w+/g, 'x1');
    const permission = 'permission' in route ? route.permission : undefined;
    expect([route.name, requiredPermission(route.method, path)]).toEqual([route.name, permission]);
  }
});

test('expiries are counted in the first horizon that includes them, unless the service did not count', () => {
  const expiries = (...offsets: number[]) =>
    expiriesOf(
      offsets.map((offset) => ({ expires_at: at(offset) }) as Application),
      now,
      0,
    ).counts;
  const expected = [0, 1, 2, 0, 7];
  expect(countsWithin([0, 1, 3, 3, 10])).toEqual(expected);
  expect(expiries(hour, 2 * day, 7 * day, ...Array(7).fill(31 * day))).toEqual(expected);
  expect(countsWithin([0, 1, 3, 3, undefined])).toBeUndefined();
});

test('every application on the access map is connected, and zooming shows the containers below', () => {
  const rules = (container: string, transform: 'reveal' | 'mask') => [
    { priority: 1, container, transform, permissions: ['token:read'] },
  ];
  const applications = Array.from(
    { length: 40 },
    (_, at) =>
      ({
        id: `a${at}`,
        permissions: [],
        rules: rules(`/p${at % 20}/c${at}/`, at % 2 ? 'reveal' : 'mask'),
      }) as unknown as Application,
  );
  const links = accessLinks(applications, 'token:read');
  const { links: grouped, members } = groupedBelow(links, '/');
  expect(nodesOf(grouped, 'container')).toHaveLength(20);
  expect(members.get('/p3/')).toEqual(new Set(['/p3/c3/', '/p3/c23/']));
  const shown = coherentPart(grouped, { applications: 14, containers: 4 });
  expect(shown.applications.map(({ transform }) => transform)).toEqual(Array(14).fill('reveal'));
  const [drawn, connected] = [shown.containers.map(({ id }) => id), new Set<string>()];
  for (const { application, container } of shown.links)
    if (drawn.includes(container)) connected.add(application);
  expect([drawn.length, connected.size, shown.mergedContainers]).toEqual([4, 14, 7]);
  const below = groupedBelow(links, '/p3/').links;
  expect(below.map(({ application, container }) => `${application} ${container}`)).toEqual([
    'a3 /p3/c3/',
    'a23 /p3/c23/',
  ]);
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
