import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import type { z } from 'zod';
import {
  DateTime,
  Description,
  dedupe,
  Id,
  Name,
  originalIndex,
  parseDateTime,
  requireFuture,
  Timestamp,
  timestamp,
} from '../../src/domain/common-fields.ts';
import { unknownKey } from '../support/keys.ts';

const messageOf = (schema: z.ZodType, value: unknown) => schema.safeParse(value).error?.issues[0]?.message;

describe('a date-time', () => {
  test.each([
    ['2030-01-31T12:00:00Z', '2030-01-31T12:00:00.000Z'],
    ['2030-01-31T12:00:00', '2030-01-31T12:00:00.000Z'],
    ['2030-01-31T12:00', '2030-01-31T12:00:00.000Z'],
    ['2030-01-31t12:00:00z', '2030-01-31T12:00:00.000Z'],
    ['2030-01-31T12:00:00+02:00', '2030-01-31T10:00:00.000Z'],
    ['2030-01-31T12:00:00+02:59', '2030-01-31T09:01:00.000Z'],
    ['2030-01-31T12:00:00+0200', '2030-01-31T10:00:00.000Z'],
    ['2030-01-31T12:00:00+02', '2030-01-31T10:00:00.000Z'],
    ['2030-01-31T12:00:00-05:30', '2030-01-31T17:30:00.000Z'],
    ['2030-01-31T12:00:00-00:00', '2030-01-31T12:00:00.000Z'],
    ['2030-12-31T23:30:00-01:00', '2031-01-01T00:30:00.000Z'],
    ['2030-01-31T12:00:00.5Z', '2030-01-31T12:00:00.500Z'],
    ['2030-01-31T12:00:00.1239Z', '2030-01-31T12:00:00.123Z'],
    ['2030-01-31T12:00:00.999999999Z', '2030-01-31T12:00:00.999Z'],
    ['2028-02-29T00:00:00Z', '2028-02-29T00:00:00.000Z'],
    ['2000-02-29T00:00:00Z', '2000-02-29T00:00:00.000Z'],
    ['0000-01-01T00:00:00Z', '0000-01-01T00:00:00.000Z'],
    ['0001-01-01T00:00:00Z', '0001-01-01T00:00:00.000Z'],
    ['9999-12-31T23:59:59.999Z', '9999-12-31T23:59:59.999Z'],
  ])('%s is %s', (text, time) => {
    expect(timestamp(parseDateTime(text)!)).toBe(time);
  });

  test.each([
    [''],
    ['tomorrow'],
    ['2030-01-31'],
    ['2030-02-29T00:00:00Z'],
    ['1900-02-29T00:00:00Z'],
    ['2030-02-30T00:00:00Z'],
    ['2030-04-31T00:00:00Z'],
    ['2030-00-10T00:00:00Z'],
    ['2030-13-01T00:00:00Z'],
    ['2030-01-00T00:00:00Z'],
    ['2030-01-32T00:00:00Z'],
    ['2030-01-99T00:00:00Z'],
    ['2030-99-01T00:00:00Z'],
    ['2030-99-99T00:00:00Z'],
    ['2030-01-31T24:00:00Z'],
    ['2030-01-31T12:60:00Z'],
    ['2030-01-31T12:00:60Z'],
    ['2030-01-31T12:00:00+24:00'],
    ['2030-01-31T12:00:00+02:60'],
    ['2030-01-31T12:00:00.Z'],
    ['2030-01-31T12:00:00 Z'],
    ['2030-01-31 12:00:00Z'],
    ['2030-1-31T12:00:00Z'],
    ['+02030-01-31T12:00:00Z'],
    ['12030-01-31T12:00:00Z'],
    ['2030-01-31T12:00:00Zulu'],
    ['2030-01-31T12:00:00Z\n'],
    ['٢٠٣٠-01-31T12:00:00Z'],
    ['9999-12-31T23:59:59-00:01'],
    ['0000-01-01T00:00:00+00:01'],
    ['1900000000000'],
  ])('%p is invalid', (text) => {
    expect(parseDateTime(text)).toBeUndefined();
  });

  test('is parsed to milliseconds, or rejected with an example', () => {
    expect(DateTime.parse('2030-01-31T12:00:00Z')).toBe(Date.parse('2030-01-31T12:00:00Z'));
    for (const wrong of ['soon', 1893456000])
      expect(messageOf(DateTime, wrong)).toBe('must be an ISO 8601 date-time, such as 2030-01-31T12:00:00Z');
  });

  test('is returned with exactly three decimals', () => {
    expect(Timestamp.safeParse(timestamp(0)).success).toBe(true);
    for (const other of [
      '1970-01-01T00:00:00Z',
      '1970-01-01T00:00:00.000000Z',
      '1970-01-01T00:00:00.000+00:00',
    ])
      expect(Timestamp.safeParse(other).success).toBe(false);
  });

  const anyTime = fc
    .date({
      min: new Date('0000-01-02T00:00:00Z'),
      max: new Date('9999-12-30T00:00:00Z'),
      noInvalidDate: true,
    })
    .map((date) => date.getTime());

  test('round-trips', () => {
    fc.assert(fc.property(anyTime, (time) => expect(parseDateTime(timestamp(time))).toBe(time)));
  });

  test('is the same time in every offset', () => {
    const offset = fc.integer({ min: -23 * 60 - 59, max: 23 * 60 + 59 });
    fc.assert(
      fc.property(anyTime, offset, (time, minutes) => {
        const size = Math.abs(minutes);
        const [hours, rest] = [Math.floor(size / 60), size % 60].map((part) => String(part).padStart(2, '0'));
        const local = timestamp(time + minutes * 60_000).slice(0, -1);
        expect(parseDateTime(`${local}${minutes < 0 ? '-' : '+'}${hours}:${rest}`)).toBe(time);
      }),
    );
  });

  test('is accepted only if Date.parse agrees', () => {
    const part = fc.constantFrom('0', '1', '2', '3', '5', '9', '-', ':', 'T', 'Z', '+', '.', ' ');
    const nearly = fc
      .tuple(anyTime, fc.nat(23), part)
      .map(([time, at, to]) => timestamp(time).slice(0, at) + to + timestamp(time).slice(at + 1));
    fc.assert(
      fc.property(nearly, (text) => {
        const time = parseDateTime(text);
        if (time === undefined) return;
        const inFull = /(Z|[+-]\d\d:?\d*)$/i.test(text.slice(11)) ? text : `${text}Z`;
        expect(Date.parse(inFull)).toBe(time);
      }),
      { numRuns: 1000 },
    );
  });
});

describe('a name', () => {
  test.each([
    ['x'],
    ['x'.repeat(200)],
    ['🗝'.repeat(200)],
    [' padded '],
    ["Robert'); drop table--"],
    ['مفتاح'],
    ['👨‍👩‍👧'],
  ])('can be %p', (name) => {
    expect(Name.parse(name)).toBe(name);
  });

  test.each([
    ['', 'must have 1 to 200 characters'],
    ['x'.repeat(201), 'must have 1 to 200 characters'],
    ['🗝'.repeat(201), 'must have 1 to 200 characters'],
    ['   ', 'must not be only white space'],
    ['\u00a0\u3000', 'must not be only white space'],
    ['a\nb', 'must not contain control characters: U+000A at position 2'],
    ['\0b', 'must not contain control characters: U+0000 at position 1'],
    ['🗝a\u0085b', 'must not contain control characters: U+0085 at position 3'],
    ['gpj\u202eexe', 'must not contain bidirectional control characters: U+202E at position 4'],
    ['a\u2066b', 'must not contain bidirectional control characters: U+2066 at position 2'],
    ['a\u200f', 'must not contain bidirectional control characters: U+200F at position 2'],
    ['\u061ca', 'must not contain bidirectional control characters: U+061C at position 1'],
    ['half a pair \ud83d', 'must be well-formed Unicode'],
  ])('cannot be %p: it %s', (name, message) => {
    expect(messageOf(Name, name)).toBe(message);
  });

  test('is not changed', () => {
    const decomposed = 'e\u0301';
    expect(Name.parse(decomposed)).toBe(decomposed);
  });
});

test('a description may be empty and have several lines, but no other control characters', () => {
  for (const text of ['', 'one\ntwo\tthree', 'x'.repeat(1000)]) expect(Description.parse(text)).toBe(text);
  const rejected = 'must not contain control characters other than line feed and tab';
  expect(messageOf(Description, 'one\ntwo\r')).toBe(`${rejected}: U+000D at position 8`);
  expect(messageOf(Description, '\u001b[31m')).toBe(`${rejected}: U+001B at position 1`);
  expect(messageOf(Description, 'one\u202e')).toBe(
    'must not contain bidirectional control characters: U+202E at position 4',
  );
  expect(messageOf(Description, 'x'.repeat(1001))).toBe('must have 0 to 1000 characters');
});

test('an id is a UUID in upper or lower case, stored in lower case', () => {
  expect(Id.parse('0197F3C2-5A1E-7C40-9D2B-3F8E6A1B4C5D')).toBe('0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5d');
  const one = '0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5d';
  const wrong = [
    '',
    'key',
    one.replaceAll('-', ''),
    `{${one}}`,
    `x${one}`,
    `${one}\n`,
    one.replace('5d', '5g'),
  ];
  for (const text of wrong)
    expect(messageOf(Id, text)).toBe('must be a UUID, such as 0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5d');
});

test.each(['pvt', 'non'] as const)('a text cannot contain a secret of the kind %s', (kind) => {
  const message = 'must not contain a key or a nonce, because it is stored unencrypted';
  const secret = unknownKey(kind).secret.reveal();
  for (const schema of [Name, Description]) expect(messageOf(schema, `is ${secret}`)).toBe(message);
});

test('dedupe returns the first entry of each identity and originalIndex its index in the list', () => {
  const list = ['a1', 'a2', 'b1', 'a3', 'c1', 'b2'];
  const unique = dedupe(list, (entry) => entry[0]);
  expect(unique).toEqual(['a1', 'b1', 'c1']);
  expect(unique.map((_, index) => originalIndex(unique, index))).toEqual([0, 2, 4]);
  expect(originalIndex(list, 3)).toBe(3);
});

test('an expiry must be after the time of the request, or absent', () => {
  for (const expiry of [undefined, 11]) expect(requireFuture(expiry, 10)).toBeUndefined();
  const failure = { code: 'validation_failed', errors: { expires_at: ['must be in the future'] } };
  for (const expiry of [0, 9, 10])
    expect(() => requireFuture(expiry, 10)).toThrow(expect.objectContaining(failure));
});
