import { describe, expect, test } from 'bun:test';
import { modificationTime, tokenVersion, versionOf } from '../../src/domain/row-version.ts';

const second = '1970-01-01T00:00:01.000Z';

test('the version of a row is the time of its last change, or 0', () => {
  expect(versionOf({})).toBe('0');
  expect(versionOf({ modified_at: second })).toBe((1000).toString(36));
});

test('tokens with the same id have different versions', () => {
  expect(tokenVersion({ seq: 'a', token: {} })).toBe('a-0');
  expect(tokenVersion({ seq: 'b', token: { modified_at: second } })).toBe(`b-${(1000).toString(36)}`);
});

describe('the time of a change', () => {
  test.each<[string, number | string | null, number, number]>([
    ['is that of the request at the first change', null, 5, 5],
    ['is that of the request at the first change, also at time 0', null, 0, 0],
    ['is that of the request if the last change was earlier', 3, 5, 5],
    ['is later than the last change at the same time', 5, 5, 6],
    ['is later than the last change if the clock went back', '9', 5, 10],
  ])('%s', (_, previous, now, expected) => {
    expect(modificationTime(previous, now)).toBe(expected);
  });
});
