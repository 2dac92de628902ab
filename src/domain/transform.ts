import { z } from 'zod';

/** What is left of a Token's data in a response, strictest first. */
export const Transform = z.enum(['redact', 'mask', 'reveal']);
export type Transform = z.infer<typeof Transform>;
