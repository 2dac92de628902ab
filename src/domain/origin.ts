/** Origins: of which pages, by scheme, host and port, a browser may use a public key. */
import { z } from 'zod';
import type { Errors } from './error.ts';

/** Nothing behind the host but a port, and no star that would stand for many. */
const shape = /^[a-z][a-z0-9+.-]*:\/\/[^/?#@\\\s*]+$/i;

/** As a browser names it in the Origin header; nothing if it is none. */
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
  return { allowed_origins: [`is for public Applications: the key of a ${type} one is not for browsers`] };
}
