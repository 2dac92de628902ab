/**
 * Lists rows by id, newest first, with a filter that has no index. A request examines a bounded number of rows, so a page
 * may be short or empty although the list continues.
 */

import type { DbTime, Executor } from '../db/db.ts';
import { all, Params } from '../db/sql.ts';
import { nextTurn } from '../domain/steps.ts';
import type { ListPage, ListWindow } from './store.ts';

/** Maximum number of rows that a request examines. */
export const scanBudget = 2_000;
/** Maximum number of rows that are counted. Page numbers cannot go beyond it. */
export const countBudget = 10_000;
/** Rows that are counted at a time. Other requests are handled in between. */
const stretch = 2_000;

/** Greater than every generated id. */
export const maxId = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

export interface Filtered<S, R> {
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
  /** A second condition, on columns of `x` whose values many rows have in common. A count checks it once per value. */
  readonly common?: { readonly columns: string; readonly filter: (params: Params) => string };
  /** Reads the rows of a page, in any order. Leaves out rows that no longer exist. */
  readonly read: (ids: readonly string[]) => Promise<S[]>;
  readonly parse: (row: S) => R & { readonly id: string };
}

export async function boundedList<S, R>(
  db: Pick<Executor, 'get' | 'all'>,
  list: Filtered<S, R>,
  { size, page, before = maxId, reserve }: ListWindow,
): Promise<ListPage<R & { readonly id: string }>> {
  const offset = page === undefined ? 0 : (page - 1) * size;
  await nextTurn();
  const scan =
    page === undefined ? scanOnce(db, list, before, size + 1) : scanPages(db, list, offset, size + 1);
  const { found, end, total } = await scan;
  const listed = found.slice(0, size);
  const next = found.length > size ? listed.at(-1)?.id : end;
  reserve?.(rowCost * listed.reduce((sum, { bytes }) => sum + Number(bytes), 0));
  const rows: (R & { readonly id: string })[] = [];
  for (const batch of batchesOf(listed, ({ bytes }) => Number(bytes), batchBytes)) {
    await nextTurn();
    const read = await list.read(batch.map(({ id }) => id));
    // PostgreSQL answers many requests in one turn.
    await nextTurn();
    rows.push(...read.map(list.parse));
  }
  const tooDeep = offset > 0 && found.length === 0 && next !== undefined;
  return { rows: rows.sort((a, b) => (a.id < b.id ? 1 : -1)), next, total, tooDeep };
}

interface Scanned {
  readonly found: readonly FoundRow[];
  /** The last row that was examined. Undefined if the list ends there, or if enough rows were found. */
  readonly end: string | undefined;
  readonly total?: number | undefined;
}

/** Finds up to `max` rows among the newest ones before an id. */
async function scanOnce(db: Database, list: List, before: string, max: number): Promise<Scanned> {
  const found = await findRows(db, list, { before, limit: scanBudget }, max, 0);
  return { found, end: found.length < max ? await endOf(db, list, before, scanBudget) : undefined };
}

/** Finds up to `max` rows after the first `offset`, and counts all. If there are too many to count, total is undefined. */
async function scanPages(db: Database, list: List, offset: number, max: number): Promise<Scanned> {
  const found: FoundRow[] = [];
  let total = 0;
  let range: Range = { before: maxId, last: await endOf(db, list, maxId, stretch) };
  const end = range.last === undefined ? undefined : await endOf(db, list, maxId, countBudget);
  while (end === undefined || (range.before > end && found.length < max && offset < countBudget)) {
    const count = await countRows(db, list, range);
    const skipped = Math.max(0, offset - total);
    if (found.length < max && count > skipped)
      found.push(...(await findRows(db, list, range, max - found.length, skipped)));
    total += count;
    if (range.last === undefined) break;
    await nextTurn();
    range = { before: range.last, last: await endOf(db, list, range.last, stretch) };
  }
  return { found, end, total: end === undefined ? total : undefined };
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

/** Bytes of memory per byte of the largest column: the row, its value, and the response. */
const rowCost = 4;

/** Reading, or parsing, rules of this many bytes takes a few milliseconds. Other requests are handled in between. */
const batchBytes = 125_000;

/** Counts the rows that match the filter. Returns undefined if more than `countBudget` rows would have to be examined. */
export async function countFiltered(db: Database, list: List): Promise<number | undefined> {
  return (await scanPages(db, list, 0, 0)).total;
}

type Database = Pick<Executor, 'all'>;
type List = Omit<Filtered<unknown, unknown>, 'read' | 'parse'>;

/** Rows before an id: down to `last`, or the newest `limit` of them. */
interface Range {
  readonly before: string;
  readonly last?: string | undefined;
  readonly limit?: number;
}

function findRows(db: Database, list: List, range: Range, max: number, offset: number) {
  const params = new Params();
  const bytes = `octet_length(r.${list.largest ?? 'rules'}) as bytes`;
  const examined = examinedRows(list, range, params, `${bytes}, ${list.columns}`);
  const where = all(list.filter(params), list.common?.filter(params));
  const sql = `select x.id, x.bytes from ${examined} where ${where}
    order by x.id desc limit ${params.add(max)} offset ${params.add(offset)}`;
  return db.all<FoundRow>(sql, params.values);
}

async function countRows(db: Database, list: List, range: Range): Promise<number> {
  const params = new Params();
  const examined = examinedRows(list, range, params, list.columns);
  const { common } = list;
  const matching = `from ${examined} where ${list.filter(params)}`;
  const sql = common
    ? `select sum(x.entries) as count from (select ${common.columns}, count(*) as entries ${matching}
         group by ${common.columns}) x where ${common.filter(params)}`
    : `select count(*) as count ${matching}`;
  const [row] = await db.all<{ count: DbTime }>(sql, params.values);
  return Number(row?.count ?? 0);
}

/** The id of the last of the newest `limit` rows before an id. Returns undefined if the list ends there. */
async function endOf(db: Database, list: List, before: string, limit: number): Promise<string | undefined> {
  if (list.ids) return undefined;
  const params = new Params();
  const examined = examinedRows(list, { before, limit: limit + 1 }, params);
  const sql = `select x.id from ${examined} order by x.id desc limit 2 offset ${params.add(limit - 1)}`;
  const last = await db.all<{ id: string }>(sql, params.values);
  return last.length > 1 ? last[0]?.id : undefined;
}

/** A subquery, `x`, with the rows of a range. */
function examinedRows(
  { table, tenant, ids, index }: List,
  { before, last, limit }: Range,
  params: Params,
  columns?: string,
): string {
  const within = (id: string) =>
    all(`${id} < ${params.add(before)}`, last !== undefined && `${id} >= ${params.add(last)}`);
  const newest = (id: string) =>
    limit === undefined ? '' : `order by ${id} desc limit ${params.add(limit)}`;
  const where = all(
    `r.tenant_id = ${params.add(tenant)}`,
    within('r.id'),
    ids && `r.id in ${params.list(ids)}`,
    index && `r.id in (${index.sql(params)} and ${within(index.id)} ${newest(index.id)})`,
  );
  const selected = ['r.tenant_id', 'r.id', ...(columns === undefined ? [] : [columns])];
  return `(select ${selected} from ${table} r where ${where} ${newest('r.id')}) x`;
}
