import { describe, expect, test } from 'bun:test';
import { findInexactNumber } from '../../src/domain/number-precision.ts';

const numbers = ['12345678901234567890', '1e400', '1E-400', '0.1234567890123456789', '1.5e+999'].flatMap(
  (number) => [number, `-${number}`],
);

describe.each(numbers)('the number %s, which loses precision,', (number) => {
  test.each([
    ['alone', number, ''],
    ['after a line feed', `\n${number}`, ''],
    ['first in a list', `[${number}]`, '0'],
    ['later in a list', `[0,${number}]`, '1'],
    ['after a space in a list', `[0,\t ${number} ]`, '1'],
    ['in a field', `{"a":{"b":${number}}}`, 'a.b'],
    ['in a field after spaces', `{"a" : ${number}}`, 'a'],
  ])('is found %s', (_where, json, path) => {
    expect(findInexactNumber(json)).toBe(path);
  });

  test('is accepted in a string', () => {
    for (const text of [number, `a ${number}`, `[${number}]`, `{"a":${number}}`])
      expect(findInexactNumber(JSON.stringify({ text, [text]: 1 }))).toBeUndefined();
  });
});

test.each(['1', '-1.5', '[1e5, 2E-3]', '{"a":123456789012345}', '[0.1, 100000000000000000000]'])(
  '%s is exact',
  (json) => {
    expect(findInexactNumber(json)).toBeUndefined();
  },
);
