import { expect, test } from 'bun:test';
import { bucketOf, durationLimits, percentileOf, totalOf } from '../../src/domain/request-counts.ts';

function durationsOf(...milliseconds: number[]): number[] {
  const durations = Array(durationLimits.length + 1).fill(0);
  for (const each of milliseconds) durations[bucketOf(each)]++;
  return durations;
}

test('a duration equal to a limit belongs to the bucket of that limit', () => {
  expect(durationLimits.map(bucketOf)).toEqual(durationLimits.map((_, bucket) => bucket));
  expect([0, 0.2501, 10_000.1].map(bucketOf)).toEqual([0, 1, durationLimits.length]);
});

test.each<[string, number[], number, number | undefined]>([
  ['the median of one request', [3], 0.5, 5],
  ['the median of an even number is the lower one', [0.1, 0.1, 3, 3], 0.5, 0.25],
  ['the median of an odd number', [0.1, 3, 30], 0.5, 5],
  ['1 of 100 is above p99', [...Array(99).fill(0.3), 700], 0.99, 0.5],
  ['2 of 100 are above p98, so p99 is one of them', [...Array(98).fill(0.3), 700, 700], 0.99, 1000],
  ['the share 1 is the longest', [0.1, 3, 30], 1, 50],
  ['the share 0 is the shortest, without empty buckets', [3, 30], 0, 5],
  ['the share 0.5 of one request in every bucket', [...durationLimits, 10_001], 0.5, 50],
  ['the highest limit stands for longer times', [20_000], 0.5, 10_000],
  ['none without requests', [], 0.5, undefined],
])('percentiles: %s', (_, milliseconds, share, expected) => {
  const counts = { durations: durationsOf(...milliseconds) };
  expect(totalOf(counts)).toBe(milliseconds.length);
  expect(percentileOf(counts, share)).toBe(expected);
});
