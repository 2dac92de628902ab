/** Index ranges from which tokens are read, newest first, in bounded steps. */

import type { DbTime, Executor } from '../../db/db.ts';
import type { Value } from '../../db/statement.ts';
import { notExpired } from '../applications.ts';
import type { Term } from '../token-search.ts';

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
  /** Only tokens with this `seq` or a higher one. */
  readonly from: string;
  /** Only tokens with a lower `seq`. */
  readonly to: string;
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

const kinds: Record<Kind, { table: string; where: (a: string, b: string) => string }> = {
  all: { table: 'tokens', where: () => '' },
  type: { table: 'tokens', where: (a) => `and r.type = ${a}` },
  container: {
    table: 'token_containers',
    where: (a, b) => `and r.container = ${a} and r.own = cast(${b} as integer)`,
  },
  metadata: { table: 'token_metadata', where: (a) => `and r.digest = ${a}` },
};

/** SQL for the newest entries of a range. Parameters: $1 tenant, $2 before, $3 limit, $4 from. */
function newest(kind: Kind, a = '$5', b = '$6'): string {
  const { table, where } = kinds[kind];
  return `select r.seq from ${table} r where r.tenant_id = $1 ${where(a, b)} and r.seq < $2 and r.seq >= $4
    order by r.seq desc limit $3`;
}

/** Reads at most `limit` entries of each range that are older than `before`. All ranges must be of the same kind. */
export async function readRanges(
  { db, tenant, from }: TokenScan,
  ranges: readonly Range[],
  before: string,
  limit: number,
): Promise<string[][]> {
  const [first] = ranges;
  if (!first) return [];
  const query = (a: string, b: string) => newest(first.kind, a, b);
  return readEach(db, query, valuesOf(ranges), [tenant, before, limit, from]);
}

/**
 * Runs a query for each list of up to three values, on PostgreSQL in one statement. `params` are the parameters before
 * the values.
 */
export async function readEach(
  db: TokenScan['db'],
  query: (a: string, b: string, c: string) => string,
  lists: readonly (readonly string[])[],
  params: readonly Value[],
): Promise<string[][]> {
  if (db.isEmbedded) {
    const [a, b, c] = [1, 2, 3].map((at) => `$${params.length + at}`) as [string, string, string];
    const sql = query(a, b, c);
    return Promise.all(
      lists.map(async (values) =>
        (await db.all<{ seq: string }>(sql, [...params, ...values])).map(({ seq }) => seq),
      ),
    );
  }
  const rows = await db.all<{ number: number; seq: string }>(
    `select s.number, e.seq ${forEach(params.length + 1)} cross join lateral (${query('s.a', 's.b', 's.c')}) e`,
    [...params, toJson(lists)],
  );
  const seqs: string[][] = lists.map(() => []);
  for (const { number, seq } of rows) seqs[number]?.push(seq);
  return seqs;
}

/** On PostgreSQL, a row `s` for each list of values. */
const forEach = (param: number) =>
  `from json_to_recordset(cast(cast($${param} as text) as json)) as s (number integer, a text, b text, c text)`;

function toJson(lists: readonly (readonly string[])[]): string {
  return JSON.stringify(lists.map(([a, b, c], number) => ({ number, a, b, c })));
}

function valuesOf(ranges: readonly Range[]): (readonly string[])[] {
  return ranges.map(({ values }) => values);
}

/** Whether a token has not expired. If the tenant has no expired token, the entries are counted without reading the tokens. */
const unexpired = `(select 1 from tokens t where t.tenant_id = $1 and t.expires_at <= (select :now)
    order by t.expires_at limit 1) is null
  or (select 1 from tokens t where t.tenant_id = $1 and t.seq = e.seq and ${notExpired('t')}) = 1`;

const counted = (entries: string) =>
  `select count(*) as entries, count(case when ${unexpired} then 1 end) as count from (${entries}) e`;

/** Counts the tokens of ranges that do not overlap. Returns undefined if there are too many to count. */
export async function countRanges(
  { db, tenant, from, to, budget: { count: limit } }: TokenScan,
  ranges: readonly Range[],
): Promise<number | undefined> {
  const [first] = ranges;
  if (!first) return 0;
  const together = `select e.seq ${forEach(5)} cross join lateral (${newest(first.kind, 's.a', 's.b')}) e limit $3`;
  const sql = counted(db.isEmbedded ? newest(first.kind) : together);
  let [entries, count] = [0, 0];
  for (const values of db.isEmbedded ? valuesOf(ranges) : [[toJson(valuesOf(ranges))]]) {
    const params = [tenant, to, limit + 1 - entries, from, ...values];
    const row = await db.get<Record<'entries' | 'count', DbTime>>(sql, params);
    entries += Number(row?.entries);
    count += Number(row?.count);
    if (entries > limit) return undefined;
  }
  return count;
}
