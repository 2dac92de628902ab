/**
 * Lists rows by id, newest first, with a filter that has no index. A request examines a bounded number of rows, so a page
 * may be short or empty although the list continues.
 */
import { nextTurn } from '../domain/steps.ts';
import type { DbTime, Executor, Value } from './engine/db.ts';
import { all, Params } from './engine/sql.ts';
import type { ListPage, ListWindow } from './store.ts';

/** Maximum number of rows that a request examines. */
export const scanBudget = 2_000;
/** Maximum number of rows that are counted. Page numbers cannot go beyond it. */
export const countBudget = 10_000;

/** Greater than every generated id. */
export const maxId = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

export interface Filtered<R> {
  /** A table with the columns `tenant_id` and `id`. */
  readonly table: string;
  /** Its largest column. `rules` by default. */
  readonly largest?: string;
  /** Columns that the filter needs, except `tenant_id` and `id`. */
  readonly columns: string;
  readonly tenant: string;
  readonly ids?: readonly string[] | undefined;
  /** An index of the rows that can match: a statement that selects their ids, and the expression of the id in it. */
  readonly index?: { readonly sql: (params: Params) => string; readonly id: string } | undefined;
  /** A condition on the alias `x`. */
  readonly filter: (params: Params) => string;
  /** Reads the rows of a page, in any order. Leaves out rows that no longer exist. */
  readonly read: (ids: readonly string[]) => Promise<(R & { readonly id: string })[]>;
}

export async function boundedList<R>(
  db: Pick<Executor, 'get' | 'all'>,
  list: Filtered<R>,
  { size, page, before = maxId }: ListWindow,
): Promise<ListPage<R & { readonly id: string }>> {
  const budget = page === undefined ? scanBudget : countBudget;
  const offset = page === undefined ? 0 : (page - 1) * size;
  const total = page === undefined ? undefined : await countFiltered(db, list);
  if (total === undefined && offset >= countBudget)
    return { rows: [], next: undefined, total, tooDeep: true };
  const found = await select<FoundRow>(db, list, before, budget, (examined, params) => {
    const window = `limit ${params.add(size + 1)} offset ${params.add(offset)}`;
    return `select x.id, x.bytes from ${examined} where ${list.filter(params)} order by x.id desc ${window}`;
  });
  const listed = found.slice(0, size);
  const next = found.length > size ? listed.at(-1)?.id : await endOf(db, list, before, budget);
  const rows: (R & { readonly id: string })[] = [];
  for (const batch of batchesOf(listed, ({ bytes }) => Number(bytes), batchBytes)) {
    if (rows.length > 0) await nextTurn();
    rows.push(...(await list.read(batch.map(({ id }) => id))));
  }
  const tooDeep = offset > 0 && found.length === 0 && next !== undefined;
  return { rows: rows.sort((a, b) => (a.id < b.id ? 1 : -1)), next, total, tooDeep };
}

interface FoundRow {
  readonly id: string;
  /** Bytes of the largest column. */
  readonly bytes: DbTime;
}

/** Splits rows into batches of at most `max` bytes. A larger row has its own batch. */
export function batchesOf<R>(rows: readonly R[], bytesOf: (row: R) => number, max: number): R[][] {
  const batches: R[][] = [];
  let room = -1;
  for (const row of rows) {
    const bytes = bytesOf(row);
    if (room >= bytes) batches.at(-1)?.push(row);
    else {
      batches.push([row]);
      room = max;
    }
    room -= bytes;
  }
  return batches;
}

/** Reading and parsing rules of this many bytes takes a few milliseconds. Other requests are handled in between. */
const batchBytes = 250_000;

/**
 * Counts the rows that match the filter. Returns undefined if more than `countBudget` rows would have to be examined.
 */
export async function countFiltered<R>(
  db: Pick<Executor, 'all'>,
  list: Omit<Filtered<R>, 'read'>,
): Promise<number | undefined> {
  const [row] = await select<Record<'entries' | 'count', DbTime>>(
    db,
    list,
    maxId,
    countBudget + 1,
    (examined, params) =>
      `select count(*) as entries, count(case when ${list.filter(params)} then 1 end) as count from ${examined}`,
  );
  return row === undefined || Number(row.entries) > countBudget ? undefined : Number(row.count);
}

/** The id of the last row that was examined. Returns undefined if the list ends there. */
async function endOf<R>(
  db: Pick<Executor, 'all'>,
  list: Omit<Filtered<R>, 'read'>,
  before: string,
  budget: number,
): Promise<string | undefined> {
  if (list.ids) return undefined;
  const last = await select<{ id: string }>(db, list, before, budget + 1, (examined, params) => {
    return `select x.id from ${examined} order by x.id desc limit 2 offset ${params.add(budget - 1)}`;
  });
  return last.length > 1 ? last[0]?.id : undefined;
}

/** Runs a statement on a subquery, `examined`: the newest rows before the id `before`, at most `limit`. */
async function select<T>(
  db: Pick<Executor, 'all'>,
  { table, largest = 'rules', columns, tenant, ids, index }: Omit<Filtered<unknown>, 'read' | 'filter'>,
  before: string,
  limit: number,
  statement: (examined: string, params: Params) => string,
): Promise<T[]> {
  const params = new Params();
  const where = all(
    `r.tenant_id = ${params.add(tenant)}`,
    `r.id < ${params.add(before)}`,
    ids && `r.id in ${params.list(ids)}`,
    index &&
      `r.id in (${index.sql(params)} and ${index.id} < ${params.add(before)}
        order by ${index.id} desc limit ${params.add(limit)})`,
  );
  const examined = `(select r.tenant_id, r.id, octet_length(r.${largest}) as bytes, ${columns} from ${table} r where ${where}
    order by r.id desc limit ${params.add(limit)}) x`;
  return db.all<T>(statement(examined, params), params.values as Value[]);
}
