import { expect, test } from 'bun:test';
import { then } from '../../src/domain/awaitable.ts';

test('a value is passed on synchronously', () => {
  expect(then(20, (value) => value + 1)).toBe(21);
});

test('a promise is passed on when it resolves', async () => {
  const later = then(Promise.resolve(20), (value) => value + 1);
  expect(later).toBeInstanceOf(Promise);
  expect(await later).toBe(21);
});
