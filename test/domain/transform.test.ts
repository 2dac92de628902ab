import { expect, test } from 'bun:test';
import { compareTransforms, stricter, Transform } from '../../src/domain/transform.ts';

test('transforms from the strictest: redact, mask, reveal', () => {
  expect(Transform.options.toSorted(() => 0).toSorted(compareTransforms)).toEqual([
    'redact',
    'mask',
    'reveal',
  ]);
  expect((['reveal', 'mask', 'redact'] as const).toSorted(compareTransforms)).toEqual([
    'redact',
    'mask',
    'reveal',
  ]);
});

test('of two, the one that shows less is the stricter', () => {
  const strictest = ['redact', 'mask', 'reveal'] as const;
  strictest.forEach((a, at) => {
    strictest.forEach((b, other) => {
      expect(stricter(a, b)).toBe(strictest[Math.min(at, other)]!);
      expect(Math.sign(compareTransforms(a, b))).toBe(Math.sign(at - other));
    });
  });
});

test('there is no other', () => {
  expect(Transform.safeParse('show').success).toBe(false);
});
