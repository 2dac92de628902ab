/**
 * Verifies segments: each one, and that it continues the one before it. Lets the process handle other requests every few
 * milliseconds, because the retention runs in the service.
 */
import type { Db } from '../../db/db.ts';
import type { ChainKeys } from '../../db/keys/keyring.ts';
import { inTurns, type Steps } from '../../domain/steps.ts';
import type { Chain } from '../log/chain.ts';
import { type AuditEntry, isKnownFormat, macOf, sameBytes } from '../log/entry.ts';
import { indexOf } from '../log/seal.ts';
import {
  contentHashOf,
  headerText,
  isSignedText,
  PackedEntries,
  positionOf,
  type SegmentHeader,
  type SignedHeader,
  sha256,
  signingKeyId,
  timesOf,
} from '../log/segment.ts';
import { storedIndex, termsIn } from '../log/terms.ts';
import type { Position } from '../records.ts';

/** What verification can find. */
export type FindingCode =
  | 'damaged_file'
  | 'unknown_format'
  | 'wrong_key'
  | 'changed_entry'
  | 'replayed_entry'
  | 'changed_segment'
  | 'missing_segments'
  | 'broken_chain'
  | 'cut_off'
  | 'anchor_differs'
  | 'missing_archive'
  | 'changed_index'
  | 'changed_settings'
  | 'changed_report';

export interface Finding {
  readonly code: FindingCode;
  /** The chain: the id of a tenant, or `system`. */
  readonly chain?: string;
  readonly file?: string;
  readonly line?: number;
  /** The number of the segment in the chain. */
  readonly segment?: number;
  /** The last segment, if the finding is about a range of segments. */
  readonly last?: number;
  /** The position of the entry in the chain, if the finding is about an entry. */
  readonly entry?: number;
  readonly message: string;
}

/** A finding about a known chain and file. */
export type Problem = Omit<Finding, 'chain' | 'file'>;

/** A segment, with its entries as stored in the database or as read from a file. */
export interface SegmentSource {
  readonly segment: SignedHeader;
  readonly content: PackedEntries | readonly AuditEntry[];
  /** The number of its line in its file. */
  readonly line?: number;
}

/** Those entries that can be read. */
export function entriesOf({ content }: SegmentSource): readonly AuditEntry[] {
  return content instanceof PackedEntries ? content.readable() : content;
}

/** The segment before, which a segment must continue. `end` is absent if the segment before it is not known. */
interface Before {
  readonly hash: string;
  readonly end?: Pick<SegmentHeader, 'last' | 'sealed_at' | 'max_delay'>;
}

export interface CheckedSegment {
  readonly problems: readonly Problem[];
  /** The entries, in order. Undefined for an entry without a valid MAC. */
  readonly entries: readonly (AuditEntry | undefined)[];
  /** The terms of the segment in the index. Undefined if the segment is not intact. */
  readonly terms?: Int32Array;
}

export interface CheckedItem extends CheckedSegment {
  /** The last segment so far. */
  readonly position: Position;
  /** Undefined for a problem of the source, and for a segment that does not come after those before it. */
  readonly segment?: SignedHeader;
}

/** Verifies the segments of a chain after `after`, in order. */
export async function* checkSegments(
  keys: ChainKeys,
  after: Position,
  items: AsyncIterable<SegmentSource | Problem>,
): AsyncGenerator<CheckedItem> {
  let position = after;
  const start = { last: 0, sealed_at: 0, max_delay: 0 };
  let before: Before | undefined = { hash: after.hash, ...(after.number === 0 && { end: start }) };
  for await (const item of items) {
    if (!('content' in item)) {
      yield { position, problems: [item], entries: [] };
      continue;
    }
    const { segment, line } = item;
    const { number } = segment;
    const at = { segment: number, ...(line !== undefined && { line }) };
    if (number <= position.number) {
      const message = `segment ${number} comes after segment ${position.number}`;
      yield { position, problems: [{ code: 'broken_chain', message, ...at }], entries: [] };
      continue;
    }
    const missing: Problem[] = [];
    if (number > position.number + 1) {
      const [first, last] = [position.number + 1, number - 1];
      const message = `${segmentNames(first, last)} missing`;
      missing.push({ code: 'missing_segments', message, ...at, segment: first, last });
      before = undefined;
    }
    const { content } = item;
    const entries = content instanceof PackedEntries ? await inTurns(content.read()) : content;
    const checked = await checkSegment(keys, segment, entries, before);
    const own = checked.problems.map((problem) => {
      const { entry } = problem;
      const inFile = line !== undefined && entry !== undefined && { line: line + 1 + entry - segment.first };
      return { ...at, ...inFile, ...problem };
    });
    position = positionOf(segment);
    before = { hash: position.hash, end: segment };
    yield { ...checked, position, segment, problems: [...missing, ...own] };
  }
}

export function segmentNames(first: number, last: number): string {
  return first === last ? `segment ${first}` : `segments ${first} to ${last}`;
}

/**
 * Checks the signature, the hashes, the MACs of all entries, the times and counts, and with `before` that the segment
 * continues the chain.
 */
export async function checkSegment(
  keys: ChainKeys,
  segment: SignedHeader,
  found: readonly AuditEntry[],
  before?: Before,
): Promise<CheckedSegment> {
  const { number, format, first, last, tenantId } = segment;
  const problems: Problem[] = [];
  if (!isKnownFormat(format)) {
    const message = `segment ${number} has the format ${format}, which this version cannot verify: use a newer version`;
    return { problems: [{ code: 'unknown_format', message }], entries: found.map(() => undefined) };
  }
  const entries = await inTurns(withValidMac(keys, tenantId, found));
  entries.forEach((entry, offset) => {
    const at = first + offset;
    const message = `entry ${at} was changed: its MAC does not match`;
    if (!entry) problems.push({ code: 'changed_entry', message, entry: at });
  });
  const changed = (message: string) => problems.push({ code: 'changed_segment', message });
  if (segment.key !== signingKeyId(keys) || !isSignedText(keys, headerText(segment), segment.signature)) {
    changed(`the signature of segment ${number} is invalid`);
    return { problems, entries };
  }
  const areChanged = problems.length > 0;
  const isComplete = found.length === last - first + 1 && contentHashOf(found) === segment.content;
  if (!isComplete)
    changed(
      `entries of segment ${number} (${first} to ${last}) were removed, inserted, moved or made unreadable`,
    );
  const intact = isComplete && !areChanged ? await indexOf(found) : undefined;
  if (intact && !hasOwnValues(segment, found, before?.end, intact))
    changed(`the times or counts of segment ${number} do not match its entries`);
  if (before && (segment.previous !== before.hash || (before.end && first !== before.end.last + 1)))
    problems.push({
      code: 'broken_chain',
      message: `segment ${number} does not continue the segment before it`,
    });
  return { problems, entries, ...(intact && { terms: termsIn(intact.index) }) };
}

function* withValidMac(
  keys: ChainKeys,
  tenantId: string,
  entries: readonly AuditEntry[],
): Steps<(AuditEntry | undefined)[]> {
  const valid: (AuditEntry | undefined)[] = [];
  for (const entry of entries) {
    yield;
    valid.push(sameBytes(macOf(keys, tenantId, entry), entry.mac) ? entry : undefined);
  }
  return valid;
}

function hasOwnValues(
  segment: SegmentHeader,
  entries: readonly AuditEntry[],
  before: Before['end'],
  { counts, index }: Awaited<ReturnType<typeof indexOf>>,
): boolean {
  const times = timesOf(entries, before ?? { sealed_at: 0, max_delay: 0 });
  return (
    times.earliest_at === segment.earliest_at &&
    times.latest_at === segment.latest_at &&
    (before ? times.sealed_at === segment.sealed_at : times.sealed_at <= segment.sealed_at) &&
    (before ? times.max_delay === segment.max_delay : times.max_delay <= segment.max_delay) &&
    counts.success === segment.success &&
    counts.denied === segment.denied &&
    counts.failed === segment.failed &&
    sha256(index) === segment.index
  );
}

/** A message about a segment whose rows in the index are not those of its entries. */
export function indexChanged(number: number): string {
  return `the index of segment ${number} was changed, so filters and counts can be wrong`;
}

/** Whether the row of the chain has the values of its last segment. */
export function isEndOf({ last, sealed_at, max_delay }: SegmentHeader, chain: Chain): boolean {
  return chain.seq === last && chain.sealed_at === sealed_at && chain.max_delay === max_delay;
}

export function endDiffers(number: number): string {
  return `the stored end of the chain has other times or another position than its last segment ${number}`;
}

/** Segments that are compared at a time. */
const maxWaiting = 2 ** 14;
/** Terms are signed 32-bit numbers. They are hashes, so ranges of the same size have about as many rows. */
const minTerm = -(2 ** 31);
const allTerms = 2 ** 32;

/**
 * Compares the stored index with the segments of a chain. Reads it in the order of its key, about `rowsPerRead` rows
 * per statement: on PostgreSQL, this takes a third of the time of looking up the terms of each segment.
 */
export class IndexCheck {
  readonly #db: Db;
  readonly #tenantId: string;
  readonly #waiting = new Map<number, { readonly expected: string; readonly stored: Bun.CryptoHasher }>();
  readonly #rowsPerRead: number;
  #rows = 0;

  constructor(db: Db, tenantId: string, rowsPerRead = 2 ** 14) {
    this.#db = db;
    this.#tenantId = tenantId;
    this.#rowsPerRead = rowsPerRead;
  }

  /** Adds a segment that is intact and has this many terms. Call it in the order of the segments. */
  add({ number, index }: SegmentHeader, terms: number): void {
    this.#waiting.set(number, { expected: index, stored: new Bun.CryptoHasher('sha256') });
    this.#rows += terms;
  }

  get isFull(): boolean {
    return this.#waiting.size >= maxWaiting;
  }

  /** Returns those of the added segments whose rows were changed. The others are not compared again. */
  async takeChanged(between: () => Promise<void>): Promise<number[]> {
    const numbers = [...this.#waiting.keys()];
    const range = { first: numbers[0] ?? 0, last: numbers.at(-1) ?? 0 };
    const reads = Math.ceil(this.#rows / this.#rowsPerRead);
    const start = (read: number) => minTerm + Math.ceil((read * allTerms) / reads);
    for (let read = 0; read < reads; read++) {
      const terms = { first: start(read), last: start(read + 1) - 1 };
      for await (const { number, packed } of storedIndex(this.#db, this.#tenantId, range, terms))
        this.#waiting.get(Number(number))?.stored.update(packed);
      await between();
    }
    const changed = [...this.#waiting].filter(
      ([, { expected, stored }]) => stored.digest('hex') !== expected,
    );
    this.#waiting.clear();
    this.#rows = 0;
    return changed.map(([number]) => number);
  }
}

/** Entries whose ids are certainly in memory. At most twice as many are. */
const minRecent = 16_384;
/** Maximum number of entries that are compared with the whole chain. */
const maxLate = 2 ** 20;

export type ReportCopy = (seq: number, original: number) => void;

/** Finds entries that were inserted a second time. Every entry has a unique id, which its MAC covers. */
export class ReplayCheck {
  readonly #report: ReportCopy;
  /** The newest entries, and those before them. Keys are ids, values are positions. */
  #recent = new Map<string, number>();
  #before = new Map<string, number>();
  /** The latest time up to the end of `#before`. */
  #latestBefore = Number.NEGATIVE_INFINITY;
  /** Entries that may be copies of an entry that is no longer in memory. Keys are ids, values are positions. */
  readonly #late = new Map<string, number>();
  #seq = 0;
  #latest = Number.NEGATIVE_INFINITY;
  /**
   * The latest time of the entries that are no longer in memory. A copy has the id of its original, so an entry with a
   * later time in its id is not a copy of these.
   */
  #latestForgotten = Number.NEGATIVE_INFINITY;

  constructor(report: ReportCopy) {
    this.#report = report;
  }

  /**
   * Call this for each entry with a valid MAC; `time` is the time in its id. Parts may overlap: positions that were
   * added before are ignored.
   */
  add(seq: number, id: string, time: number): void {
    if (seq <= this.#seq) return;
    this.#seq = seq;
    const known = this.#recent.get(id) ?? this.#before.get(id);
    if (known !== undefined) {
      this.#report(seq, known);
      return;
    }
    if (time <= this.#latestForgotten && this.#late.size < maxLate) this.#late.set(id, seq);
    this.#latest = Math.max(this.#latest, time);
    this.#recent.set(id, seq);
    if (this.#recent.size < minRecent) return;
    [this.#before, this.#recent] = [this.#recent, new Map()];
    [this.#latestForgotten, this.#latestBefore] = [this.#latestBefore, this.#latest];
  }

  /** Whether some entries may be copies of entries that are no longer in memory. Then call `compare` for all entries. */
  get isUndecided(): boolean {
    return this.#late.size > 0;
  }

  compare(seq: number, id: string): void {
    const copy = this.#late.get(id);
    if (copy === undefined || seq >= copy) return;
    this.#late.delete(id);
    this.#report(copy, seq);
  }
}
