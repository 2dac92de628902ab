import { expect, test } from 'bun:test';
import { lazy } from '../../src/domain/lazy.ts';

test.each([['a value'], [undefined], [0]])('%p is made once, at the first call', (value) => {
  let made = 0;
  const get = lazy(() => {
    made++;
    return value;
  });
  expect(made).toBe(0);
  expect([get(), get(), made]).toEqual([value, value, 1]);
});
