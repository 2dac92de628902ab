import { describe, expect, test } from 'bun:test';
import {
  codes,
  Failure,
  fail,
  maxErrors,
  orNotFound,
  problem,
  throwIfInvalid,
} from '../../src/domain/error.ts';

describe('the error table', () => {
  test.each(codes)('%s has a status, a title and a detail', (code) => {
    const { status, title, detail } = problem(code);
    expect(status).toBeGreaterThanOrEqual(400);
    expect(status).toBeLessThan(600);
    expect(title).toMatch(/^[A-Z][^.]+$/);
    expect(detail).toMatch(/^[A-Z].+\.$/);
  });

  test('has unique titles', () => {
    expect(new Set(codes.map((code) => problem(code).title)).size).toBe(codes.length);
  });
});

describe('a failure', () => {
  test('has the detail of its code unless one is given', () => {
    expect(fail('nonce_used')).toMatchObject({
      code: 'nonce_used',
      message: 'nonce_used',
      detail: problem('nonce_used').detail,
      errors: undefined,
      cause: undefined,
      retryAfter: undefined,
      expected: false,
    });
    expect(fail('nonce_used', { detail: 'Better.' }).detail).toBe('Better.');
    const options = { retryAfter: 3, expected: true } as const;
    expect(fail('unavailable', options)).toMatchObject(options);
  });

  test('does not expose its cause', () => {
    const cause = new Error('secret');
    const failure = fail('internal', { cause, errors: { a: ['b'] } });
    expect(failure).toBeInstanceOf(Failure);
    expect(failure.cause).toBe(cause);
    expect(failure.errors).toEqual({ a: ['b'] });
    expect(JSON.stringify([failure, failure.message, failure.detail])).not.toContain('secret');
  });
});

describe('the errors of a failure', () => {
  const errorsOf = (errors: Record<string, string[]>) => ({
    ...fail('validation_failed', { errors }).errors,
  });
  const numbered = (count: number) => Array.from({ length: count }, (_, n) => `message ${n}`);

  test.each([maxErrors - 1, maxErrors, maxErrors + 1, 2 * maxErrors])('are limited to 50 of %d', (count) => {
    const kept = numbered(Math.min(count, 50));
    expect(errorsOf({ a: numbered(count) })).toEqual({ a: kept });
    const byField = (messages: string[]) => Object.fromEntries(messages.map((each) => [each, [each]]));
    expect(errorsOf(byField(numbered(count)))).toEqual(byField(kept));
  });

  test('are limited to 65,536 bytes', () => {
    // The name "a" has 3 bytes with quotes. The quotes of the message count as 2, and punctuation counts as 6.
    const longest = 65_536 - 3 - 2 - 6;
    const errors = (length: number) => ({ a: ['x'.repeat(length)] });
    expect(errorsOf(errors(longest))).toEqual(errors(longest));
    expect(errorsOf(errors(longest + 1))).toEqual({});
    expect(errorsOf({ a: ['é'.repeat(longest / 2 + 1)] })).toEqual({});
    const half = 'x'.repeat(30_000);
    expect(errorsOf({ a: [half, half, half], b: ['short'] })).toEqual({ a: [half, half] });
  });

  test.each([
    ['n'.repeat(200), 'n'.repeat(200)],
    ['n'.repeat(201), `${'n'.repeat(200)}…`],
    [`${'n'.repeat(199)}🗝`, `${'n'.repeat(199)}🗝`],
    [`${'n'.repeat(199)}🗝n`, `${'n'.repeat(199)}🗝…`],
  ])('have paths of at most 200 characters and an ellipsis', (name, path) => {
    expect(errorsOf({ [name]: ['is invalid'] })).toEqual({ [path]: ['is invalid'] });
  });
});

test('orNotFound returns any value except undefined and false, for which it throws not_found', () => {
  for (const value of [0, '', null, true, 'x']) expect(orNotFound<unknown>(value)).toBe(value);
  for (const absent of [undefined, false] as const)
    expect(() => orNotFound(absent)).toThrow(expect.objectContaining({ code: 'not_found' }));
});

test('throwIfInvalid throws all errors, and does not throw without errors', async () => {
  expect(throwIfInvalid({})).toBeUndefined();
  const errors = { name: ['is required'], rules: ['is too long'] };
  const thrown = Promise.try(throwIfInvalid, errors);
  await expect(thrown).rejects.toMatchObject({ code: 'validation_failed', errors });
});
