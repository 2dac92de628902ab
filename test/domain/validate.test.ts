/** Validation uses compiled schemas, which must return the same errors as the schemas. */
import { describe, expect, test } from 'bun:test';
import { z } from 'zod';
import { type Errors, type Failure, maxErrors } from '../../src/domain/error.ts';
import { check, validate } from '../../src/domain/validate.ts';
import { routes } from '../../src/http/routes.ts';

const junk = [
  null,
  undefined,
  true,
  0,
  1,
  -1.5,
  '',
  ' ',
  'a\u0000b',
  '\ud800',
  '/a/b/',
  'a//b',
  'token:read',
  'token:reed',
  'mask',
  '2030-01-31T12:00:00Z',
  '2030-02-31T12:00:00Z',
  'x'.repeat(2001),
  [],
  [null],
  Array.from({ length: 101 }, () => 'token:read'),
  {},
  JSON.parse('{"__proto__":1}'),
];

/** Variants of the value: each part replaced by each invalid value, and an additional field. */
function* spoiled(value: unknown): Generator<unknown> {
  yield* junk;
  if (typeof value !== 'object' || value === null) return;
  if (!Array.isArray(value)) {
    yield { ...value, unknown: 1 };
    for (const name in value)
      yield Object.fromEntries(Object.entries(value).filter(([each]) => each !== name));
  }
  for (const [name, part] of Object.entries(value))
    for (const other of spoiled(part))
      yield Array.isArray(value) ? value.with(Number(name), other) : { ...value, [name]: other };
}

type Outcome = { data: unknown } | { faults: string[] };

function compiled(schema: z.ZodType, value: unknown): Outcome {
  try {
    return { data: validate(schema, value, 'body') };
  } catch (error) {
    const errors = Object.entries((error as Failure).errors ?? {});
    return { faults: errors.flatMap(([name, messages]) => messages.map((each) => `${name} ${each}`)).sort() };
  }
}

function plain(schema: z.ZodType, value: unknown): Outcome {
  const checked = check(schema, value);
  if ('data' in checked) return checked;
  return {
    faults: checked.faults.map(({ path, message }) => `${path.join('.') || 'body'} ${message}`).sort(),
  };
}

describe('a compiled schema returns the same result as the schema:', () => {
  const taken = routes.flatMap((route) =>
    'body' in route && route.body ? [{ name: route.name, body: route.body, example: route.bodyExample }] : [],
  );
  test.each(taken)('$name', ({ body, example }) => {
    let rejected = 0;
    const values = [example, ...spoiled(example)];
    for (const value of values) {
      const expected = plain(body, value);
      expect(compiled(body, value)).toStrictEqual(expected);
      if ('faults' in expected) rejected++;
    }
    expect(rejected).toBeGreaterThan(20);
    expect(values.length - rejected).toBeGreaterThan(2);
  });
});

const errorsOf = (schema: z.ZodType, value: unknown, part: string) => {
  try {
    return { data: validate(schema, value, part) };
  } catch (error) {
    return { ...(error as Failure).errors };
  }
};

describe('the error of a field', () => {
  const a = z.string();
  const withoutReason = z.any().superRefine((input, context) => {
    context.addIssue({ code: 'invalid_key', origin: 'record', issues: [], input });
  });
  test.each<[string, z.ZodType, unknown]>([
    ['is required', a, undefined],
    ['is required', z.enum(['a', 'b']), undefined],
    ['must be one of a, b', z.enum(['a', 'b']), 'c'],
    ['must be a string', a, ['a']],
    ['must be a number', z.number(), 'a'],
    ['must be an integer', z.int(), 1.5],
    ['must be a list', z.array(a), 'a'],
    ['must be an object', z.object({ a }), 'a'],
    ['must be an object', z.record(a, a), 'a'],
    ['must be true or false', z.boolean(), 'a'],
    ['must be date', z.date(), 'a'],
    ['must be at most 1', z.number().max(1), 2],
    ['must be at least 1', z.number().min(1), 0],
    ['must be at most 9007199254740991', z.int(), 2 ** 53],
    ['must be at least -9007199254740991', z.int(), -(2 ** 53)],
    ['must have at least 1 character', a.min(1), ''],
    ['must have at least 2 characters', a.min(2), ''],
    ['must have at most 1 character', a.max(1), 'ab'],
    ['must have at most 2 characters', a.max(2), 'abc'],
    ['must have at least 1 entry', z.array(a).min(1), []],
    ['must have at most 2 entries', z.array(a).max(2), ['a', 'b', 'c']],
    ['has an invalid name: it must have at most 1 character', z.record(a.max(1), a), { ab: 'c' }],
    ['has an invalid name: it is not valid', withoutReason, 1],
    ['is not valid', a.regex(/^b$/), 'a'],
  ])('%s', (message, x, value) => {
    const errors = errorsOf(z.object({ x }), { x: value }, 'body');
    expect(Object.values(errors)).toEqual([[message]]);
  });
});

describe('the error of a parameter', () => {
  const a = z.string();
  test.each<[string, z.ZodType, unknown]>([
    ['must not be repeated', a, ['a', 'b']],
    ['must not be repeated', z.enum(['a', 'b']), ['a', 'b']],
    ['is required', a, undefined],
    ['must be a string', a, 1],
    ['must have at least 1 character', a.min(1), ''],
    ['must have at most 1 entry', z.array(a).max(1), ['a', 'b']],
  ])('%s', (message, x, value) => {
    expect(errorsOf(z.object({ x }), { x: value }, 'query')).toEqual({ x: [message] });
  });
});

describe('the path of an error', () => {
  const list = z.strictObject({ list: z.array(z.strictObject({ name: z.string() })) });
  test.each<[string, unknown, string, Errors]>([
    ['the part of the request for the whole value', 1, 'body', { body: ['must be an object'] }],
    ['dotted for a nested field', { list: [{ name: 1 }] }, 'body', { 'list.0.name': ['must be a string'] }],
    [
      'the name of each unknown field',
      { list: [{ name: 'a', b: 1, c: 1 }] },
      'body',
      { 'list.0.b': ['is not a known field'], 'list.0.c': ['is not a known field'] },
    ],
    ['the name of an unknown parameter', { list: [], b: '1' }, 'query', { b: ['is not a known parameter'] }],
  ])('is %s', (_, value, part, expected) => {
    expect(errorsOf(list, value, part)).toEqual(expected);
  });

  test('is the same for several errors of one field', () => {
    const x = z.string().min(2).regex(/^b/, 'must start with b');
    const expected = { x: ['must have at least 2 characters', 'must start with b'] };
    expect(errorsOf(z.object({ x }), { x: 'a' }, 'body')).toEqual(expected);
  });
});

test.each<[string, z.ZodType, unknown]>([
  ['invalid entries', z.array(z.string()), Array.from({ length: 60 }, () => 1)],
  [
    'unknown fields',
    z.strictObject({}),
    Object.fromEntries(Array.from({ length: 60 }, (_, n) => [`f${n}`, 1])),
  ],
])('check returns at most 50 errors about %s', (_, schema, value) => {
  const checked = check(schema, value);
  expect('faults' in checked && checked.faults.length).toBe(maxErrors);
  expect(maxErrors).toBe(50);
});
