import { expect, test } from 'bun:test';
import { compareTransforms, stricter, Transform } from '../../src/domain/transform.ts';

test('redact is stricter than mask, and mask is stricter than reveal', () => {
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

test('stricter returns the transform that shows less', () => {
  const strictest = ['redact', 'mask', 'reveal'] as const;
  strictest.forEach((a, at) => {
    strictest.forEach((b, other) => {
      expect(stricter(a, b)).toBe(strictest[Math.min(at, other)]!);
      expect(Math.sign(compareTransforms(a, b))).toBe(Math.sign(at - other));
    });
  });
});

test('other transforms are rejected', () => {
  expect(Transform.safeParse('show').success).toBe(false);
});
