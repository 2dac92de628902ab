/** Lists rows of a table by id, newest first, with a filter that the database evaluates. */

import type { DbTime, Executor } from '../../db/db.ts';
import { all, Params } from '../../db/sql.ts';
import { nextTurn } from '../../domain/steps.ts';
import type { ListPage, ListWindow } from '../store.ts';
import {
  batchesOf,
  countBudget,
  type Found,
  findPage,
  maxId,
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
  readonly index?: { readonly sql: (params: Params) => string; readonly id: string } | undefined;
  /** A condition on the alias `x`. */
  readonly filter: (params: Params) => string;
  /** A second condition, on columns of `x` whose values many rows have in common. A count checks it once per value. */
  readonly common?: { readonly columns: string; readonly filter: (params: Params) => string };
  /** The columns of a row `r` of a page. */
  readonly selected: (tenant: string) => string;
  /** A condition on `r`: rows that no longer fulfil it are left out of the page. */
  readonly valid?: string;
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
  const { rows: found, ...page } = await findPage(
    await scanOf(db, list, window.page !== undefined),
    window.before ?? maxId,
    window,
  );
  const bytesOf = ({ bytes }: FoundRow) => Number(bytes);
  window.reserve?.(rowCost * found.reduce((sum, row) => sum + bytesOf(row), 0));
  const batches = batchesOf(found, bytesOf, batchBytes);
  const read = (batch: readonly FoundRow[]) => {
    const params = new Params();
    const owner = params.add(list.tenant);
    const ids = params.list(batch.map(({ seq }) => seq));
    const where = all(`r.tenant_id = ${owner}`, `r.id in ${ids}`, list.valid);
    return db.all<S>(`select ${list.selected(owner)} from ${list.table} r where ${where}`, params.values);
  };
  const rows = await readBatches(batches, -1, read, list.parse);
  return { ...page, rows: rows.sort((a, b) => (a.id < b.id ? 1 : -1)) };
}

/** Counts the rows that match the filter. Returns undefined if more than `countBudget` rows would have to be examined. */
export async function countFiltered(db: Database, list: List): Promise<number | undefined> {
  return (await findPage(await scanOf(db, list, true), maxId, { size: 0, page: 1 })).total;
}

/** By page number, it is known before the scan whether the list is too long to count. */
async function scanOf(db: Database, list: List, byNumber: boolean): Promise<Scan<FoundRow>> {
  if (!byNumber) return { limit: scanBudget, total: undefined, step: newestStep(db, list) };
  const first = await endOf(db, list, maxId, scanBudget);
  const isLong = first !== undefined && (await endOf(db, list, maxId, countBudget)) !== undefined;
  const total = isLong ? 'too many' : undefined;
  return { limit: countBudget, total, step: countingStep(db, list, first, !isLong) };
}

/** Finds rows among the newest ones before an id. */
function newestStep(db: Database, list: List): Scan<FoundRow>['step'] {
  return async (before, _, max) => {
    const found = await findRows(db, list, { before, limit: scanBudget }, max, 0);
    const end = found.length < max ? await endOf(db, list, before, scanBudget) : undefined;
    return { found, matches: found.length, examined: scanBudget, end };
  };
}

/** Also counts the rows, or at least those that are skipped. `first` is the end of the first step. */
function countingStep(
  db: Database,
  list: List,
  first: string | undefined,
  countsAll: boolean,
): Scan<FoundRow>['step'] {
  return async (before, skip, max) => {
    const end = before === maxId ? first : await endOf(db, list, before, scanBudget);
    const range = { before, last: end };
    const count = countsAll || skip > 0 ? await countRows(db, list, range) : undefined;
    const isWanted = max > 0 && (count === undefined || count > skip);
    const found = isWanted ? await findRows(db, list, range, max, skip) : [];
    return { found, matches: count ?? found.length, examined: scanBudget, end };
  };
}

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
  const sql = `select x.id as seq, x.bytes from ${examined} where ${where}
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
