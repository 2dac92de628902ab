import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { findInexactNumber as search } from '../../src/domain/number-precision.ts';
import { runSteps } from '../../src/domain/steps.ts';

const findInexactNumber = (json: string) => runSteps(search(json));

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

test.each([
  ['in the second of two fields', '{"a":"x","b":{"c":[null,true,1e400]}}', 'b.c.2'],
  ['before another one', '{"a":[1e400],"b":1e400}', 'a.0'],
  ['in a field whose name is a number', '{"1e400":1e400}', '1e400'],
  ['after an escaped quotation mark', String.raw`{"\"1e400":[1e400]}`, '"1e400.0'],
  ['after an escape in its name', String.raw`{"\t 1e400":1e400}`, '\t 1e400'],
  ['after two escapes', String.raw`{"\\\" 1e400, ":1e400}`, String.raw`\" 1e400, `],
  ['in a field that a later one replaces', '{"a":1e400,"a":1}', undefined],
])('a number %s: %s has the path %p', (_, json, path) => {
  expect(findInexactNumber(json)).toBe(path);
});

const zeros = (count: number) => '0'.repeat(count);

test.each([
  ['1'],
  ['-1.5'],
  ['[1e5, 2E-3]'],
  ['{"a":123456789012345}'],
  ['[0.1, 100000000000000000000]'],
  ['[0e5,-0.0,0.0E-12,0]'],
  ['100200300400500600000'],
  ['100000000000000000000e-5'],
  ['-123456789012345.000'],
  ['1.50000000000000e5'],
  ['1.50000000000000e10'],
  ['15.0000000000000e-8'],
  ['-0.00150000000000000E+3'],
  ['0.000000000000000000015'],
  [`0.${zeros(500)}`],
  [`0.5${zeros(1000)}`],
  [`${zeros(1)}.${zeros(300)}1${zeros(700)}`],
])('%s is exact', (json) => {
  expect(findInexactNumber(json)).toBeUndefined();
});

test.each([
  ['1.23456789e-320'],
  ['-1.23456789e-320'],
  ['9007199254740993'],
  ['1234567890123456.7890'],
  ['0.12345678901234567891'],
  ['-1.0000000000000000001'],
  ['12345678901234567890e-5'],
  [`1${zeros(300)}1`],
  // No one writes so many digits.
  [`0.5${zeros(1024)}`],
  ['0.00001e-320'],
  ['1.000000000000001e-310'],
])('%s is not exact', (json) => {
  expect(findInexactNumber(json)).toBe('');
});

/** Whether two decimal numbers are equal, computed with integers. */
function areEqual(...texts: [string, string]): boolean {
  const [a, b] = texts.map((text) => {
    const [, whole = '', fraction = '', exponent = '0'] =
      /^(-?\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i.exec(text) ?? [];
    return { mantissa: BigInt(whole + fraction), exponent: Number(exponent) - fraction.length };
  }) as [{ mantissa: bigint; exponent: number }, { mantissa: bigint; exponent: number }];
  const shared = Math.min(a.exponent, b.exponent);
  const scaled = ({ mantissa, exponent }: typeof a) => mantissa * 10n ** BigInt(exponent - shared);
  return scaled(a) === scaled(b);
}

test('a number is exact if the double has the same shortest decimal form, wherever its point is', () => {
  const digits = fc.string({ unit: fc.constantFrom(...'0123456789'), minLength: 13, maxLength: 18 });
  const parts = [fc.nat(18), fc.nat(4), fc.nat(4), fc.integer({ min: -30, max: 30 })] as const;
  fc.assert(
    fc.property(digits, ...parts, (given, point, before, after, exponent) => {
      const all = zeros(before) + given + zeros(after);
      const whole = all.slice(0, point).replace(/^0+(?=.)/, '') || '0';
      const text = `${whole}.${all.slice(point)}0e${exponent}`;
      expect(findInexactNumber(text) === undefined).toBe(areEqual(text, String(Number(text))));
    }),
    { numRuns: 2000, seed: 1 },
  );
});

test('the numbers of a large body are checked in many steps', () => {
  const numbers = Array.from({ length: 9900 }, (_, at) => `${at}.5${zeros(80)}`);
  expect([...search(`[${numbers.join()}]`)].length).toBeGreaterThan(30);
});
