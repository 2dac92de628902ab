import { expect, test } from 'bun:test';
import { parseDuration } from '../../src/domain/duration.ts';

test.each([
  ['0', 0],
  ['0d', 0],
  ['10s', 10_000],
  ['30m', 1_800_000],
  ['24h', 86_400_000],
  ['90d', 7_776_000_000],
  ['999999s', 999_999_000],
])('the duration %s has %i milliseconds', (text, milliseconds) => {
  expect(parseDuration(text)).toBe(milliseconds);
});

test.each([
  [''],
  ['00'],
  ['10'],
  ['d'],
  ['10w'],
  ['10ms'],
  ['10D'],
  ['1.5h'],
  ['-1d'],
  [' 10s'],
  ['10s '],
  ['10s\n'],
  ['1d12h'],
  ['1000000s'],
  ['٣d'],
])('%p is not a duration', (text) => {
  expect(parseDuration(text)).toBeUndefined();
});
