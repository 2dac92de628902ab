/** Lists sessions by a property that the database cannot filter by. */
import type { Session } from '../../../domain/session.ts';
import type { ListPage, ListWindow } from '../../../store/store.ts';

/** Sessions that are read and checked in one statement. */
const batchSize = 100;
/** Maximum statements of one request. */
const maxBatches = 20;

/**
 * Reads batches until the page is full or `maxBatches` is reached. A page may therefore be short or empty and still
 * have `next`. Returns no totals. Page numbers above 1 are `tooDeep`.
 */
export async function matchingSessions(
  matches: (session: Session) => boolean,
  { size, page = 1, before }: ListWindow,
  list: (window: ListWindow) => Promise<ListPage<Session>>,
): Promise<ListPage<Session>> {
  if (page > 1) return { rows: [], next: undefined, total: undefined, tooDeep: true };
  const rows: Session[] = [];
  let next: string | undefined = before ?? newest;
  for (let batch = 0; batch < maxBatches && next !== undefined; batch++) {
    const found: ListPage<Session> = await list({ size: batchSize, before: next });
    for (const session of found.rows) {
      if (matches(session)) rows.push(session);
      if (rows.length === size) return { rows, next: session.id, total: undefined, tooDeep: false };
    }
    next = found.next;
    // The batch is not full, so its statement already examined as many rows as one request may.
    if (found.rows.length < batchSize) break;
  }
  return { rows, next, total: undefined, tooDeep: false };
}

/** Greater than every id. */
const newest = 'ffffffff-ffff-ffff-ffff-ffffffffffff';
