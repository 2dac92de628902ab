/** Validation uses compiled schemas, which must return the same errors as the schemas. */
import { describe, expect, test } from 'bun:test';
import { z } from 'zod';
import type { Failure } from '../../src/domain/error.ts';
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
    expect(values.length - rejected).toBeGreaterThan(3);
  });
});

describe('error messages:', () => {
  const said = (schema: z.ZodType, value: unknown, at = 'body') => {
    try {
      return validate(schema, value, at);
    } catch (error) {
      return (error as Failure).errors?.x;
    }
  };

  test.each<[z.ZodType, unknown, string]>([
    [z.string().min(1), '', 'must have at least 1 character'],
    [z.string().min(2), '', 'must have at least 2 characters'],
    [z.string().max(1), 'ab', 'must have at most 1 character'],
    [z.array(z.string()).min(1), [], 'must have at least 1 entry'],
    [z.array(z.string()).max(2), ['a', 'b', 'c'], 'must have at most 2 entries'],
    [z.string(), ['a'], 'must be a string'],
  ])('of a field', (x, value, message) => {
    expect(said(z.object({ x }), { x: value })).toEqual([message]);
  });

  test.each([z.string(), z.enum(['a', 'b'])])('of a repeated parameter', (x) => {
    expect(said(z.object({ x }), { x: ['a', 'b'] }, 'query')).toEqual(['must not be repeated']);
  });
});
