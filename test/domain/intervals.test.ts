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

test('intervals are not shorter than the given length', () => {
  const now = Date.UTC(2030, 0, 1);
  expect(intervalsBetween(now - minute, now, 5 * minute)).toEqual({
    start: now - 5 * minute,
    length: 5 * minute,
    count: 1,
  });
});

test.each([
  [60 * minute, minute],
  [day, 60 * minute],
  [7 * day, 180 * minute],
  [30 * day, day],
])('a period of %d ms has intervals of %d ms', (period, expected) => {
  const now = Date.UTC(2030, 0, 1);
  expect(intervalsBetween(now - period, now).length).toBe(expected);
});
