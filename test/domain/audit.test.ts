import { describe, expect, test } from 'bun:test';
import { z } from 'zod';
import {
  byOperator,
  difference,
  Entry,
  expiringOperation,
  headsOperation,
  LogEntry,
  LogGap,
  logFilter,
  readsOperation,
  readsSetting,
  resourceOf,
  restoreOperation,
  unreadable,
  unrecordedTransforms,
} from '../../src/domain/audit.ts';

test('difference contains the changed fields among the given ones', () => {
  const from = { name: 'a', rules: [{ priority: 1 }], kept: 1, other: 1 };
  const to = { name: 'b', rules: [{ priority: 2 }], kept: 1, other: 2 };
  expect(difference(from, to, ['name', 'rules', 'kept'])).toEqual({
    name: { from: 'a', to: 'b' },
    rules: { from: [{ priority: 1 }], to: [{ priority: 2 }] },
  });
});

test('difference omits absent values and compares by value', () => {
  const before: { list: number[]; gone?: number; made?: number } = { list: [1], gone: 1 };
  const after: typeof before = { list: [1], made: 2 };
  expect(difference(before, after, ['list', 'gone', 'made'])).toEqual({ gone: { from: 1 }, made: { to: 2 } });
});

const id = '0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5d';
const entry = {
  actor: { kind: 'session', id, application_id: id },
  operation: 'token.update',
  entity: { kind: 'token', id: 'card-1' },
  resource: { ids: ['card-1'], container: '/pci/', omitted: 2 },
  decision: {
    transform: 'mask',
    rule: { of: 'session', rule: 1 },
    reason: 'rule 1 does not match',
    missing: { permission: 'token:update', container: '/pci/' },
  },
  result: 'success',
  reason: 'none',
  from: { ip: '::1', user_agent: 'test' },
  request_id: 'r',
  trace_id: 't',
  difference: { name: { from: 'a', to: 'b' } },
  count: 2,
};
const minimal = { actor: { kind: 'anonymous' }, operation: 'x', result: 'failed', from: {} };

test('entries may be complete or minimal', () => {
  expect(Entry.parse(entry) as unknown).toEqual(entry);
  expect(Entry.parse(minimal) as unknown).toEqual(minimal);
  const logged = { id, tenant_id: id, at: '2026-01-01T00:00:00.000Z', ...entry };
  expect(LogEntry.parse(logged) as unknown).toEqual(logged);
});

test.each<[string, object]>([
  ['without an actor', { ...minimal, actor: undefined }],
  ['with an unknown actor', { ...minimal, actor: { kind: 'robot' } }],
  ['without an operation', { ...minimal, operation: undefined }],
  ['with an unknown result', { ...minimal, result: 'maybe' }],
  ['without from', { ...minimal, from: undefined }],
  ['with an entity without id', { ...minimal, entity: { kind: 'token' } }],
])('an entry %s is invalid', (_, entry) => {
  expect(Entry.safeParse(entry).success).toBe(false);
});

const kinds = ['application', 'session', 'operator', 'anonymous', 'unknown'];
test.each(kinds)('an actor can be of the kind %s', (kind) => {
  expect(Entry.safeParse({ ...minimal, actor: { kind } }).success).toBe(true);
});

test.each(['success', 'denied', 'failed'])('a result can be %s', (result) => {
  expect(Entry.safeParse({ ...minimal, result }).success).toBe(true);
});

const Filter = z.strictObject(logFilter);

test('the log can be filtered by actor, operation, entity, result and time', () => {
  const times = { from: '2026-01-01T00:00:00Z', to: '2026-01-02T00:00:00Z' };
  const narrowed = { actor: id, entity: 'card-1', operation: 'token.update', result: 'denied' };
  expect(Filter.parse({ ...narrowed, ...times }) as object).toEqual({
    ...narrowed,
    from: Date.parse(times.from),
    to: Date.parse(times.to),
  });
  expect(Filter.parse({})).toEqual({});
});

test.each<[string, number]>([
  ['entity', 200],
  ['operation', 100],
])('the filter %s has 1 to %i characters', (field, max) => {
  const accepts = (length: number) => Filter.safeParse({ [field]: 'x'.repeat(length) }).success;
  expect([0, 1, max, max + 1].map(accepts)).toEqual([false, true, true, false]);
});

test('names that existing databases contain do not change', () => {
  const names = [
    restoreOperation,
    headsOperation,
    expiringOperation,
    readsOperation,
    readsSetting,
    unreadable,
  ];
  expect(names).toEqual([
    'database.restore',
    'audit.heads',
    'key.expiring',
    'audit.reads',
    'audit_reads',
    'unreadable',
  ]);
});

test('reads are recorded completely, only with plaintext, or not at all', () => {
  expect(unrecordedTransforms).toEqual({
    all: [],
    reveal: ['redact', 'mask'],
    off: ['redact', 'mask', 'reveal'],
  });
});

test('a gap of the log has a known reason; its transforms and times are optional', () => {
  const times = { from: '2026-01-01T00:00:00.000Z', to: '2026-01-02T00:00:00.000Z' };
  const reads = { reason: 'reads_not_recorded', transforms: ['redact', 'mask'], ...times };
  for (const gap of [{ reason: 'archived' }, reads]) expect(LogGap.parse(gap) as object).toEqual(gap);
  for (const wrong of [{}, { reason: 'lost' }, { ...reads, transforms: ['none'] }])
    expect(LogGap.safeParse(wrong).success).toBe(false);
});

describe('the container of an entry is', () => {
  test.each<[string, string[], string]>([
    ['the container of its only resource, in canonical form', ['PCI/High'], '/pci/high/'],
    ['the parent of two containers', ['/pci/a/', '/pci/low/'], '/pci/'],
    ['the same container if all are equal', ['/pci/', 'pci', '/PCI/'], '/pci/'],
    ['the root if there is no longer common part', ['/pci/', '/cards/'], '/'],
    ['the root if one is in the root', ['/', '/pci/'], '/'],
    ['the outer one of two', ['/pci/', '/pci/high/'], '/pci/'],
    ['the outer one of two, also if it is last', ['/pci/high/', '/pci/'], '/pci/'],
    ['made of whole segments', ['/pci/high-1/', '/pci/high-2/'], '/pci/'],
    ['not the one whose name is a prefix of the other', ['/pci/', '/pci-other/'], '/'],
    ['the deepest that includes all of several', ['/a/b/c/d/', '/a/b/c/e/', '/a/b/x/'], '/a/b/'],
  ])('%s', (_, containers, expected) => {
    expect(resourceOf(containers.map((container) => ({ container })))).toStrictEqual({
      container: expected,
    });
  });
});

test('the resources of an entry are listed by id, in order', () => {
  const [card, note] = [{ id: 'card-1', container: '/pci/high/' }, { id: 'note-1' }];
  expect(resourceOf([card, note, { container: '/pci/low/' }, { id: 'iban-1' }])).toStrictEqual({
    ids: ['card-1', 'note-1', 'iban-1'],
    container: '/pci/',
  });
  expect(resourceOf([note])).toStrictEqual({ ids: ['note-1'] });
  expect(resourceOf([])).toStrictEqual({});
});

test('byOperator with an operation is a valid entry', () => {
  expect(byOperator).toEqual({ actor: { kind: 'operator' }, result: 'success', from: {} });
  expect(Entry.safeParse({ ...byOperator, operation: 'tenant.disable' }).success).toBe(true);
});
