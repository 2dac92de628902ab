import { expect, test } from 'bun:test';
import fc from 'fast-check';
import { intervalsBetween, maxIntervals } from '../../src/domain/intervals.ts';

const [minute, day] = [60_000, 86_400_000];
const time = fc.integer({ min: Date.UTC(0, 0), max: Date.UTC(9999, 11, 31) });

test('intervals cover the period with at most the allowed number, aligned to their length', () => {
  fc.assert(
    fc.property(time, time, (a, b) => {
      const [from, to] = [Math.min(a, b), Math.max(a, b) + 1];
      const { start, length, count } = intervalsBetween(from, to);
      expect(start % length).toBe(start < 0 ? -0 : 0);
      expect(start <= from && from < start + length).toBe(true);
      expect(start + count * length >= to && start + (count - 1) * length < to).toBe(true);
      expect(count).toBeLessThanOrEqual(maxIntervals);
    }),
  );
});

test('no interval starts before the year 0, whose dates have another format', () => {
  const from = Date.parse('0000-01-01T00:00:00Z');
  const { start, length, count } = intervalsBetween(from, Date.UTC(2030, 0));
  expect(start).toBe(from);
  expect(start + count * length).toBeGreaterThanOrEqual(Date.UTC(2030, 0));
});

test.each([
  [1, 1],
  [5, 5],
  [6, 15],
])('with a minimum of %d minutes, a short period has one interval of %d minutes', (least, minutes) => {
  const [now, length] = [Date.UTC(2030, 0, 1), minutes * minute];
  expect(intervalsBetween(now - minute, now, least * minute)).toEqual({
    start: now - length,
    length,
    count: 1,
  });
});

const [hours, days] = [60, 1440];

test.each([
  [1, 5, 13],
  [5, 15, 21],
  [15, hours, 16],
  [hours, 3 * hours, 21],
  [3 * hours, 6 * hours, 31],
  [6 * hours, days, 16],
  [days, 7 * days, 9],
  [7 * days, 30 * days, 15],
  [30 * days, 365 * days, 5],
])('a period has intervals of %d minutes if 60 suffice, otherwise of %d', (minutes, longer, count) => {
  const length = minutes * minute;
  const next = { start: 0, length: longer * minute, count };
  expect(intervalsBetween(0, 60 * length)).toEqual({ start: 0, length, count: 60 });
  expect(intervalsBetween(0, 60 * length + 1)).toEqual(next);
  expect(intervalsBetween(1, 60 * length + 1)).toEqual(next);
});

test('very long periods have intervals of whole years', () => {
  const year = 365 * day;
  expect(intervalsBetween(0, 59 * year)).toEqual({ start: 0, length: year, count: 59 });
  expect(intervalsBetween(year - 1, 60 * year - 1)).toEqual({ start: 0, length: year, count: 60 });
  expect(intervalsBetween(0, 59 * year + 1)).toEqual({ start: 0, length: 2 * year, count: 30 });
});
