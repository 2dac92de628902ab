/** Lists rows of a table by id, with a filter that the database evaluates. */

import type { DbTime, Executor } from '../../db/db.ts';
import { all, type Clause, clause, list as listOf, Param, type Piece, raw, sql } from '../../db/statement.ts';
import { nextTurn } from '../../domain/steps.ts';
import type { ListPage, ListWindow } from '../store.ts';
import {
  batchesOf,
  countBudget,
  type Direction,
  directionOf,
  type Found,
  findPage,
  inOrder,
  readBatches,
  type Scan,
  scanBudget,
} from './page.ts';

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
  readonly index?: { readonly sql: Clause; readonly id: string } | undefined;
  /** A condition on the alias `x`. */
  readonly filter: Clause;
  /** A second condition, on columns of `x` whose values many rows have in common. A count checks it once per value. */
  readonly common?: { readonly columns: string; readonly filter: Clause };
  /** The columns of a row `r` of a page. */
  readonly selected: (tenant: Piece) => Clause;
  /** A condition on `r`: rows that no longer fulfil it are left out of the page. */
  readonly valid?: Clause;
  readonly parse: (row: S) => R & { readonly id: string };
}

type Database = Pick<Executor, 'all'>;
type List = Omit<Filtered<unknown, unknown>, 'selected' | 'parse'>;

interface FoundRow extends Found {
  /** Bytes of the largest column. */
  readonly bytes: DbTime;
}

/** Bytes of memory per byte of the largest column: the row, its value, and the response. */
const rowCost = 4;

/** Reading, or parsing, rules of this many bytes takes a few milliseconds. */
const batchBytes = 125_000;

export async function listRows<S, R>(
  db: Database,
  list: Filtered<S, R>,
  window: ListWindow,
): Promise<ListPage<R & { readonly id: string }>> {
  await nextTurn();
  const direction = directionOf(window);
  const { rows: found, ...page } = await findPage(
    await scanOf(db, list, direction, window.page !== undefined),
    window.start ?? direction.start,
    window,
  );
  const bytesOf = ({ bytes }: FoundRow) => Number(bytes);
  window.reserve?.(rowCost * found.reduce((sum, row) => sum + bytesOf(row), 0));
  const batches = batchesOf(found, bytesOf, batchBytes);
  const read = (batch: readonly FoundRow[]) => {
    const owner = new Param(list.tenant);
    const ids = listOf(batch.map(({ seq }) => seq));
    const where = all(clause`r.tenant_id = ${owner}`, clause`r.id in ${ids}`, list.valid);
    return db.all<S>(sql`select ${list.selected(owner)} from ${raw(list.table)} r where ${where}`);
  };
  const rows = await readBatches(batches, -1, read, list.parse);
  return { ...page, rows: inOrder(direction, rows, ({ id }) => id) };
}

/** Counts the rows that match the filter. Returns undefined if more than `countBudget` rows would have to be examined. */
export async function countFiltered(db: Database, list: List): Promise<number | undefined> {
  const direction = directionOf({});
  return (await findPage(await scanOf(db, list, direction, true), direction.start, { size: 0, page: 1 }))
    .total;
}

/** By page number, it is known before the scan whether the list is too long to count. */
async function scanOf(
  db: Database,
  list: List,
  direction: Direction,
  byNumber: boolean,
): Promise<Scan<FoundRow>> {
  if (!byNumber) return { limit: scanBudget, total: undefined, step: cursorStep(db, list, direction) };
  const { start } = direction;
  const first = await endOf(db, list, { direction, start, limit: scanBudget });
  const isLong =
    first !== undefined && (await endOf(db, list, { direction, start, limit: countBudget })) !== undefined;
  const total = isLong ? 'too many' : undefined;
  return { limit: countBudget, total, step: countingStep(db, list, direction, first, !isLong) };
}

/** Finds rows among the first ones after an id. */
function cursorStep(db: Database, list: List, direction: Direction): Scan<FoundRow>['step'] {
  return async (start, _, max) => {
    const range = { direction, start, limit: scanBudget };
    const found = await findRows(db, list, range, max, 0);
    const end = found.length < max ? await endOf(db, list, range) : undefined;
    return { found, matches: found.length, examined: scanBudget, end };
  };
}

/** Also counts the rows, or at least those that are skipped. `first` is the end of the first step. */
function countingStep(
  db: Database,
  list: List,
  direction: Direction,
  first: string | undefined,
  countsAll: boolean,
): Scan<FoundRow>['step'] {
  return async (start, skip, max) => {
    const end =
      start === direction.start ? first : await endOf(db, list, { direction, start, limit: scanBudget });
    const range = { direction, start, last: end };
    const count = countsAll || skip > 0 ? await countRows(db, list, range) : undefined;
    const isWanted = max > 0 && (count === undefined || count > skip);
    const found = isWanted ? await findRows(db, list, range, max, skip) : [];
    return { found, matches: count ?? found.length, examined: scanBudget, end };
  };
}

/** Rows after an id: up to `last`, or the first `limit` of them. */
interface Range {
  readonly direction: Direction;
  readonly start: string;
  readonly last?: string | undefined;
  readonly limit?: number;
}

function findRows(db: Database, list: List, range: Range, max: number, offset: number) {
  const bytes = `octet_length(r.${list.largest ?? 'rules'}) as bytes`;
  const examined = examinedRows(list, range, `${bytes}, ${list.columns}`);
  return db.all<FoundRow>(sql`
    select x.id as seq, x.bytes from ${examined} where ${all(list.filter, list.common?.filter)}
      order by x.id ${range.direction.sorted} limit ${max} offset ${offset}`);
}

async function countRows(db: Database, list: List, range: Range): Promise<number> {
  const examined = examinedRows(list, range, list.columns);
  const { common } = list;
  const matching = clause`from ${examined} where ${list.filter}`;
  const shared = common && raw(common.columns);
  const statement = common
    ? sql`select sum(x.entries) as count from (select ${shared}, count(*) as entries ${matching}
         group by ${shared}) x where ${common.filter}`
    : sql`select count(*) as count ${matching}`;
  const [row] = await db.all<{ count: DbTime }>(statement);
  return Number(row?.count ?? 0);
}

/** The id of the last row of the range. Returns undefined if the list ends there. */
async function endOf(
  db: Database,
  list: List,
  { limit, ...range }: Range & { readonly limit: number },
): Promise<string | undefined> {
  if (list.ids) return undefined;
  const examined = examinedRows(list, { ...range, limit: limit + 1 });
  const last = await db.all<{ id: string }>(sql`
    select x.id from ${examined} order by x.id ${range.direction.sorted} limit 2 offset ${limit - 1}`);
  return last.length > 1 ? last[0]?.id : undefined;
}

/** A subquery, `x`, with the rows of a range. */
function examinedRows(
  { table, tenant, ids, index }: List,
  { direction: { after, upTo, sorted }, start, last, limit }: Range,
  columns?: string,
): Clause {
  const within = (id: Clause) =>
    all(clause`${id} ${after} ${start}`, last !== undefined && clause`${id} ${upTo} ${last}`);
  const first = (id: Clause) => limit !== undefined && clause`order by ${id} ${sorted} limit ${limit}`;
  const [own, indexed] = [raw('r.id'), index && raw(index.id)];
  const where = all(
    clause`r.tenant_id = ${tenant}`,
    within(own),
    ids && clause`r.id in ${listOf(ids)}`,
    index && indexed && clause`r.id in (${index.sql} and ${within(indexed)} ${first(indexed)})`,
  );
  const selected = ['r.tenant_id', 'r.id', ...(columns === undefined ? [] : [columns])];
  return clause`(select ${raw(selected.join(', '))} from ${raw(table)} r where ${where} ${first(own)}) x`;
}
