import { z } from 'zod';

/** How much of a token's data a response contains, strictest first. */
const transforms = ['redact', 'mask', 'reveal'] as const;

export const Transform = z.enum(transforms);
export type Transform = z.infer<typeof Transform>;

/** Negative if `a` is stricter than `b`. */
export function compareTransforms(a: Transform, b: Transform): number {
  return transforms.indexOf(a) - transforms.indexOf(b);
}

export function stricter(a: Transform, b: Transform): Transform {
  return compareTransforms(a, b) <= 0 ? a : b;
}
