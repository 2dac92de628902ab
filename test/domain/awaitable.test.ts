import { expect, test } from 'bun:test';
import { then } from '../../src/domain/awaitable.ts';

test('what is there at once goes on at once', () => {
  expect(then(20, (value) => value + 1)).toBe(21);
});

test('what is waited for goes on when it is there', async () => {
  const later = then(Promise.resolve(20), (value) => value + 1);
  expect(later).toBeInstanceOf(Promise);
  expect(await later).toBe(21);
});
