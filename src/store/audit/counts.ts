/**
 * Counts the entries of one chain by result and time interval. The index tells which entries match. A binary search
 * finds the boundaries of the intervals, so times are read only for entries near a boundary.
 */

import type { Awaitable } from '../../domain/awaitable.ts';
import { type Intervals, intervalsBetween } from '../../domain/intervals.ts';
import type { Db, DbTime } from '../engine/db.ts';
import { Params } from '../engine/sql.ts';
import type { AuditFilter, LogCounts } from '../store.ts';
import type { ChainKeys } from './hash-chain.ts';
import { blockOf, blockSize, blocksWith, intersect } from './index-blocks.ts';
import type { Chain } from './rows.ts';
import { spanOfTime } from './search.ts';
import { termsFor } from './terms.ts';

/** Maximum number of positions that are counted. Older entries are left out. */
const maxCounted = 2048 * blockSize;
/**
 * Maximum number of entries whose times are read at each boundary. All others are assigned to an interval by position.
 */
const maxWindow = 1024;
/** Blocks of the index per statement. */
const batchSize = 128;

type Reader = Pick<Db, 'get' | 'all' | 'dialect'>;

interface Limits {
  readonly maxCounted: number;
  readonly maxWindow: number;
}

/** Positions above `lo` and up to `hi`. */
interface Span {
  readonly lo: number;
  readonly hi: number;
}

export async function countEntries(
  db: Reader,
  chainKeys: () => Awaitable<ChainKeys>,
  chain: Chain,
  filter: AuditFilter,
  now: number,
  limits: Limits = { maxCounted, maxWindow },
): Promise<Omit<LogCounts, 'gaps'>> {
  const { after, upTo } = await spanOfTime(db, chainKeys, chain, filter);
  const hi = Math.min(upTo, chain.seq);
  const span = { lo: Math.max(after, hi - limits.maxCounted), hi };
  const to = filter.to ?? now;
  const from = filter.from ?? Math.min(await firstTime(db, chain, chain.baseSeq), to - 1);
  // Without `to`, entries of the current millisecond are counted too.
  const intervals = intervalsBetween(from, filter.to ?? now + 1);
  const windows = await windowsAt(db, chain, span, boundariesOf(intervals, filter), limits.maxWindow);
  const times = await timesIn(db, chain, windows);
  const counts = Array.from({ length: intervals.count }, () => ({ success: 0, denied: 0, failed: 0 }));
  /** The number of boundaries before `seq`: the index of its interval, plus one. */
  let passed = 0;
  for await (const { first, results } of resultsIn(db, chain, filter, span)) {
    for (let offset = 0; offset < results.length; offset++) {
      const seq = first + offset;
      const name = resultNames[results[offset] as number];
      if (name === undefined || seq <= span.lo || seq > span.hi) continue;
      while (passed < windows.length && (windows[passed] as Span).hi < seq) passed++;
      const time = times.get(seq);
      const count = counts[time === undefined ? passed - 1 : intervalOf(time, intervals, filter)];
      if (count) count[name]++;
    }
  }
  const { start, length } = intervals;
  const countedFrom =
    span.lo > after ? (await firstTime(db, chain, span.lo - 1)) + chain.maxDelay : undefined;
  return { start, length, end: to, counts, countedFrom };
}

/**
 * The start of each interval, and the end of the last one. Without `from`, the first boundary is -Infinity. Without
 * `to`, the last one is Infinity.
 */
function boundariesOf({ start, length, count }: Intervals, { from, to }: AuditFilter): number[] {
  const inner = Array.from({ length: count - 1 }, (_, index) => start + (index + 1) * length);
  return [from ?? Number.NEGATIVE_INFINITY, ...inner, to ?? Number.POSITIVE_INFINITY];
}

/** Returns -1 if the time is outside of the period. */
function intervalOf(time: number, { start, length, count }: Intervals, { from, to }: AuditFilter): number {
  if (time < (from ?? Number.NEGATIVE_INFINITY) || time >= (to ?? Number.POSITIVE_INFINITY)) return -1;
  return Math.min(Math.max(Math.floor((time - start) / length), 0), count - 1);
}

/** The time of the first entry above a position. Infinity if no entry is above it. */
async function firstTime(db: Reader, { number }: Chain, after: number): Promise<number> {
  const row = await db.get<{ at: DbTime }>(
    'select at from audit where chain = $1 and seq > $2 order by seq limit 1',
    [number, after],
  );
  return Number(row?.at ?? Number.POSITIVE_INFINITY);
}

/** A binary search between `lo` and `hi` for the last entry that is older than `time`. */
interface Search extends Span {
  readonly time: number;
  /** Whether an entry that another program has deleted counts as older. */
  readonly missingIsOlder: boolean;
}

/**
 * For each boundary, the range of entries whose times must be read. Entries up to `lo` are older than the boundary, and
 * entries above `hi` are not: no entry is more than `maxDelay` older than an entry before it. If a range is longer than
 * `maxWindow`, only its middle is returned.
 */
async function windowsAt(
  db: Reader,
  chain: Chain,
  span: Span,
  boundaries: readonly number[],
  maxWindow: number,
): Promise<Span[]> {
  const delay = chain.maxDelay;
  const finite = boundaries.filter((time) => Number.isFinite(time));
  const starts = finite.map((time) => ({ ...span, time: time - delay, missingIsOlder: false }));
  const middles = finite.map((time) => ({ ...span, time, missingIsOlder: true }));
  const ends = finite.map((time) => ({ ...span, time: time + delay, missingIsOlder: true }));
  const found = await findPositions(db, chain, [...starts, ...middles, ...ends]);
  return boundaries.map((time) => {
    if (time === Number.NEGATIVE_INFINITY) return { lo: span.lo, hi: span.lo };
    if (time === Number.POSITIVE_INFINITY) return { lo: span.hi, hi: span.hi };
    const index = finite.indexOf(time);
    const [lo, middle, hi] = [0, 1, 2].map((part) => found[part * finite.length + index]) as Triple;
    if (hi - lo <= maxWindow) return { lo, hi };
    return { lo: Math.max(lo, middle - maxWindow / 2), hi: Math.min(hi, middle + maxWindow / 2) };
  });
}

type Triple = [lo: number, middle: number, hi: number];

/** Runs all binary searches in parallel, with one statement per step. */
async function findPositions(db: Reader, { number }: Chain, searches: readonly Search[]): Promise<number[]> {
  let open = searches;
  while (open.some(({ lo, hi }) => lo < hi)) {
    const params = new Params();
    const middles = open.filter(({ lo, hi }) => lo < hi).map(middleOf);
    const rows = await db.all<{ seq: DbTime; at: DbTime }>(
      `select seq, at from audit where chain = ${params.add(number)} and seq in ${params.list([...new Set(middles)])}`,
      params.values,
    );
    const times = new Map(rows.map(({ seq, at }) => [Number(seq), Number(at)]));
    open = open.map((search) => {
      if (search.lo >= search.hi) return search;
      const middle = middleOf(search);
      const at = times.get(middle);
      const isOlder = at === undefined ? search.missingIsOlder : at < search.time;
      return isOlder ? { ...search, lo: middle } : { ...search, hi: middle - 1 };
    });
  }
  return open.map(({ lo }) => lo);
}

/** Rounds up, so that the middle is above `lo` and each step makes the range smaller. */
function middleOf({ lo, hi }: Span): number {
  return Math.ceil((lo + hi) / 2);
}

/** The times of the entries in the windows, by position. */
async function timesIn(
  db: Reader,
  { number }: Chain,
  windows: readonly Span[],
): Promise<ReadonlyMap<number, number>> {
  const times = new Map<number, number>();
  let read = 0;
  for (const { lo, hi } of windows) {
    const first = Math.max(lo, read);
    if (first >= hi) continue;
    const rows = await db.all<{ seq: DbTime; at: DbTime }>(
      'select seq, at from audit where chain = $1 and seq > $2 and seq <= $3',
      [number, first, hi],
    );
    for (const { seq, at } of rows) times.set(Number(seq), Number(at));
    read = hi;
  }
  return times;
}

/** Index 0 stands for an entry that does not match the filter. */
const resultNames = [undefined, 'success', 'denied', 'failed'] as const;

interface Batch {
  /** The position of the first result. */
  readonly first: number;
  /** Indexes of `resultNames`. */
  readonly results: Uint8Array;
}

const resultTerm = (result: 'denied' | 'failed') => termsFor({ result })[0] as number;

/** The results of all matching entries of the span, in ascending order. */
async function* resultsIn(
  db: Reader,
  chain: Chain,
  filter: AuditFilter,
  { lo, hi }: Span,
): AsyncGenerator<Batch> {
  const [term, ...others] = termsFor(filter);
  const { number } = chain;
  const end = blockOf(hi);
  for (let block = blockOf(lo + 1); block <= end; block += batchSize) {
    const range = { first: block, last: Math.min(block + batchSize - 1, end) };
    const first = block * blockSize;
    const results = new Uint8Array((range.last - range.first + 1) * blockSize);
    const read = (wanted: number) => blocksWith(db, { chain: number, term: wanted }, range, 'asc', batchSize);
    if (term === undefined) results.fill(1);
    else {
      for (const { seqs } of await intersect(db, number, others, await read(term)))
        for (const seq of seqs) results[seq - first] = 1;
    }
    for (const result of ['denied', 'failed'] as const) {
      const isWanted = filter.result === undefined || filter.result === result;
      for (const { seqs } of await read(resultTerm(result)))
        for (const seq of seqs)
          if (results[seq - first]) results[seq - first] = isWanted ? resultNames.indexOf(result) : 0;
    }
    yield { first, results };
    // SQLite blocks this thread. Other requests get a turn between two batches.
    if (db.dialect === 'sqlite') await new Promise(setImmediate);
  }
}
