/** Pagination: by page number with totals, or by cursor without them. */
import { z } from 'zod';
import { Count, Text } from '../../domain/common-fields.ts';
import { throwIfInvalid } from '../../domain/error.ts';
import { JsonText } from '../../domain/json-text.ts';
import type { Steps } from '../../domain/steps.ts';
import type { ListOrder, ListPage, ListWindow, Reserve } from '../../store/store.ts';

/** An optional integer in a query. `fallback` is documented but not applied. */
export function integer(min: number, max: number, fallback: number, description: string) {
  const message = `must be an integer from ${min} to ${max}`;
  return z
    .string()
    .regex(/^\d{1,10}$/, message)
    .transform(Number)
    .refine((value) => value >= min && value <= max, message)
    .optional()
    .meta({ type: 'integer', minimum: min, maximum: max, default: fallback, description });
}

const cursorText =
  'A cursor: the `next` value of an earlier response. The response then has no totals. Cannot be combined with `page`.';

/** Where a list continues. */
const ListCursor = z
  .string()
  .transform((text, context) => {
    const cursor = decodeCursor(text);
    if (cursor) return cursor;
    context.addIssue('must be a `next` value of an earlier response');
    return z.NEVER;
  })
  .describe(cursorText);

/** A cursor of lists that are always newest first. */
export const Cursor = ListCursor.transform(({ id, order }, context) => {
  if (order === 'newest') return id;
  context.addIssue('is a cursor of a list with `order=oldest`');
  return z.NEVER;
}).describe(cursorText);

/** The query parameters of lists that are always newest first. */
export const pageFields = {
  page: integer(1, 1_000_000_000, 1, 'The page number, starting at 1.'),
  size: integer(1, 100, 20, 'The maximum number of entries on a page.').transform((size) => size ?? 20),
  start: Cursor.optional(),
};

export function pageQuery<F extends z.ZodRawShape>(filters: F) {
  return z.strictObject({ ...pageFields, ...filters }).refine(
    (query) => {
      const { page, start } = query as { page?: unknown; start?: unknown };
      return page === undefined || start === undefined;
    },
    { path: ['start'], error: 'cannot be combined with page' },
  );
}

const orderFields = {
  start: ListCursor.optional(),
  order: z.enum(['newest', 'oldest']).optional().meta({
    default: 'newest',
    description: 'Whether the newest or the oldest entries come first. Send it for every page.',
  }),
};
const ListQuery = z.object({ ...pageFields, ...orderFields });
type ListQuery = z.output<typeof ListQuery>;

export function listQuery<F extends z.ZodRawShape>(filters: F) {
  return pageQuery({ ...orderFields, ...filters }).refine(
    (query) => {
      const { start, order = 'newest' } = query as ListQuery;
      return start === undefined || start.order === order;
    },
    { path: ['start'], error: 'is a cursor of the other `order`: send the `order` of its list' },
  );
}

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
      description: 'Filter by ids. Repeat the parameter or separate ids with commas.',
    });
}

export const Pagination = z
  .object({
    total_items: Count.optional().describe(
      'The total number of entries. Absent with `start`, and for lists that are too long to count.',
    ),
    page_number: z.int().min(1).optional().describe('The page number. Absent with `start`.'),
    page_size: z.int().min(1).describe('The maximum number of entries on a page.'),
    total_pages: Count.optional().describe('The total number of pages. Absent if `total_items` is absent.'),
    next: Text.optional().describe(
      'The cursor of the next page, to send as `start`. Absent on the last page. A page that is short or empty can have it.',
    ),
  })
  .meta({ id: 'Pagination' });

export function pageOf<S extends z.ZodType>(schema: S) {
  const name = z.globalRegistry.get(schema)?.id;
  return z
    .object({ pagination: Pagination, data: z.array(schema).describe('The entries of this page.') })
    .meta(name ? { id: `${name}Page` } : {});
}

type PageInfo = Partial<Omit<ListPage<unknown>, 'rows'>> & Pick<ListWindow, 'order'>;

export async function paginate<T>(
  { size, page: given, start, order }: ListQuery,
  reserve: Reserve,
  fetch: (window: ListWindow) => Promise<ListPage<T>>,
): Promise<{ pagination: z.infer<typeof Pagination>; data: T[] }> {
  const page = start === undefined ? (given ?? 1) : undefined;
  const found = await fetch({ size, page, start: start?.id, order, reserve });
  const { isCut, next, rows } = found;
  if (isCut && given !== undefined)
    throwIfInvalid({
      size: ['makes the page larger than 8 MiB: use a smaller one, or `start` without `page`'],
    });
  const pagination = isCut
    ? paginationOf(size, undefined, { next, order })
    : paginationOf(size, page, { ...found, order });
  return { pagination, data: [...rows] };
}

/** Serializes a page row by row, because its rows can be large. */
export function* pageText({ data, ...others }: { readonly data: readonly unknown[] }): Steps<JsonText> {
  const rows: JsonText[] = [];
  for (const row of data) {
    yield;
    rows.push(JsonText.of(row));
  }
  return JsonText.extended(others, 'data', JsonText.list(rows));
}

export function paginationOf(
  size: number,
  page: number | undefined,
  { total, next, tooDeep, order }: PageInfo,
): z.infer<typeof Pagination> {
  if (tooDeep) throwIfInvalid({ page: ['is too high to be reached: use `next` as `start` instead'] });
  return {
    ...(total !== undefined && { total_items: total }),
    ...(page !== undefined && { page_number: page }),
    page_size: size,
    ...(total !== undefined && { total_pages: Math.ceil(total / size) }),
    ...(next !== undefined && { next: cursorOf(next, order) }),
  };
}

/** Cursors of lists with the oldest entries first begin with this byte, so that nobody reads on in the other order. */
const oldestMark = '01';

export function cursorOf(id: string, order?: ListOrder): string {
  const mark = order === 'oldest' ? oldestMark : '';
  return Buffer.from(mark + id.replaceAll('-', ''), 'hex').toString('base64url');
}

function decodeCursor(text: string): { readonly id: string; readonly order: ListOrder } | undefined {
  const hex = Buffer.from(text, 'base64url').toString('hex');
  const [, mark, ...parts] = /^(01)?(.{8})(.{4})(.{4})(.{4})(.{12})$/.exec(hex) ?? [];
  const cursor = { id: parts.join('-'), order: mark ? 'oldest' : 'newest' } as const;
  return parts.length > 0 && cursorOf(cursor.id, cursor.order) === text ? cursor : undefined;
}
