import { expect, test } from 'bun:test';
import fc from 'fast-check';
import { Id } from '../../../src/domain/common-fields.ts';
import { entryId, positionOf } from '../../../src/store/audit/entry-id.ts';

const at = fc.integer({ min: 0, max: 2 ** 48 - 1 });
const seq = fc.integer({ min: 0, max: 2 ** 42 - 1 });
const tenant = fc.uuid();

test('an id is a UUIDv7 that contains the time and the position', () => {
  fc.assert(
    fc.property(at, seq, tenant, (time, position, tenantId) => {
      const id = entryId(time, position, tenantId);
      expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
      expect(Id.parse(id)).toBe(id);
      expect(positionOf(id, tenantId)).toEqual({ at: time, seq: position });
    }),
  );
});

test('ids are ordered by time, and by position within a millisecond', () => {
  fc.assert(
    fc.property(at, at, seq, seq, tenant, (a, b, first, second, tenantId) => {
      const isBefore = a === b ? first < second : a < b;
      expect(entryId(a, first, tenantId) < entryId(b, second, tenantId)).toBe(isBefore);
    }),
  );
});

test('the id of another tenant, or any other UUID, has no position', () => {
  const tenantId = '0190a000-0000-7000-8000-000000000001';
  expect(positionOf(entryId(5, 7, '0190a000-0000-7000-8000-000000000002'), tenantId)).toBeUndefined();
  expect(positionOf('00000000-0000-4000-8000-000000000001', tenantId)).toBeUndefined();
  expect(positionOf('00000000-0000-7000-c000-000000000001', tenantId)).toBeUndefined();
});

test('times that fit no id are moved into the range', () => {
  const tenantId = crypto.randomUUID();
  expect(positionOf(entryId(-1, 1, tenantId), tenantId)).toEqual({ at: 0, seq: 1 });
  expect(positionOf(entryId(2 ** 60, 1, tenantId), tenantId)).toEqual({ at: 2 ** 48 - 1, seq: 1 });
});
