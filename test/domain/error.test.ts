import { describe, expect, test } from 'bun:test';
import { codes, Failure, fail, problem, throwIfInvalid } from '../../src/domain/error.ts';

describe('every failure', () => {
  test.each(codes)('%s has a status, a title and a sentence', (code) => {
    const { status, title, detail } = problem(code);
    expect(status).toBeGreaterThanOrEqual(400);
    expect(status).toBeLessThan(600);
    expect(title).toMatch(/^[A-Z][^.]+$/);
    expect(detail).toMatch(/^[A-Z].+\.$/);
  });

  test('has a title of its own', () => {
    expect(new Set(codes.map((code) => problem(code).title)).size).toBe(codes.length);
  });
});

describe('a failure', () => {
  test('says what its code says, unless it knows better', () => {
    expect(fail('nonce_used')).toMatchObject({
      code: 'nonce_used',
      message: 'nonce_used',
      detail: problem('nonce_used').detail,
      errors: undefined,
      cause: undefined,
    });
    expect(fail('nonce_used', { detail: 'Better.' }).detail).toBe('Better.');
  });

  test('keeps its cause to itself', () => {
    const cause = new Error('secret');
    const failure = fail('internal', { cause, errors: { a: ['b'] } });
    expect(failure).toBeInstanceOf(Failure);
    expect(failure.cause).toBe(cause);
    expect(failure.errors).toEqual({ a: ['b'] });
    expect(JSON.stringify([failure, failure.message, failure.detail])).not.toContain('secret');
  });
});

test('what is wrong is refused with all that is wrong, and what is not is not', async () => {
  expect(throwIfInvalid({})).toBeUndefined();
  const errors = { name: ['is required'], rules: ['is too long'] };
  const refused = Promise.try(throwIfInvalid, errors);
  await expect(refused).rejects.toMatchObject({ code: 'validation_failed', errors });
});
