import type { z } from 'zod';
import { fail } from '../../domain/error.ts';
import { validate } from '../../domain/validate.ts';

const nested = 'metadata.';

/** The query as its schema has it; without one, there must be none. */
export function readQuery(schema: z.ZodType | undefined, url: string): unknown {
  const mark = url.indexOf('?');
  if (mark < 0 && !schema) return undefined;
  const search = new URLSearchParams(mark < 0 ? '' : url.slice(mark + 1));
  if (schema) return validate(schema, collect(search), 'query');
  const unknown = [...new Set(search.keys())];
  if (unknown.length === 0) return undefined;
  throw fail('validation_failed', {
    errors: Object.fromEntries(unknown.map((name) => [name, ['is not a known parameter']])),
  });
}

/** One value as text, several as a list; `metadata.KEY=VALUE` as an entry of `metadata`. */
function collect(search: URLSearchParams): Record<string, unknown> {
  const query: Record<string, unknown> = Object.create(null);
  const metadata: Record<string, unknown> = Object.create(null);
  for (const name of new Set(search.keys())) {
    const values = search.getAll(name);
    const value = values.length === 1 ? values[0] : values;
    if (name.startsWith(nested)) metadata[name.slice(nested.length)] = value;
    else query[name] = value;
  }
  return Object.keys(metadata).length > 0 ? { ...query, metadata } : query;
}
