import { describe, expect, test } from 'bun:test';
import { jsonError, utf8Error } from '../../src/domain/json-errors.ts';

describe('an error in JSON', () => {
  test.each([
    ['{"a": }', 1, 7],
    ['{"a": 1,}', 1, 9],
    ['{a: 1}', 1, 2],
    ["{'a': 1}", 1, 2],
    ['[1 2]', 1, 4],
    ['[1,\n  tru]', 2, 3],
    ['[[], {}, {"a": [01]}]', 1, 18],
    ['{"a" 1}', 1, 6],
    ['{"a": 1]', 1, 8],
    ['{} {}', 1, 4],
    ['"a\nb"', 1, 3],
    ['["\\x"]', 1, 3],
    ['["\\u12g4"]', 1, 3],
    ['["\\\\\\"", \u00a01]', 1, 10],
    ['{"a": [1, 2], "b": {"c": NaN}}', 1, 26],
    ['[1, ]', 1, 5],
    ['}', 1, 1],
    ['[1]]', 1, 4],
    ['+1', 1, 1],
  ])('%j is at line %d, column %d', (text, line, column) => {
    expect(() => JSON.parse(text)).toThrow();
    expect(jsonError(text)).toBe(`must be JSON in UTF-8: the error is in line ${line}, column ${column}`);
  });

  test.each(['{', '{"a"', '{"a":', '[1,', '"a', '"a\\', ' ', '{"a": 1', '["\\u12', 'tru'])(
    'in %j is named, or that it ends too early',
    (text) => {
      expect(() => JSON.parse(text)).toThrow();
      expect(jsonError(text)).toMatch(
        /^must be JSON in UTF-8: (it ends too early|the error is in line 1, column \d+)$/,
      );
    },
  );

  test('is where no other text could follow: what is before it can be completed', () => {
    const valid = '{"a": [1, -2.5e3, "x\\n\\u00e9", true, null, {}], "b": {"c": []}}';
    for (let at = 0; at < valid.length; at++) {
      const broken = `${valid.slice(0, at)}\u0001${valid.slice(at)}`;
      const column = Number(/column (\d+)$/.exec(jsonError(broken))?.[1]);
      // The error in a word, a number or an escape is at its beginning.
      expect(column).toBeWithin(Math.max(1, at - 5), at + 2);
    }
  });
});

test('the position in a long text is not searched for', () => {
  expect(jsonError('['.padEnd(131_073))).toBe('must be JSON in UTF-8');
  expect(utf8Error(new Uint8Array(131_073).fill(0xff))).toBe('must be in UTF-8');
});

test.each<[number[], number]>([
  [[0x61, 0xff], 1],
  [[0x22, 0xc3, 0x28, 0x22], 1],
  [[0xef, 0xbf, 0xbd, 0x80], 3],
  [[0xef, 0xbb, 0xbf, 0xe2, 0x82], 3],
])('the first byte of %p that is not UTF-8 is at offset %d', (bytes, offset) => {
  expect(utf8Error(Uint8Array.from(bytes))).toBe(
    `must be in UTF-8: the byte at offset ${offset} is not valid`,
  );
});
