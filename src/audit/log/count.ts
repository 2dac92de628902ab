/**
 * Counts the entries of one log by result and time interval. The index tells which entries match. A segment whose times
 * are within one interval is not decompressed.
 */
import { sql } from '../../db/statement.ts';
import type { Entry, LogEntry } from '../../domain/audit.ts';
import { type Intervals, intervalsBetween } from '../../domain/intervals.ts';
import type { Steps } from '../../domain/steps.ts';
import type { AuditFilter, DenialCounts, LogCounts } from '../records.ts';
import {
  type Chain,
  chainOf,
  emptyChain,
  firstHeader,
  headerAt,
  headersIn,
  heldBytes,
  type StoredSegment,
  segmentAt,
  segmentsAt,
} from './chain.ts';
import { type AuditEntry, timeOfId, toLogEntry } from './entry.ts';
import { newestPending, type PendingEntry } from './pending.ts';
import { compute, peakReserver, type Reader } from './reader.ts';
import { numbersOf } from './search.ts';
import { type Counts, chunkSize, type SegmentHeader } from './segment.ts';
import {
  divided,
  type Hits,
  hitsAt,
  intersect,
  isBetween,
  matches,
  segmentsWith,
  termsFor,
} from './terms.ts';

export interface CountLimits {
  /** Maximum number of entries and segments that are counted. Older ones are left out. */
  readonly entries: number;
  readonly segments: number;
  /**
   * Maximum number of segments that are decompressed. The entries of others are assigned to the interval of the last
   * one of them.
   */
  readonly opened: number;
  /** Maximum number of pending entries that are counted. A node leaves about 500 of a busy tenant. */
  readonly pending: number;
}

const defaults: CountLimits = { entries: 2 ** 21, segments: 100_000, opened: 256, pending: 10_000 };
/** Segments per statement. Their 64,000 entries take about a millisecond. */
export const batchSize = 64;

export async function countEntries(
  db: Reader,
  tenantId: string,
  filter: AuditFilter,
  now: number,
  limits = defaults,
): Promise<Omit<LogCounts, 'gaps'>> {
  const { pending, chain, range, pendingFrom } = await startOf(db, tenantId, filter, limits.pending);
  const oldest = (await firstHeader(db, chain))?.earliest_at ?? pending.at(-1)?.at;
  const to = filter.to ?? now;
  const from = filter.from ?? Math.min(oldest ?? Number.POSITIVE_INFINITY, to - 1);
  // Without `to`, entries of the current millisecond are counted too.
  const tally = new Tally(intervalsBetween(from, filter.to ?? now + 1), filter);
  const addPending = (found: LogEntry, at: number) => tally.add(at, found.result);
  await compute(db, eachMatch(tenantId, pending, filter, addPending));
  const first = Math.max(range.first, range.last - limits.segments + 1);
  let { entries, opened } = limits;
  let countedFrom = first > range.first ? (await headerAt(db, tenantId, first - 1))?.sealed_at : pendingFrom;
  const needsOffsets = (header: SegmentHeader) => !tally.isWithinOne(header);
  const sealed = matching(db, tenantId, filter, { first, last: range.last }, needsOffsets);
  for await (const { header, hits } of sealed) {
    if (entries < header.last - header.first + 1) {
      countedFrom = header.sealed_at;
      break;
    }
    entries -= header.last - header.first + 1;
    if (!hits) tally.addAll(header.latest_at, header);
    else if (tally.isWithinOne(header) || opened-- <= 0) tally.addAll(header.latest_at, countsOf(hits));
    else await addTimes(db, header, hits, tally);
  }
  const { start, length } = tally.intervals;
  return { start, length, end: to, counts: tally.counts, countedFrom };
}

/**
 * Where counting starts: the newest pending entries and the range of the segments. If older pending entries may match,
 * `pendingFrom` is the time from which all were read, and the range is empty, because entries before it are left out.
 */
async function startOf(db: Reader, tenantId: string, filter: AuditFilter, max: number) {
  const { entries: pending, chain, isCut } = await readPending(db, tenantId, max);
  const last = isCut ? pending.at(-1) : undefined;
  if (!last || !(await isOlderPending(db, tenantId, last.id, filter)))
    return { pending, chain, range: await numbersOf(db, chain, filter), pendingFrom: undefined };
  // The time of the id, because an aggregated entry is written after its `at`. It is no number in an altered id.
  return { pending, chain, range: { first: 1, last: 0 }, pendingFrom: timeOfId(last.id) || last.at };
}

/** Pending entries per statement. They can be large. */
const pendingPage = 250;

/** How often the pages are read again because more entries were sealed. */
const maxRestarts = 3;

/** The newest pending entries, in pages, and the chain in the same state. `isCut` if there may be older ones. */
async function readPending(db: Reader, tenantId: string, max: number) {
  let entries: PendingEntry[] = [];
  let chain: Chain | undefined;
  let isCut = true;
  for (let restarts = 0; isCut && entries.length < max; ) {
    const isFirst = entries.length === 0;
    const size = Math.min(pendingPage, max - entries.length + (isFirst ? 0 : 1));
    const page = await newestPending(db, tenantId, size, entries.at(-1)?.id);
    db.reserve?.(page?.entries.reduce((sum, { text }) => sum + text.length, 0) ?? 0);
    const isSame = isFirst || (page !== undefined && page.chain?.number === chain?.number);
    if (!isSame && restarts++ === maxRestarts) break;
    chain = page ? page.chain : await chainOf(db, tenantId);
    // A page begins with the last entry of the one before.
    entries = isSame ? [...entries, ...(page?.entries.slice(isFirst ? 0 : 1) ?? [])] : [];
    isCut = !isSame || page?.entries.length === size;
  }
  return { entries, chain: chain ?? emptyChain(tenantId), isCut };
}

/** Whether a pending entry that is older than `id` may match. */
async function isOlderPending(db: Reader, tenantId: string, id: string, { from, to }: AuditFilter) {
  const older =
    await db.get(sql`select 1 as one from audit_pending where tenant_id = ${tenantId} and id < ${id}
    and at >= ${from ?? 0} and at < ${to ?? Number.MAX_SAFE_INTEGER} limit 1`);
  return older !== undefined;
}

/** Calls `add` for each entry that matches. */
function* eachMatch(
  tenantId: string,
  entries: Iterable<Omit<AuditEntry, 'mac'> | undefined>,
  filter: AuditFilter,
  add: (found: LogEntry, at: number) => void,
): Steps<void> {
  for (const entry of entries) {
    yield;
    const found = entry && isBetween(entry.at, filter) ? toLogEntry(tenantId, entry) : undefined;
    if (entry && found && matches(found, filter)) add(found, entry.at);
  }
}

type Result = Entry['result'];

/** The offsets of the matching entries of a segment, by result. */
type HitsByResult = Readonly<Record<Result, readonly number[]>>;

class Tally {
  readonly intervals: Intervals;
  readonly counts: { success: number; denied: number; failed: number }[];
  readonly #filter: AuditFilter;

  constructor(intervals: Intervals, filter: AuditFilter) {
    this.intervals = intervals;
    this.counts = Array.from({ length: intervals.count }, () => ({ success: 0, denied: 0, failed: 0 }));
    this.#filter = filter;
  }

  add(at: number, result: Result, count = 1): void {
    const interval = this.counts[this.#intervalOf(at)];
    if (interval && isBetween(at, this.#filter)) interval[result] += count;
  }

  addAll(at: number, { success, denied, failed }: Counts): void {
    const { result } = this.#filter;
    for (const [each, count] of Object.entries({ success, denied, failed }))
      if (result === undefined || result === each) this.add(at, each as Result, count);
  }

  isWithinOne({ earliest_at, latest_at }: SegmentHeader): boolean {
    const isInside = isBetween(earliest_at, this.#filter) && isBetween(latest_at, this.#filter);
    return isInside && this.#intervalOf(earliest_at) === this.#intervalOf(latest_at);
  }

  #intervalOf(at: number): number {
    const { start, length, count } = this.intervals;
    return Math.min(Math.max(Math.floor((at - start) / length), 0), count - 1);
  }
}

function countsOf({ success, denied, failed }: HitsByResult): Counts {
  return { success: success.length, denied: denied.length, failed: failed.length };
}

/** Decompresses a segment and counts its hits by their times. */
async function addTimes(db: Reader, { tenantId, number }: SegmentHeader, hits: HitsByResult, tally: Tally) {
  const segment = await segmentAt(db, tenantId, number);
  function* times({ packed }: StoredSegment): Steps<void> {
    for (let start = 0; start < packed.length; start += chunkSize) {
      yield;
      const isHere = (offset: number) => offset >= start && offset < start + chunkSize;
      for (const [result, offsets] of Object.entries(hits))
        for (const offset of offsets.filter(isHere)) {
          const entry = packed.at(offset);
          if (entry) tally.add(entry.at, result as Result);
        }
    }
  }
  if (segment) await compute(db, times(segment));
}

interface Matching {
  readonly header: SegmentHeader;
  /** Undefined if all entries match, except those with another result. */
  readonly hits: HitsByResult | undefined;
}

/** The segments with matching entries, newest first. Without a term in the filter, `needsOffsets` says of which segments the hits are read. */
async function* matching(
  db: Reader,
  tenantId: string,
  filter: AuditFilter,
  range: { first: number; last: number },
  needsOffsets: (header: SegmentHeader) => boolean = () => true,
): AsyncGenerator<Matching> {
  const [term, ...others] = termsFor(filter);
  while (range.first <= range.last) {
    const found =
      term === undefined ? undefined : await segmentsWith(db, tenantId, term, range, 'desc', batchSize);
    const end = found ? found.at(-1)?.number : Math.max(range.first, range.last - batchSize + 1);
    if (end === undefined) return;
    const hits = found && (await intersect(db, tenantId, others, found));
    yield* await withResults(db, tenantId, filter, { first: end, last: range.last }, hits, needsOffsets);
    range.last = end - 1;
  }
}

async function withResults(
  db: Reader,
  tenantId: string,
  filter: AuditFilter,
  range: { readonly first: number; readonly last: number },
  hits: readonly Hits[] | undefined,
  needsOffsets: (header: SegmentHeader) => boolean,
): Promise<Matching[]> {
  if (hits?.length === 0) return [];
  const offsetsOf = hits && new Map(hits.map(({ number, offsets }) => [number, offsets]));
  const headers = (await headersIn(db, tenantId, range, 'desc', batchSize)).filter(
    ({ number }) => !offsetsOf || offsetsOf.has(number),
  );
  const split = headers.filter((header) => offsetsOf || needsOffsets(header));
  const mixed = split.filter(({ denied, failed }) => denied + failed > 0);
  const withTerm = async (result: 'denied' | 'failed') => {
    const found = await hitsAt(db, tenantId, termsFor({ result })[0] as number, mixed);
    return new Map(found.map(({ number, offsets }) => [number, offsets]));
  };
  const [withDenied, withFailed] = [await withTerm('denied'), await withTerm('failed')];
  function* byResult({ first, last, number }: SegmentHeader): Steps<HitsByResult> {
    yield;
    const all = offsetsOf?.get(number) ?? Array.from({ length: last - first + 1 }, (_, at) => at);
    const [denied, others] = divided(all, withDenied.get(number));
    const [failed, success] = divided(others, withFailed.get(number));
    const results = { success, denied, failed };
    if (filter.result === undefined) return results;
    return { success: [], denied: [], failed: [], [filter.result]: results[filter.result] };
  }
  function* matchings(): Steps<Matching[]> {
    const list: Matching[] = [];
    const isSplit = new Set(split);
    for (const header of headers)
      list.push({ header, hits: isSplit.has(header) ? yield* byResult(header) : undefined });
    return list;
  }
  return compute(db, matchings());
}

/**
 * Limits of reading denied entries: a segment costs `segmentCost` in addition to the entries of the chunks that are
 * decompressed. All of them take about a second of processor time.
 */
const denialBudget = 250_000;
const segmentCost = 20;
/** Segments per statement, and about how many entries they have together. */
const maxSegments = 32;
const entriesPerRead = 2048;

/** Reads the denied entries that match, for the number of events of each. `within` has the intervals. */
export async function countDenials(
  db: Reader,
  tenantId: string,
  filter: AuditFilter,
  within: Pick<LogCounts, 'start' | 'length' | 'counts'>,
  budget = denialBudget,
  maxPending = defaults.pending,
): Promise<DenialCounts> {
  const denied = { ...filter, result: 'denied' as const };
  const counts = within.counts.map(() => 0);
  const applications = new Map<string, number>();
  if (filter.result !== undefined && filter.result !== 'denied')
    return { counts, applications: [], countedFrom: undefined };
  const add = ({ actor, count = 1 }: LogEntry, at: number) => {
    const interval = Math.floor((at - within.start) / within.length);
    counts[Math.min(Math.max(interval, 0), counts.length - 1)]! += count;
    const id = actor.application_id ?? actor.id;
    if (id !== undefined) applications.set(id, (applications.get(id) ?? 0) + count);
  };
  const { pending, range, pendingFrom } = await startOf(db, tenantId, denied, maxPending);
  await compute(db, eachMatch(tenantId, pending, denied, add));
  let countedFrom = pendingFrom;
  const holds = peakReserver(db);
  for await (const batch of readsOf(matching(db, tenantId, denied, range))) {
    const segments = await segmentsAt(db, tenantId, [...batch.keys()]);
    for (const segment of segments) {
      holds(heldBytes(segments));
      if (budget <= 0) {
        countedFrom ??= segment.sealed_at;
        break;
      }
      const { packed } = segment;
      const offsets = batch.get(segment.number) ?? [];
      const entries = Iterator.from(offsets).map((offset) => packed.at(offset));
      await compute(db, eachMatch(tenantId, entries, denied, add));
      const chunks = new Set(offsets.map((offset) => Math.floor(offset / chunkSize)));
      budget -= segmentCost + Math.min(chunks.size * chunkSize, packed.length);
    }
    if (countedFrom !== undefined) break;
  }
  const most = [...applications].map(([id, denials]) => ({ id, denials }));
  return { counts, applications: most.sort((a, b) => b.denials - a.denials), countedFrom };
}

/** Groups segments with denied entries into batches that one statement reads: number → offsets. */
async function* readsOf(found: AsyncIterable<Matching>): AsyncGenerator<Map<number, readonly number[]>> {
  let [batch, entries] = [new Map<number, readonly number[]>(), 0];
  for await (const { header, hits } of found) {
    if (!hits || hits.denied.length === 0) continue;
    batch.set(header.number, hits.denied);
    entries += header.last - header.first + 1;
    if (batch.size < maxSegments && entries < entriesPerRead) continue;
    yield batch;
    [batch, entries] = [new Map(), 0];
  }
  if (batch.size > 0) yield batch;
}
