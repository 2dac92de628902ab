/** Lists: by page number with totals, or by cursor without them. */
import { z } from 'zod';
import type { Awaitable } from '../../domain/awaitable.ts';
import { throwIfInvalid } from '../../domain/error.ts';
import type { ListPage, ListWindow } from '../../store/store.ts';

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
    total_items: z
      .int()
      .min(0)
      .optional()
      .describe('How many entries there are in all. Absent with `start`, and for lists too long to count.'),
    page_number: z.int().min(1).optional().describe('Which page this is. Not with `start`.'),
    page_size: z.int().min(1).describe('How many entries a page has at most.'),
    total_pages: z.int().min(0).optional().describe('How many pages there are. Absent with `total_items`.'),
    next: z
      .string()
      .optional()
      .describe(
        'What to send as `start` for the entries after these. Absent at the end of the list; a page that is short or empty may have it.',
      ),
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

export const defaultSize = 20;

export const pageTooDeep = 'is too far from the newest entry: follow `next`, or send it as `start`';

/** How a store answers a list: see `ListPage`. */
type Found = Partial<Omit<ListPage<unknown>, 'rows'>>;

/** By page number with totals, as far as they could be counted, or by cursor without them. */
export async function paginate<T>(
  { size = defaultSize, page: given, start: before }: z.output<typeof PageQuery>,
  fetch: (window: ListWindow) => Awaitable<ListPage<T>>,
): Promise<Page<T>> {
  const page = before === undefined ? (given ?? 1) : undefined;
  const found = await fetch({ size, page, before });
  return { pagination: paginationOf(size, page, found), data: [...found.rows] };
}

export function paginationOf(
  size: number,
  page: number | undefined,
  { total, next, tooDeep }: Found,
): z.infer<typeof Pagination> {
  if (tooDeep) throwIfInvalid({ page: [pageTooDeep] });
  return {
    ...(total !== undefined && { total_items: total }),
    ...(page !== undefined && { page_number: page }),
    page_size: size,
    ...(total !== undefined && { total_pages: Math.ceil(total / size) }),
    ...(next !== undefined && { next: cursorOf(next) }),
  };
}

function cursorOf(id: string): string {
  return Buffer.from(id.replaceAll('-', ''), 'hex').toString('base64url');
}

function toUuid(hex: string): string {
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}
