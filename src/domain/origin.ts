/** Web origins (scheme, host, port) whose pages may use a public key. */
import { z } from 'zod';
import type { Errors } from './error.ts';

/** No path, query, fragment or credentials, and no wildcard. */
const shape = /^[a-z][a-z0-9+.-]*:\/\/[^/?#@\\\s*]+$/i;

/** The form that browsers send in `Origin`. Returns undefined if the text is not an origin. */
export function originOf(text: string): string | undefined {
  if (!shape.test(text) || !URL.canParse(text)) return undefined;
  const { protocol, host } = new URL(text);
  return `${protocol}//${host.toLowerCase()}`;
}

const Origin = z
  .string()
  .max(300)
  .transform((text, context) => {
    const origin = originOf(text);
    if (origin !== undefined) return origin;
    context.addIssue(
      'must be an origin such as https://shop.example or http://localhost:3000, without a path',
    );
    return z.NEVER;
  });

export const Origins = z
  .array(Origin)
  .max(20)
  .transform((origins) => [...new Set(origins)]);

export function originErrors(type: string, origins: readonly string[] | undefined): Errors {
  if (type === 'public' || !origins || origins.length === 0) return {};
  return {
    allowed_origins: [
      `is only for public applications: the key of a ${type} application must not be used in a browser`,
    ],
  };
}
