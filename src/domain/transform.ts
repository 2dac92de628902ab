import { z } from 'zod';

/** What is left of a Token's data in a response, strictest first. */
const transforms = ['redact', 'mask', 'reveal'] as const;

export const Transform = z.enum(transforms);
export type Transform = z.infer<typeof Transform>;

/** Negative when `a` shows less than `b`. */
export function compareTransforms(a: Transform, b: Transform): number {
  return transforms.indexOf(a) - transforms.indexOf(b);
}

export function stricter(a: Transform, b: Transform): Transform {
  return compareTransforms(a, b) <= 0 ? a : b;
}
