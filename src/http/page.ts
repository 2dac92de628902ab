/** Lists: by page number with totals, or by cursor without them. */
import { z } from 'zod';
import type { Awaitable } from '../domain/awaitable.ts';
import type { Window } from '../store/store.ts';

function whole(least: number, most: number, fallback: number, description: string) {
  const message = `must be a whole number from ${least} to ${most}`;
  return z
    .string()
    .regex(/^\d{1,10}$/, message)
    .transform(Number)
    .refine((value) => value >= least && value <= most, message)
    .optional()
    .meta({ type: 'integer', minimum: least, maximum: most, default: fallback, description });
}

const Cursor = z
  .string()
  .transform((text, context) => {
    const bytes = Buffer.from(text, 'base64url');
    if (bytes.length === 16 && bytes.toString('base64url') === text) return toUuid(bytes.toString('hex'));
    context.addIssue('must be a cursor from `next` of an earlier reply');
    return z.NEVER;
  })
  .optional()
  .describe(
    'Go on behind this cursor, the `next` of an earlier reply. Totals are left out then. Not together with `page`.',
  );

/** The query parameters that every list takes. */
export const pageFields = {
  page: whole(1, 1_000_000_000, 1, 'Which page, from 1.'),
  size: whole(1, 100, 20, 'How many entries a page has at most.'),
  start: Cursor,
};

export const PageQuery = z.strictObject(pageFields);

/** Filters by id: `id=A&id=B` or `id=A,B`. */
export function oneOrMore<S extends z.ZodType<unknown, string>>(
  schema: S,
  items: { type: string; format?: string },
) {
  return z
    .union([z.string(), z.array(z.string())])
    .transform((given) => [given].flat().flatMap((text) => text.split(',')))
    .pipe(z.array(schema).max(100))
    .optional()
    .meta({
      type: 'array',
      items,
      maxItems: 100,
      description: 'Only those with these ids: repeated, or separated by commas.',
    });
}

/** `page` and `start` are two ways to say the same. */
export function notBoth(query: z.output<typeof PageQuery>): boolean {
  return query.page === undefined || query.start === undefined;
}
export const notBothError = { path: ['start'], error: 'cannot be combined with page' };

export const Pagination = z
  .object({
    total_items: z.int().min(0).optional().describe('How many entries there are in all. Not with `start`.'),
    page_number: z.int().min(1).optional().describe('Which page this is. Not with `start`.'),
    page_size: z.int().min(1).describe('How many entries a page has at most.'),
    total_pages: z.int().min(0).optional().describe('How many pages there are. Not with `start`.'),
    next: z
      .string()
      .optional()
      .describe('What to send as `start` for the entries after these; absent when there are none.'),
  })
  .meta({ id: 'Pagination' });

export function pageOf<S extends z.ZodType>(schema: S) {
  const name = z.globalRegistry.get(schema)?.id;
  return z
    .object({ pagination: Pagination, data: z.array(schema).describe('The entries.') })
    .meta(name ? { id: `${name}Page` } : {});
}

interface Page<T> {
  readonly pagination: z.infer<typeof Pagination>;
  readonly data: T[];
}

const defaultSize = 20;

/** By page number with totals, or by cursor without them. `cursorOf` gives the id by which rows are ordered. */
export async function paginate<T>(
  query: z.output<typeof PageQuery>,
  fetch: (window: Window) => Awaitable<T[]>,
  count: () => Awaitable<number>,
  cursorOf: (row: T) => string,
): Promise<Page<T>> {
  const { page = 1, size = defaultSize, start } = query;
  const offset = start === undefined ? (page - 1) * size : 0;
  const [rows, total] = await Promise.all([
    Promise.try(fetch, { limit: size + 1, offset, before: start }),
    start === undefined ? Promise.try(count) : undefined,
  ]);
  const totals =
    total === undefined
      ? {}
      : { total_items: total, page_number: page, total_pages: Math.ceil(total / size) };
  return cut(rows, size, totals, cursorOf);
}

/** For what only grows: always by cursor. */
export async function paginateByCursor<T extends { id: string }>(
  size = defaultSize,
  start: string | undefined,
  fetch: (window: Omit<Window, 'offset'>) => Awaitable<T[]>,
): Promise<Page<T>> {
  return cut(await fetch({ limit: size + 1, before: start }), size, {}, ({ id }) => id);
}

/** One more than the page was fetched, to know whether there is a next one. */
function cut<T>(rows: T[], size: number, totals: object, cursorOf: (row: T) => string): Page<T> {
  const data = rows.slice(0, size);
  const last = rows.length > size ? data.at(-1) : undefined;
  const next = last && { next: Buffer.from(cursorOf(last).replaceAll('-', ''), 'hex').toString('base64url') };
  return { pagination: { ...totals, page_size: size, ...next }, data };
}

function toUuid(hex: string): string {
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}
