import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { jsonLimitError, maxJsonValues } from '../../src/domain/json-limits.ts';

const tooDeep = 'must not be nested deeper than 32 levels';
const tooMany =
  'must have at most 10000 values and field names: store parts of it separately, or store it as one string';
const nested = (levels: number, open: string, close: string) => open.repeat(levels) + close.repeat(levels);
/** A list counts as one value, and each item as one. */
const list = (length: number) => `[${Array(length).fill('0').join()}]`;
/** The values and their names, without the object. */
const fields = (count: number) => `{${Array(count).fill('"a":0').join()}}`;

describe('a JSON text', () => {
  test.each([
    ['a value', '0'],
    ['an empty text', ''],
    ['32 lists', nested(32, '[', ']')],
    ['32 objects', nested(32, '{"a":', '}')],
    ['many lists beside each other', `[${Array(2000).fill('[]').join()}]`],
    ['many objects beside each other', `[${Array(2000).fill('{}').join()}]`],
    ['as many values as possible', list(maxJsonValues - 1)],
    ['as many fields as possible', fields(maxJsonValues / 2 - 1)],
    ['a string with brackets', JSON.stringify('[{'.repeat(100))],
    ['a string with commas and colons', JSON.stringify(',:'.repeat(maxJsonValues))],
    ['a string with quotes and brackets', JSON.stringify('"[{,:'.repeat(maxJsonValues))],
    ['a string that ends with a backslash', `["\\\\",${JSON.stringify('['.repeat(100))}]`],
    ['an empty string before a string with brackets', `["",${JSON.stringify('['.repeat(100))}]`],
    ['a string without an end', `"${'['.repeat(100)}`],
    ['an escaped quote at the end', `"\\"${'['.repeat(100)}`],
  ])('with %s is accepted', (_, json) => {
    expect(jsonLimitError(json)).toBeUndefined();
  });

  test.each([
    ['33 lists', nested(33, '[', ']'), tooDeep],
    ['33 objects', nested(33, '{"a":', '}'), tooDeep],
    ['33 lists that do not end', '['.repeat(33), tooDeep],
    ['other values in 33 lists', '[0,'.repeat(33), tooDeep],
    ['lists after a string with an escaped quote', `["\\"",${'['.repeat(32)}`, tooDeep],
    ['lists after a string that ends with a backslash', `["\\\\",${'['.repeat(32)}`, tooDeep],
    ['lists after an empty string', `["",${'['.repeat(32)}`, tooDeep],
    ['one value too many', list(maxJsonValues), tooMany],
    ['one field too many', fields(maxJsonValues / 2), tooMany],
    [
      'too many empty lists',
      `[${Array(maxJsonValues / 2)
        .fill('[]')
        .join()}]`,
      tooMany,
    ],
    [
      'too many empty objects',
      `[${Array(maxJsonValues / 2)
        .fill('{}')
        .join()}]`,
      tooMany,
    ],
  ])('with %s is rejected', (_, json, error) => {
    expect(jsonLimitError(json)).toBe(error);
  });

  test('is nested as deep as its value; brackets in strings do not count', () => {
    const value = fc.letrec((tie) => ({
      value: fc.oneof(
        { maxDepth: 3 },
        fc.string({ unit: fc.constantFrom('"', '\\', '[', ']', '{', '}', 'a') }),
        fc.array(tie('value'), { maxLength: 3 }),
      ),
    })).value;
    const depth = (of: unknown): number => (Array.isArray(of) ? 1 + Math.max(0, ...of.map(depth)) : 0);
    fc.assert(
      fc.property(value, fc.nat(6), (inner, less) => {
        const levels = 32 - less;
        const json = nested(levels, '[', ']').replace('[]', `[${JSON.stringify(inner)}]`);
        expect(jsonLimitError(json)).toBe(levels + depth(inner) > 32 ? tooDeep : undefined);
      }),
    );
  });
});
