import { expect, test } from 'bun:test';
import fc from 'fast-check';
import { cursorOf, newEntryId, placeOf, timeOfId } from '../../src/audit/log/entry.ts';
import { Id } from '../../src/domain/common-fields.ts';

const start = Date.UTC(2031, 0);

test('an id is a UUIDv7 with the time of the entry, or with that of an entry shortly before', () => {
  const first = newEntryId(start);
  expect(first).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  expect(Id.parse(first)).toBe(first);
  expect(timeOfId(first)).toBe(start);
  expect(timeOfId(newEntryId(start - 60_000))).toBe(start);
  expect(timeOfId(newEntryId(start - 3_600_000))).toBe(start - 3_600_000);
});

test('ids ascend in the order in which entries are written', () => {
  const times = fc.sample(fc.integer({ min: 0, max: 100_000 }), 1000);
  const ids = times.map((time) => newEntryId(start + 1_000_000 + time));
  expect(ids.toSorted()).toEqual(ids);
  expect(new Set(ids).size).toBe(ids.length);
});

test('times that fit no id are moved into the range', () => {
  expect(timeOfId(newEntryId(2 ** 60))).toBe(2 ** 48 - 1);
  expect(timeOfId(newEntryId(-1))).toBe(0);
});

test('a cursor contains a place and cannot be confused with an id', () => {
  const number = fc.integer({ min: 0, max: 2 ** 40 });
  const offset = fc.nat(1024);
  fc.assert(
    fc.property(number, offset, (segment, at) => {
      const cursor = cursorOf({ number: segment, offset: at });
      expect(Id.parse(cursor)).toBe(cursor);
      expect(placeOf(cursor)).toEqual({ number: segment, offset: at });
    }),
  );
  expect(placeOf(newEntryId(start))).toBeUndefined();
});
