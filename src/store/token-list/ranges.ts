/** Index ranges that hold tokens newest first. Each is read in bounded steps, on PostgreSQL several per query. */
import { notExpired } from '../applications.ts';
import { top } from '../bounded-list.ts';
import type { DbTime, Executor } from '../engine/db.ts';

/** How much work one list may be. */
export interface Budget {
  /** Index entries that are read and checked one by one. */
  readonly scan: number;
  /** Tokens that are counted, and so how deep a page number may go, where the index alone tells the number. */
  readonly count: number;
  /** Candidates that are checked by one statement. */
  readonly chunk: number;
  /** Entries of each index that are read to find the best one. */
  readonly probe: number;
}

export interface Scan {
  readonly db: Pick<Executor, 'dialect' | 'get' | 'all'>;
  readonly tenant: string;
  readonly budget: Budget;
}

type Kind = 'all' | 'type' | 'container' | 'metadata';

/** All tokens of a tenant, of a type, in a container (`own` or below), or with an entry of metadata. */
export interface Range {
  readonly kind: Kind;
  readonly a: string;
  readonly b: string;
}

/** The table, what `a` and `b` are compared with, and when the token expires. */
const kinds: Record<Kind, { table: string; where: (a: string, b: string) => string; expiry: string }> = {
  all: { table: 'tokens', where: () => '', expiry: 'r.expires_at' },
  type: { table: 'tokens', where: (a) => `and r.type = ${a}`, expiry: 'r.expires_at' },
  container: {
    table: 'token_containers',
    where: (a, b) => `and r.container = ${a} and r.own = cast(${b} as integer)`,
    expiry: '(select t.expires_at from tokens t where t.tenant_id = r.tenant_id and t.seq = r.seq)',
  },
  metadata: {
    table: 'token_metadata',
    where: (a, b) => `and r.name = ${a} and r.value = ${b}`,
    expiry: '(select t.expires_at from tokens t where t.tenant_id = r.tenant_id and t.seq = r.seq)',
  },
};

/** The newest of the range that are older than `before`: parameters 1 tenant, 2 before, 3 limit. */
function newest(kind: Kind, columns: string, a: string, b: string): string {
  const { table, where } = kinds[kind];
  return `select ${columns} from ${table} r where r.tenant_id = $1 ${where(a, b)} and r.seq < $2
    order by r.seq desc limit $3`;
}

const numbers = { all: 3, type: 4, container: 5, metadata: 5 };

function paramsOf({ kind, a, b }: Range): string[] {
  return [a, b].slice(0, numbers[kind] - 3);
}

const bounded = (kind: Kind, columns: string) => newest(kind, columns, '$4', '$5');

/** One row of the JSON for each range; `e` is what the range has. */
const batched = (kind: Kind, columns: string) =>
  `from json_to_recordset(cast(cast($4 as text) as json)) as s (number integer, a text, b text)
   cross join lateral (${newest(kind, columns, 's.a', 's.b')}) e`;

const statements = Object.fromEntries(
  (Object.keys(kinds) as Kind[]).map((kind) => {
    const expiry = `${kinds[kind].expiry} as expires_at`;
    const counted = `count(*) as entries, count(case when ${notExpired('e')} then 1 end) as count`;
    return [
      kind,
      {
        read: bounded(kind, 'r.seq'),
        readMany: `select s.number, e.seq ${batched(kind, 'r.seq')}`,
        count: `select count(*) as entries, count(*) as count from (${bounded(kind, 'r.seq')}) e`,
        countMany: `select count(*) as entries, count(*) as count
          from (select e.seq ${batched(kind, 'r.seq')} limit $3) e`,
        countUnexpired: `select ${counted} from (${bounded(kind, expiry)}) e`,
        countUnexpiredMany: `select ${counted} from (select e.expires_at ${batched(kind, expiry)} limit $3) e`,
      },
    ];
  }),
) as Record<Kind, Record<Name, string>>;
type Name = 'read' | 'readMany' | 'count' | 'countMany' | 'countUnexpired' | 'countUnexpiredMany';

/** Usually none, because of the sweep. Then an index can be counted without looking at expiry. */
const expired = 'select 1 as one from tokens t where t.expires_at <= :now limit 1';

/** Of each range, at most `limit` that are older than `before`. The ranges are of one kind. */
export async function readRanges(
  { db, tenant }: Scan,
  ranges: readonly Range[],
  before: string,
  limit: number,
): Promise<string[][]> {
  const [first] = ranges;
  if (!first) return [];
  const { read, readMany } = statements[first.kind];
  if (db.dialect === 'sqlite' || ranges.length === 1) {
    const found: string[][] = [];
    for (const range of ranges) {
      const rows = db.all<{ seq: string }>(read, [tenant, before, limit, ...paramsOf(range)]);
      found.push((rows instanceof Promise ? await rows : rows).map(({ seq }) => seq));
    }
    return found;
  }
  const rows = await db.all<{ number: number; seq: string }>(readMany, [
    tenant,
    before,
    limit,
    numbered(ranges),
  ]);
  const found: string[][] = ranges.map(() => []);
  for (const { number, seq } of rows) found[number]?.push(seq);
  return found;
}

function numbered(ranges: readonly Range[]): string {
  return JSON.stringify(ranges.map(({ a, b }, number) => ({ number, a, b })));
}

/** Counts the tokens of ranges that do not overlap. Returns undefined if there are too many to count. */
export async function countRanges(
  { db, tenant, budget: { count: limit } }: Scan,
  ranges: readonly Range[],
): Promise<number | undefined> {
  const [first] = ranges;
  if (!first) return 0;
  const of = statements[first.kind];
  const [count, countMany] = (await db.get(expired))
    ? [of.countUnexpired, of.countUnexpiredMany]
    : [of.count, of.countMany];
  let [entries, unexpired] = [0, 0];
  const counted = async (sql: string, ...more: string[]) => {
    const row = await db.get<Record<'entries' | 'count', DbTime>>(sql, [
      tenant,
      top,
      limit + 1 - entries,
      ...more,
    ]);
    entries += Number(row?.entries);
    unexpired += Number(row?.count);
  };
  if (db.dialect === 'postgres' && ranges.length > 1) await counted(countMany, numbered(ranges));
  else
    for (const range of ranges) {
      await counted(count, ...paramsOf(range));
      if (entries > limit) break;
    }
  return entries > limit ? undefined : unexpired;
}
