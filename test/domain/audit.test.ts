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

test('a difference names every field that changed, among those asked for', () => {
  const from = { name: 'a', rules: [{ priority: 1 }], kept: 1, other: 1 };
  const to = { name: 'b', rules: [{ priority: 2 }], kept: 1, other: 2 };
  expect(difference(from, to, ['name', 'rules', 'kept'])).toEqual({
    name: { from: 'a', to: 'b' },
    rules: { from: [{ priority: 1 }], to: [{ priority: 2 }] },
  });
});

test('a difference leaves out what was not there, and compares by value', () => {
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
const least = { actor: { kind: 'anonymous' }, operation: 'x', result: 'failed', from: {} };

test('an entry is kept whole, and with as little as is known', () => {
  expect(Entry.parse(entry) as unknown).toEqual(entry);
  expect(Entry.parse(least) as unknown).toEqual(least);
  const logged = { id, tenant_id: id, at: '2026-01-01T00:00:00.000Z', ...entry };
  expect(LogEntry.parse(logged) as unknown).toEqual(logged);
});

test.each<[string, object]>([
  ['without an actor', { ...least, actor: undefined }],
  ['of an unknown actor', { ...least, actor: { kind: 'robot' } }],
  ['without an operation', { ...least, operation: undefined }],
  ['of an unknown result', { ...least, result: 'maybe' }],
  ['without a word of where from', { ...least, from: undefined }],
  ['on half an entity', { ...least, entity: { kind: 'token' } }],
])('an entry %s is none', (_, entry) => {
  expect(Entry.safeParse(entry).success).toBe(false);
});

test.each(['application', 'session', 'operator', 'anonymous'])('an actor may be: %s', (kind) => {
  expect(Entry.safeParse({ ...least, actor: { kind } }).success).toBe(true);
});

test.each(['success', 'denied', 'failed'])('a result may be: %s', (result) => {
  expect(Entry.safeParse({ ...least, result }).success).toBe(true);
});

const Filter = z.strictObject(logFilter);

test('a look at the log may be narrowed to who, what, on what, how it came out, and when', () => {
  const moments = { from: '2026-01-01T00:00:00Z', to: '2026-01-02T00:00:00Z' };
  const narrowed = { actor: id, entity: 'card-1', operation: 'token.update', result: 'denied' };
  expect(Filter.parse({ ...narrowed, ...moments }) as object).toEqual({
    ...narrowed,
    from: Date.parse(moments.from),
    to: Date.parse(moments.to),
  });
  expect(Filter.parse({})).toEqual({});
});

test.each<[string, number]>([
  ['entity', 200],
  ['operation', 100],
])('a look at the log takes an %s of 1 to %i characters', (field, most) => {
  const accepts = (length: number) => Filter.safeParse({ [field]: 'x'.repeat(length) }).success;
  expect([0, 1, most, most + 1].map(accepts)).toEqual([false, true, true, false]);
});

test('a restore keeps the name that logs already know it by', () => {
  expect(restoreOperation).toBe('database.restore');
});

test('what an operator does on the machine is an entry once it says what it was', () => {
  expect(byOperator).toEqual({ actor: { kind: 'operator' }, result: 'success', from: {} });
  expect(Entry.safeParse({ ...byOperator, operation: 'tenant.disable' }).success).toBe(true);
});
