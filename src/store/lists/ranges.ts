/** Index ranges from which tokens are read, in the order of the list and in bounded steps. */

import type { DbTime, Executor } from '../../db/db.ts';
import { type Clause, clause, none, type Piece, raw, sql } from '../../db/statement.ts';
import { notExpired } from '../applications.ts';
import type { Term } from '../token-search.ts';
import type { Direction } from './page.ts';

/** Maximum amounts of work for one list. */
export interface Budget {
  /** Index entries that are read and checked one by one. */
  readonly scan: number;
  /** Tokens that are counted from the index alone. Also the highest row that a page number may reach in this case. */
  readonly count: number;
  /** Candidates that are checked by one statement. */
  readonly chunk: number;
  /** Entries that are read from each index to find the index with the fewest candidates. */
  readonly probe: number;
}

/** The indexes from which the tokens of a list are read. */
export interface TokenScan {
  readonly db: Pick<Executor, 'isEmbedded' | 'get' | 'all'>;
  readonly tenant: string;
  readonly budget: Budget;
  readonly direction: Direction;
  /** Only tokens whose `seq` comes after `first` in the list, and not after `last`. No token has these. */
  readonly first: string;
  readonly last: string;
  /** Only tokens that are indexed with each of these terms. */
  readonly terms: readonly Term[] | undefined;
}

type Kind = 'all' | 'type' | 'container' | 'metadata';

/** All tokens of a tenant, of a type, in a container (directly or below), or with a metadata entry. */
export interface Range {
  readonly kind: Kind;
  /** The values of the index columns. */
  readonly values: readonly string[];
}

const kinds: Record<Kind, { table: Clause; where: (...values: Values) => Clause }> = {
  all: { table: raw('tokens'), where: () => none },
  type: { table: raw('tokens'), where: (a) => clause`and r.type = ${a}` },
  container: {
    table: raw('token_containers'),
    where: (a, b) => clause`and r.container = ${a} and r.own = cast(${b} as integer)`,
  },
  metadata: { table: raw('token_metadata'), where: (a) => clause`and r.digest = ${a}` },
};

/** The first entries of a range after `start`. */
function entriesAfter(
  { tenant, direction: { after, upTo, sorted }, last }: TokenScan,
  kind: Kind,
  start: string,
  limit: number,
  values: Values,
): Clause {
  const { table, where } = kinds[kind];
  return clause`select r.seq from ${table} r where r.tenant_id = ${tenant} ${where(...values)}
    and r.seq ${after} ${start} and r.seq ${upTo} ${last} order by r.seq ${sorted} limit ${limit}`;
}

/** Reads at most `limit` entries of each range that come after `start`. All ranges must be of the same kind. */
export async function readRanges(
  scan: TokenScan,
  ranges: readonly Range[],
  start: string,
  limit: number,
): Promise<string[][]> {
  const [first] = ranges;
  if (!first) return [];
  return readEach(
    scan.db,
    (...values) => entriesAfter(scan, first.kind, start, limit, values),
    valuesOf(ranges),
  );
}

/** The values of a query: up to three texts, or columns with them. */
export type Values = readonly [a: Piece, b: Piece, c: Piece];
const columns: Values = [raw('s.a'), raw('s.b'), raw('s.c')];

/** Runs a query for each list of up to three values, on PostgreSQL in one statement. */
export async function readEach(
  db: TokenScan['db'],
  query: (...values: Values) => Clause,
  lists: readonly (readonly string[])[],
): Promise<string[][]> {
  if (db.isEmbedded)
    return Promise.all(
      lists.map(async ([a, b, c]) =>
        (await db.all<{ seq: string }>(sql`${query(a, b, c)}`)).map(({ seq }) => seq),
      ),
    );
  const rows = await db.all<{ number: number; seq: string }>(sql`
    select s.number, e.seq ${forEach(lists)} cross join lateral (${query(...columns)}) e`);
  const seqs: string[][] = lists.map(() => []);
  for (const { number, seq } of rows) seqs[number]?.push(seq);
  return seqs;
}

/** On PostgreSQL, a row `s` for each list of values. */
function forEach(lists: readonly (readonly string[])[]): Clause {
  const json = JSON.stringify(lists.map(([a, b, c], number) => ({ number, a, b, c })));
  return clause`from json_to_recordset(cast(cast(${json} as text) as json)) as s (number integer, a text, b text, c text)`;
}

function valuesOf(ranges: readonly Range[]): (readonly string[])[] {
  return ranges.map(({ values }) => values);
}

/** Whether a token has not expired. If the tenant has no expired token, the entries are counted without reading the tokens. */
const unexpired = (tenant: string) => clause`(select 1 from tokens t
    where t.tenant_id = ${tenant} and t.expires_at <= (select :now) order by t.expires_at limit 1) is null
  or (select 1 from tokens t where t.tenant_id = ${tenant} and t.seq = e.seq and ${notExpired('t')}) = 1`;

/** Counts the tokens of ranges that do not overlap. Returns undefined if there are too many to count. */
export async function countRanges(scan: TokenScan, ranges: readonly Range[]): Promise<number | undefined> {
  const { db, tenant, budget } = scan;
  const [first] = ranges;
  if (!first) return 0;
  const limit = budget.count;
  const entriesOf = (left: number, values: Values) =>
    entriesAfter(scan, first.kind, scan.first, left, values);
  const together = (left: number) => clause`select e.seq ${forEach(valuesOf(ranges))}
    cross join lateral (${entriesOf(left, columns)}) e limit ${left}`;
  const parts = db.isEmbedded
    ? valuesOf(ranges).map(
        ([a, b, c]) =>
          (left: number) =>
            entriesOf(left, [a, b, c]),
      )
    : [together];
  let [entries, count] = [0, 0];
  for (const part of parts) {
    const row = await db.get<Record<'entries' | 'count', DbTime>>(sql`
      select count(*) as entries, count(case when ${unexpired(tenant)} then 1 end) as count
        from (${part(limit + 1 - entries)}) e`);
    entries += Number(row?.entries);
    count += Number(row?.count);
    if (entries > limit) return undefined;
  }
  return count;
}
