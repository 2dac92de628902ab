import { describe, expect, test } from 'bun:test';
import { codes, Failure, fail, problem, throwIfInvalid } from '../../src/domain/error.ts';

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
    });
    expect(fail('nonce_used', { detail: 'Better.' }).detail).toBe('Better.');
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

test('throwIfInvalid throws all errors, and does not throw without errors', async () => {
  expect(throwIfInvalid({})).toBeUndefined();
  const errors = { name: ['is required'], rules: ['is too long'] };
  const thrown = Promise.try(throwIfInvalid, errors);
  await expect(thrown).rejects.toMatchObject({ code: 'validation_failed', errors });
});
