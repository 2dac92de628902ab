/**
 * Searches the log of a tenant. The index suggests candidates, which are then compared with the filter. A page examines
 * a limited number of candidates, regardless of the filter and the length of the log.
 */
import type { LogEntry } from '../../domain/audit.ts';
import { type Failure, fail } from '../../domain/error.ts';
import type { Steps } from '../../domain/steps.ts';
import type { AuditFilter, LogPage, LogWindow } from '../records.ts';
import {
  type Chain,
  chainOf,
  firstHeader,
  firstSealedAt,
  headersIn,
  heldBytes,
  type StoredSegment,
  segmentAt,
  segmentsIn,
} from './chain.ts';
import { type AuditEntry, cursorOf, type Place, placeOf, timeOfId, toLogEntry } from './entry.ts';
import { newestPending } from './pending.ts';
import { compute, peakReserver, type Reader } from './reader.ts';
import { chunkSize } from './segment.ts';
import { intersect, isBetween, matches, segmentsWith, termsFor } from './terms.ts';

/** Maximum number of entries that one page examines, and of characters of JSON that it returns. */
export const maxExamined = 2000;
const maxPageBytes = 4 * 1024 * 1024;
/** Bytes that an entry on a page takes, per character of its JSON. */
const parsedBytes = 4;
/** Maximum number of pending entries per statement, about how many characters they have, and rows of the index. */
const maxPending = 64;
const maxPendingText = 524_288;
const maxHits = 16;
/** Reading a row of the index, and decompressing a chunk, count as examining this many entries. */
const hitCost = 5;
const chunkCost = 20;

type Order = 'asc' | 'desc';

/** Collects the entries of a page. */
class Page {
  readonly entries: LogEntry[] = [];
  readonly #tenantId: string;
  readonly #filter: AuditFilter;
  readonly #limit: number;
  readonly #reserve: (bytes: number) => void;
  #examined = 0;
  #bytes = 0;
  #next: string | undefined;

  constructor(db: Reader, tenantId: string, filter: AuditFilter, limit: number) {
    this.#tenantId = tenantId;
    this.#filter = filter;
    this.#limit = limit;
    this.#reserve = peakReserver(db);
  }

  /** Reserves memory for the entries of the page, and the bytes of rows that are read for it. */
  hold(bytes: number): void {
    this.#reserve(parsedBytes * this.#bytes + bytes);
  }

  /** Counts work that examines no entry. */
  spend(cost: number): void {
    this.#examined += cost;
  }

  get isExhausted(): boolean {
    return this.#examined >= maxExamined;
  }

  /**
   * Adds the entry if it matches. Returns false if the page is full; then it ends before this entry. `cursor` is the
   * place of the entry, and `held` is as in `hold`.
   */
  add(entry: Omit<AuditEntry, 'mac'>, cursor: string, held: number): boolean {
    const { at, text } = entry;
    this.#examined += 1;
    const found = isBetween(at, this.#filter) ? toLogEntry(this.#tenantId, entry) : undefined;
    if (!found || !matches(found, this.#filter)) return true;
    this.#bytes += text.length;
    const { length } = this.entries;
    if (length === this.#limit || (this.#bytes > maxPageBytes && length > 0)) return false;
    this.hold(held);
    this.entries.push(found);
    this.#next = cursor;
    return true;
  }

  /** The page if more entries may follow: after `cursor`, or after the last entry of the page. */
  more(cursor = this.#next): LogPage {
    return { entries: this.entries, next: cursor };
  }
}

/** Newest first. Begins with the pending entries, unless `before` is a sealed one. */
export async function searchBackwards(
  db: Reader,
  tenantId: string,
  filter: AuditFilter,
  { limit, before }: LogWindow,
): Promise<LogPage> {
  const page = new Page(db, tenantId, filter, limit);
  let cursor = before !== undefined && placeOf(before) ? undefined : before;
  let chain: Chain | undefined;
  let upTo = before === undefined ? undefined : placeOf(before);
  for (let size = firstSize(limit); !upTo; ) {
    const pending = await newestPending(db, tenantId, size + 1, cursor);
    const isPending = cursor === undefined || pending?.entries[0]?.id === cursor;
    chain = pending ? pending.chain : await chainOf(db, tenantId);
    if (!isPending) {
      // The entry was sealed. If it does not exist, the page is empty.
      upTo = chain && (await placeOfId(db, chain, cursor as string));
      if (!upTo) return { entries: [] };
      break;
    }
    const entries = (pending?.entries ?? []).slice(cursor === undefined ? 0 : 1);
    if (!(await compute(db, addPending(page, entries)))) return page.more();
    if (entries.length < size) break;
    cursor = entries.at(-1)?.id;
    if (page.isExhausted) return page.more(cursor);
    const longest = Math.max(...entries.map(({ text }) => text.length));
    size = Math.min(8 * size, maxPending, Math.max(1, Math.floor(maxPendingText / longest)));
  }
  chain ??= await chainOf(db, tenantId);
  return chain ? searchSegments(db, chain, filter, page, 'desc', upTo) : { entries: page.entries };
}

/** Returns false if the page is full. */
function* addPending(page: Page, entries: readonly AuditEntry[]): Steps<boolean> {
  const read = entries.reduce((sum, { text }) => sum + text.length, 0);
  page.hold(read);
  for (const entry of entries) {
    yield;
    if (!page.add(entry, entry.id, read)) return false;
  }
  return true;
}

/** Oldest first: sealed entries after `after`. Throws `validation_failed` as `AuditLog.list` says. */
export async function searchForwards(
  db: Reader,
  tenantId: string,
  filter: AuditFilter,
  after: string,
  limit: number,
): Promise<LogPage> {
  const chain = await chainOf(db, tenantId);
  const place = placeOf(after) ?? (chain && (await placeOfId(db, chain, after)));
  if (!place) {
    const pending = await newestPending(db, tenantId, 1, after);
    if (pending?.entries[0]?.id === after) return { entries: [] };
    const first = chain && (await firstHeader(db, chain));
    const isOlder =
      chain && chain.base.number > 0 && timeOfId(after) <= (first?.sealed_at ?? chain.sealed_at);
    throw invalidAfter(isOlder ? tooOld : 'must be the id of an entry of this log');
  }
  if (!chain || place.number > chain.number) throw invalidAfter('must be the id of an entry of this log');
  if (place.number < chain.base.number) throw invalidAfter(tooOld);
  return searchSegments(db, chain, filter, new Page(db, tenantId, filter, limit), 'asc', place);
}

const tooOld = 'is too old: entries after it were archived';

function invalidAfter(message: string): Failure {
  return fail('validation_failed', { errors: { after: [message] } });
}

/** Rows of the first statement. An entry about an update can have 128 KiB, and takes up to 4 ms. */
function firstSize(limit: number): number {
  return Math.min(limit + 1, 3);
}

/** Maximum number of segments that are searched for an id. */
const maxLocated = 8;

/**
 * The place of a sealed entry. Ids contain the time, and entries are sealed in the order of their ids, so it is usually
 * in the first segment that was sealed at that time or later. If the clock was fast for a while, later segments have
 * the same `sealed_at`; then the newest ones are searched, too.
 */
async function placeOfId(
  db: Reader,
  { tenantId, base, number: end }: Chain,
  id: string,
): Promise<Place | undefined> {
  const time = timeOfId(id);
  const start = Number.isNaN(time) ? undefined : await firstSealedAt(db, tenantId, time);
  if (start === undefined) return undefined;
  const holds = peakReserver(db);
  const first = Math.max(start, base.number + 1);
  const ranges = [
    { first, last: Math.min(first + maxLocated - 1, end), order: 'asc' as const },
    { first: Math.max(first + maxLocated, end - maxLocated + 1), last: end, order: 'desc' as const },
  ];
  for (const { order, ...range } of ranges)
    for (const header of await headersIn(db, tenantId, range, order, maxLocated)) {
      if (time < header.earliest_at) continue;
      const segment = await segmentAt(db, tenantId, header.number);
      const offset = segment ? await compute(db, offsetOf(segment, id)) : -1;
      if (segment) holds(heldBytes([segment]));
      if (offset >= 0) return { number: header.number, offset };
    }
  return undefined;
}

/** The entry with this id if it matches the filter, as a list of one. */
export async function entryWithId(
  db: Reader,
  tenantId: string,
  filter: AuditFilter,
  id: string,
): Promise<LogEntry[]> {
  const entry = (await pendingWithId(db, tenantId, id)) ?? (await sealedWithId(db, tenantId, id));
  if (!entry || !isBetween(entry.at, filter)) return [];
  const found = toLogEntry(tenantId, entry);
  return matches(found, filter) ? [found] : [];
}

async function pendingWithId(db: Reader, tenantId: string, id: string) {
  const newest = (await newestPending(db, tenantId, 1, id))?.entries[0];
  return newest?.id === id ? newest : undefined;
}

async function sealedWithId(db: Reader, tenantId: string, id: string) {
  const chain = await chainOf(db, tenantId);
  const place = chain && (await placeOfId(db, chain, id));
  return place && (await segmentAt(db, tenantId, place.number))?.packed.at(place.offset);
}

function* offsetOf({ packed }: StoredSegment, id: string): Steps<number> {
  for (let chunk = 0; chunk * chunkSize < packed.length; chunk++) {
    yield;
    const offset = packed.chunk(chunk).findIndex((entry) => entry.id === id);
    if (offset >= 0) return chunk * chunkSize + offset;
  }
  return -1;
}

/** The segments that may have entries with times that match the filter. */
export async function numbersOf(
  db: Reader,
  chain: Chain,
  { from, to }: AuditFilter,
): Promise<{ first: number; last: number }> {
  const { tenantId, base, number, max_delay } = chain;
  const start = from === undefined ? 0 : ((await firstSealedAt(db, tenantId, from)) ?? number + 1);
  const end = to === undefined ? undefined : await firstSealedAt(db, tenantId, to + max_delay);
  return {
    first: Math.max(start, base.number + 1),
    last: Math.min(end === undefined ? number : end, number),
  };
}

/** Adds sealed entries to the page, from `start` on, which is left out. */
async function searchSegments(
  db: Reader,
  chain: Chain,
  filter: AuditFilter,
  page: Page,
  order: Order,
  start: Place | undefined,
): Promise<LogPage> {
  const range = await numbersOf(db, chain, filter);
  if (start && order === 'desc') range.last = Math.min(range.last, start.number);
  if (start && order === 'asc') range.first = Math.max(range.first, start.number);
  for await (const candidate of candidates(db, chain.tenantId, termsFor(filter), range, order)) {
    const { number, cost } = candidate;
    page.spend(cost);
    const end = await compute(db, examine(candidate, filter, page, order, start));
    if (end) return end;
    const cursor = cursorOf({ number, offset: order === 'desc' ? 0 : lastOffset });
    if (page.isExhausted) return page.more(cursor);
  }
  return { entries: page.entries };
}

/** More than any segment has. */
const lastOffset = 2 ** 16;

interface Candidate {
  readonly number: number;
  /** Undefined if all segments up to this number, in the order of the search, were searched. */
  readonly segment?: StoredSegment;
  /** The segments in memory: this one, and those that the same statement has read for later. */
  readonly read: readonly StoredSegment[];
  readonly offsets: readonly number[] | 'all';
  readonly cost: number;
}

/** Maximum number of segments per statement, and about how many entries they have together. */
const maxSegments = 16;
const entriesPerRead = 256;

/** The segments that may have matching entries, in order. */
async function* candidates(
  db: Reader,
  tenantId: string,
  [term, ...others]: readonly number[],
  range: { first: number; last: number },
  order: Order,
): AsyncGenerator<Candidate> {
  const advance = (number: number) => {
    if (order === 'asc') range.first = number + 1;
    else range.last = number - 1;
  };
  let size = 1;
  while (term === undefined && range.first <= range.last) {
    const segments = await segmentsIn(db, tenantId, range, order, size);
    const last = segments.at(-1);
    if (!last) return;
    // Removes each segment when it was searched, and with it the chunks that were decompressed.
    for (let [segment] = segments; segment; segments.shift(), [segment] = segments)
      yield { number: segment.number, segment, read: segments, offsets: 'all', cost: 0 };
    size = Math.min(maxSegments, Math.max(1, Math.floor(entriesPerRead / last.packed.length)));
    advance(last.number);
  }
  while (term !== undefined && range.first <= range.last) {
    const hits = await segmentsWith(db, tenantId, term, range, order, maxHits);
    const last = hits.at(-1);
    if (!last) return;
    for (const { number, offsets } of await intersect(db, tenantId, others, hits)) {
      const segment = await segmentAt(db, tenantId, number);
      if (segment) yield { number, segment, read: [segment], offsets, cost: 0 };
    }
    if (hits.length < maxHits) return;
    yield { number: last.number, read: [], offsets: [], cost: maxHits * hitCost };
    advance(last.number);
  }
}

/** Returns a page if it ends within this segment. */
function* examine(
  { segment, read, offsets }: Candidate,
  filter: AuditFilter,
  page: Page,
  order: Order,
  start: Place | undefined,
): Steps<LogPage | undefined> {
  if (!segment) return undefined;
  const { number, packed, earliest_at, latest_at } = segment;
  if ((filter.from ?? 0) > latest_at || (filter.to ?? Number.POSITIVE_INFINITY) <= earliest_at)
    return undefined;
  const all = offsets === 'all' ? Array.from({ length: packed.length }, (_, at) => at) : offsets;
  const isAhead = (offset: number) =>
    start?.number !== number || (order === 'desc' ? offset < start.offset : offset > start.offset);
  const wanted = all.filter(isAhead);
  let chunk = -1;
  let held = 0;
  for (const offset of order === 'asc' ? wanted : wanted.toReversed()) {
    const cursor = cursorOf({ number, offset });
    if (Math.floor(offset / chunkSize) !== chunk) {
      chunk = Math.floor(offset / chunkSize);
      page.spend(chunkCost);
      yield;
      packed.chunk(chunk);
      held = heldBytes(read);
      page.hold(held);
    }
    yield;
    if (!page.add(packed.at(offset) ?? unreadableAt(segment, offset), cursor, held)) return page.more();
    if (page.isExhausted) return page.more(cursor);
  }
  return undefined;
}

/** Takes the place of an entry that was altered in the database and cannot be read. */
function unreadableAt({ number, latest_at }: StoredSegment, offset: number): Omit<AuditEntry, 'mac'> {
  return { id: cursorOf({ number, offset }), at: latest_at, text: '' };
}
