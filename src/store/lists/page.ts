/**
 * The engine of all lists: finds one page of rows, newest or oldest first, then reads them. A request examines a bounded number of
 * rows, so a page may be short or empty although the list continues.
 */

import { type Clause, raw } from '../../db/statement.ts';
import type { Awaitable } from '../../domain/awaitable.ts';
import { nextTurn } from '../../domain/steps.ts';
import type { ListOrder, ListPage, ListWindow } from '../store.ts';

/** Maximum number of rows that a request examines. */
export const scanBudget = 2_000;
/** Maximum number of rows that are counted. Page numbers cannot go beyond it. */
export const countBudget = 10_000;

/** Greater than every generated id. */
export const maxId = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

/** The order of a list. Ids are in the order of creation. */
export interface Direction {
  /** Comes before every id. */
  readonly start: string;
  /** Compares an id with one that it must come after. */
  readonly after: Clause;
  /** Compares an id with the last one that is allowed. */
  readonly upTo: Clause;
  /** For `order by`. */
  readonly sorted: Clause;
  readonly precedes: (id: string, other: string) => boolean;
}

const directions: Record<ListOrder, Direction> = {
  newest: {
    start: maxId,
    after: raw('<'),
    upTo: raw('>='),
    sorted: raw('desc'),
    precedes: (id, other) => id > other,
  },
  oldest: {
    start: '00000000-0000-0000-0000-000000000000',
    after: raw('>'),
    upTo: raw('<='),
    sorted: raw('asc'),
    precedes: (id, other) => id < other,
  },
};

export const directionOf = ({ order = 'newest' }: Pick<ListWindow, 'order'>): Direction => directions[order];

export function inOrder<T>({ precedes }: Direction, rows: readonly T[], idOf: (row: T) => string): T[] {
  return rows.toSorted((a, b) => (precedes(idOf(a), idOf(b)) ? -1 : 1));
}

/** A row of the list, without its content. `seq` is its id, or its place in the list if it has another id. */
export interface Found {
  readonly seq: string;
}

/** Where a list finds its rows. */
export interface Scan<F extends Found> {
  /** After examining this many rows, no further step begins. */
  readonly limit: number;
  /** The number of all rows, or that they cannot be counted within `limit`. Undefined if only the scan can tell. */
  readonly total: number | 'too many' | undefined;
  /** Examines rows after `start`. Leaves out the first `skip` rows that it finds, and those after `max` more. */
  readonly step: (start: string, skip: number, max: number) => Promise<Step<F>>;
}

export interface Step<F extends Found> {
  readonly found: readonly F[];
  /** How many rows of the list were found, with those that are left out. May be too low if `found` has `max` rows. */
  readonly matches: number;
  readonly examined: number;
  /** The next step starts after it. Undefined if the list ends, or if `found` has `max` rows. */
  readonly end: string | undefined;
}

export type FoundPage<F extends Found> = Omit<ListPage<F>, 'isCut'>;

/** Other requests are handled between the steps. A page of size 0 only counts. */
export async function findPage<F extends Found>(
  { limit, total, step }: Scan<F>,
  start: string,
  { size, page }: Pick<ListWindow, 'size' | 'page'>,
): Promise<FoundPage<F>> {
  const skip = page === undefined ? 0 : (page - 1) * size;
  const max = size && size + 1;
  const counts = page !== undefined && total === undefined;
  const isReachable = total !== 'too many' || skip < limit;
  const found: F[] = [];
  let [matches, examined, position]: [number, number, string | undefined] = [0, 0, start];
  while (position !== undefined && isReachable && examined < limit && (counts || matches < skip + max)) {
    if (examined > 0) await nextTurn();
    const next = await step(position, Math.max(0, skip - matches), max - found.length);
    found.push(...next.found);
    matches += next.matches;
    examined += next.examined;
    position = next.end;
  }
  const counted = counts && position === undefined ? matches : undefined;
  return {
    rows: found.slice(0, size),
    next: found.length > size ? found[size - 1]?.seq : position,
    total: typeof total === 'number' ? total : counted,
    tooDeep: skip > 0 && matches <= skip && position !== undefined,
  };
}

interface Batch<F> {
  readonly rows: F[];
  bytes: number;
}

/** Splits rows into batches of at most `max` bytes. A larger row has its own batch. */
export function batchesOf<F>(rows: readonly F[], bytesOf: (row: F) => number, max: number): Batch<F>[] {
  const batches: Batch<F>[] = [];
  for (const row of rows) {
    const bytes = bytesOf(row);
    const last = batches.at(-1);
    if (last && last.bytes + bytes <= max) {
      last.rows.push(row);
      last.bytes += bytes;
    } else batches.push({ rows: [row], bytes });
  }
  return batches;
}

/** Other requests are handled between the batches, and before and after one of more than `large` bytes. */
export async function readBatches<F, S, R>(
  batches: readonly Batch<F>[],
  large: number,
  read: (batch: readonly F[]) => Awaitable<S[]>,
  toRow: (row: S) => R | undefined,
): Promise<R[]> {
  const rows: R[] = [];
  for (const [at, batch] of batches.entries()) {
    if (at > 0 || batch.bytes > large) await nextTurn();
    const stored = await read(batch.rows);
    // PostgreSQL answers many requests in one turn.
    if (batch.bytes > large) await nextTurn();
    for (const one of stored) {
      const row = toRow(one);
      if (row !== undefined) rows.push(row);
    }
  }
  return rows;
}
