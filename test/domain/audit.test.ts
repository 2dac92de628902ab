import { expect, test } from 'bun:test';
import { z } from 'zod';
import {
  byOperator,
  difference,
  Entry,
  LogEntry,
  logFilter,
  restoreOperation,
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

test.each(['application', 'session', 'operator', 'anonymous'])('an actor can be of the kind %s', (kind) => {
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

test('the name of the restore operation does not change', () => {
  expect(restoreOperation).toBe('database.restore');
});

test('byOperator with an operation is a valid entry', () => {
  expect(byOperator).toEqual({ actor: { kind: 'operator' }, result: 'success', from: {} });
  expect(Entry.safeParse({ ...byOperator, operation: 'tenant.disable' }).success).toBe(true);
});
