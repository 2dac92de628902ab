import { describe, expect, test } from 'bun:test';
import { JsonText } from '../../src/domain/json-text.ts';

const values = [
  0,
  -1.5e300,
  '',
  'é\n"\\\u2028',
  true,
  null,
  [],
  {},
  JSON.parse('{"2":"b","1":"a","__proto__":[1]}'),
];
const each = values.map((value) => [value]);

describe('JsonText', () => {
  test.each(each)('returns its value: %j', (value) => {
    expect(JsonText.of(value).value()).toEqual(value);
    expect(JSON.stringify({ inside: [JsonText.of(value)] })).toBe(JSON.stringify({ inside: [value] }));
  });

  test.each(each)('extends an object like JSON.stringify would: %j', (value) => {
    for (const object of [{}, { a: 1 }, { a: '}', b: {} }]) {
      const written = JSON.stringify({ ...object, 'da"ta': value });
      expect(JsonText.extended(object, 'da"ta', JsonText.of(value)).text).toBe(written);
    }
  });

  test('joins a list like JSON.stringify would', () => {
    expect(JsonText.list([]).text).toBe('[]');
    expect(JsonText.list(values.map((value) => JsonText.of(value))).text).toBe(JSON.stringify(values));
  });
});
