/** Verifies all parts of one chain together: whether they are complete, and whether each continues the one before. */

import type { Db } from '../../db/db.ts';
import type { ChainKeys } from '../../db/keys/keyring.ts';
import { timestamp } from '../../domain/common-fields.ts';
import { chainOf, headerAt } from '../log/chain.ts';
import { timeOfId } from '../log/entry.ts';
import { hashOf, PackedEntries } from '../log/segment.ts';
import { isIndexed } from '../log/terms.ts';
import { anchorOf, chainName, type Position } from '../records.ts';
import {
  type Before,
  beforeFirst,
  beforeNext,
  type CheckedSegment,
  type CheckThreads,
  checkSegment,
  endDiffers,
  entriesOf,
  type FindingCode,
  IndexCheck,
  indexChanged,
  isEndOf,
  ReplayCheck,
} from './check.ts';
import { checkNotDeleted, type Part, type PartSegment, type Problem } from './export.ts';
import { type Removal, statementOf } from './statements.ts';

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

export interface ChainVerdict {
  readonly chain: string;
  /** The first and the last segment that were verified. */
  readonly first: number;
  readonly last: number;
  /** The latest time up to the last segment. */
  readonly latest_at?: string;
  readonly entries: number;
  readonly segments: number;
  /** The last segment that was verified, as CHAIN:NUMBER:HASH. */
  readonly anchor: string;
}

/** An entry with a valid MAC. */
export interface VerifiedEntry {
  /** `systemTenant` if it has no tenant. */
  readonly tenantId: string;
  readonly segment: Position;
  readonly id: string;
  readonly at: number;
  /** JSON. */
  readonly text: string;
}

/** A position that the chain should have. It was recorded in the system chain, or given by the caller. */
export interface Expected extends Position {
  readonly source: string;
  /** Whether the caller gave it. */
  readonly given?: boolean;
  /**
   * Which files must contain this position. `log`: the export of the whole log. `archive`: the given archives, if one
   * of them is of the system chain and records the position. Undefined if no file has to contain it.
   */
  readonly required: 'log' | 'archive' | undefined;
}

export interface ChainOptions {
  readonly archives: 'required' | 'optional' | 'ignored';
  /** False if some parts of the chain cannot be read. Then missing segments are not reported. */
  readonly isComplete: boolean;
  readonly report: (finding: Finding) => void;
  readonly note: (text: string) => void;
  readonly onEntry: ((entry: VerifiedEntry) => void) | undefined;
  /** Threads for segments that are stored in the database. */
  readonly threads: CheckThreads | undefined;
  /** Called for every segment with a valid signature. */
  readonly onSegment: (position: Position) => void;
  /** Called after every segment, and with 0 between other steps. May throw to stop. */
  readonly between: (number: number, verified?: number) => Promise<void>;
  /** Called for every segment that names the end of the system chain. */
  readonly onSystem: (number: number, system: Position, part: Part) => void;
  /** Called for every entry that records the ends of other chains. */
  readonly onHeads: (heads: readonly (readonly [tenantId: string, Position])[], number: number) => void;
  /** Called for every entry that records a value of `SALLYPORT_AUDIT_READS`. */
  readonly onReads: (at: number, value: string) => void;
}

interface ReadablePart {
  readonly part: Part;
  readonly keys: ChainKeys;
}

export class ChainCheck {
  readonly #tenantId: string;
  readonly #parts: readonly ReadablePart[];
  readonly #expected: readonly Expected[];
  readonly #options: ChainOptions;
  /** Those of `#expected` that were compared with the chain. */
  readonly #compared = new Set<Expected>();
  readonly #removals: Removal[] = [];
  /** Segments that record a restore, with the ends of the chain in the backup and in the replaced database. */
  readonly #restores: { readonly number: number; readonly backup: number; readonly replaced: number }[] = [];
  readonly #replays = new ReplayCheck((entry, of) =>
    this.#report('replayed_entry', `entry ${entry} is a copy of entry ${of}`, { entry }),
  );
  #isComplete: boolean;
  readonly #totals = { entries: 0, segments: 0 };
  #latest = 0;

  constructor(
    tenantId: string,
    parts: readonly ReadablePart[],
    expected: readonly Expected[],
    options: ChainOptions,
  ) {
    this.#tenantId = tenantId;
    this.#parts = parts.toSorted(
      ({ part: a }, { part: b }) => a.after.number - b.after.number || endOf(a).number - endOf(b).number,
    );
    this.#expected = expected;
    this.#options = options;
    this.#isComplete = options.isComplete;
  }

  get restored(): boolean {
    return this.#restores.length > 0;
  }

  async run(): Promise<ChainVerdict> {
    let head: Position = { number: 0, hash: '' };
    const gaps: Segments[] = [];
    for (const { part, keys } of this.#parts) {
      const { number: start } = part.after;
      if (start > head.number && !part.isRest) gaps.push({ first: head.number + 1, last: start });
      const end = await this.#checkPart(part, keys);
      if (end.number >= head.number) head = end;
    }
    await this.#checkReplays();
    if (this.#isComplete) {
      for (const gap of gaps) this.#checkGap(gap);
      this.#checkRemovals();
      this.#checkExpected(head.number);
    }
    return {
      chain: chainName(this.#tenantId),
      first: (this.#parts[0]?.part.after.number ?? 0) + 1,
      last: head.number,
      ...(this.#latest > 0 && { latest_at: timestamp(this.#latest) }),
      ...this.#totals,
      anchor: anchorOf({ tenantId: this.#tenantId, ...head }),
    };
  }

  /** Returns the last position that was verified. */
  async #checkPart(part: Part, keys: ChainKeys): Promise<Position> {
    const borders = this.#bordersOf(part);
    const file = part.file !== undefined && { file: part.file };
    const index = part.db && !part.isRest ? new IndexCheck(part.db, part.tenantId) : undefined;
    let position = part.after;
    this.#compare(position, borders);
    for await (const { item, before, checked } of this.#checks(part, keys)) {
      const place = { ...file, ...(item.line !== undefined && { line: item.line }) };
      if (item.kind === 'problem') {
        this.#report(item.code, item.message, place);
        if (item.isFatal) this.#isComplete = false;
        continue;
      }
      const { segment } = item;
      const { number } = segment;
      const at = { ...place, segment: number };
      if (!checked) {
        this.#report('broken_chain', `segment ${number} comes after segment ${position.number}`, at);
        continue;
      }
      if (number > position.number + 1) {
        const [first, last] = [position.number + 1, number - 1];
        const missing = { ...place, segment: first, last };
        this.#report('missing_segments', `${segmentNames(first, last)} missing`, missing);
      } else if (!before && segment.previous !== position.hash)
        this.#report('broken_chain', `segment ${number} does not continue the segment before it`, at);
      position = { number, hash: hashOf(segment) };
      await this.#addSegment(part, item, position, await checked, at, index);
      this.#compare(position, borders, at);
      await this.#options.between(number);
      if (index?.isFull) await this.#checkIndex(index, part, number);
    }
    if (index) await this.#checkIndex(index, part, position.number);
    const { number } = position;
    const end = endOf(part);
    if (end.number > number) {
      const message = `the chain ended with segment ${end.number}, but ends with segment ${number}`;
      this.#report('cut_off', message, { ...file, segment: number });
    } else if (end.number === number && end.hash !== position.hash) {
      const message = `the chain ended with another segment ${end.number}`;
      this.#report('broken_chain', message, { segment: end.number });
    } else if (part.db) await this.#checkRow(part.db);
    return position;
  }

  /** The row of the chain repeats values of its last segment, which searches and the next segment use. */
  async #checkRow(db: Db): Promise<void> {
    const chain = await chainOf(db, this.#tenantId);
    const last = chain && (await headerAt(db, this.#tenantId, chain.number));
    if (!last || isEndOf(last, chain)) return;
    this.#report('changed_index', endDiffers(last.number), { segment: last.number });
  }

  /** The segments of a part. Checks of later segments are running while the caller handles the result of one. */
  async *#checks(part: Part, keys: ChainKeys): AsyncGenerator<Check> {
    const { threads } = this.#options;
    const queue: Check[] = [];
    let last = part.after.number;
    let before = last === 0 ? beforeFirst(part.after) : undefined;
    for await (const item of part.segments(keys)) {
      if (item.kind === 'problem') queue.push({ item });
      else if (item.segment.number <= last) queue.push({ item });
      else {
        const { segment, content } = item;
        if (segment.number > last + 1) before = undefined;
        const checked =
          threads && content instanceof PackedEntries
            ? threads.check(segment, content, before)
            : checkSegment(keys, segment, entriesOf(content), before);
        // If the verification stops before it needs this result, an error is not reported.
        checked.catch(() => {});
        queue.push({ item, before, checked });
        before = beforeNext(segment);
        last = segment.number;
      }
      if (queue.length > (threads?.capacity ?? 0)) yield queue.shift() as Check;
    }
    yield* queue;
  }

  async #addSegment(
    part: Part,
    { segment, content }: PartSegment,
    position: Position,
    { problems, ids, statements, terms }: CheckedSegment,
    place: Place,
    index: IndexCheck | undefined,
  ): Promise<void> {
    const { number, first, system } = segment;
    const { onEntry, onSegment, onSystem } = this.#options;
    for (const { code, message, entry } of problems) {
      const line = place.line !== undefined &&
        entry !== undefined && { line: place.line + 1 + entry - first };
      this.#report(code, message, { ...place, ...(entry !== undefined && { entry }), ...line });
    }
    ids.forEach((id, offset) => {
      if (id !== undefined) this.#replays.add(first + offset, id, timeOfId(id));
    });
    for (const { at, text } of statements) this.#read(number, at, text);
    if (onEntry)
      entriesOf(content).forEach(({ id, at, text }, offset) => {
        if (ids[offset] !== undefined) onEntry({ tenantId: this.#tenantId, segment: position, id, at, text });
      });
    if (terms && index) index.add(segment, terms.length);
    else if (terms && part.db && !(await isIndexed(part.db, segment, terms))) this.#reportIndex(number);
    const isSigned = problems.every(({ code }) => code !== 'changed_segment');
    if (isSigned) onSegment(position);
    if (isSigned && system) onSystem(number, system, part);
    this.#latest = Math.max(this.#latest, segment.sealedAt);
    this.#totals.segments += 1;
    this.#totals.entries += ids.length;
  }

  async #checkIndex(index: IndexCheck, { db, tenantId }: Part, at: number): Promise<void> {
    const changed = await index.takeChanged(() => this.#options.between(at, 0));
    if (db && changed[0] !== undefined) await checkNotDeleted(db, tenantId, changed[0] - 1);
    for (const number of changed) this.#reportIndex(number);
  }

  #reportIndex(number: number): void {
    this.#report('changed_index', indexChanged(number), { segment: number });
  }

  /** Reads all parts again if some entries may be copies of entries that are no longer in memory. */
  async #checkReplays(): Promise<void> {
    if (!this.#replays.isUndecided) return;
    for (const { part, keys } of this.#parts)
      for await (const item of part.segments(keys)) {
        if (item.kind === 'problem') continue;
        const { number, first } = item.segment;
        entriesOf(item.content).forEach(({ id }, offset) => {
          this.#replays.compare(first + offset, id);
        });
        await this.#options.between(number, 0);
      }
  }

  /** The starts and ends of other parts that are within this part, by number. Their hashes must match this part. */
  #bordersOf(part: Part): ReadonlyMap<number, (Position & { source: string })[]> {
    const borders = this.#parts
      .filter((other) => other.part !== part)
      .flatMap(({ part: other }) => [
        { ...other.after, source: `the last segment before ${nameOf(other)}` },
        { ...endOf(other), source: `the last segment of ${nameOf(other)}` },
      ]);
    return Map.groupBy(
      borders.filter(({ number }) => number > part.after.number),
      ({ number }) => number,
    );
  }

  #read(number: number, at: number, text: string): void {
    const statement = statementOf(text);
    if (statement?.heads) this.#options.onHeads(statement.heads, number);
    if (statement?.removal) this.#removals.push(statement.removal);
    if (statement?.reads !== undefined) this.#options.onReads(at, statement.reads);
    if (statement?.restore) this.#restores.push({ number, ...statement.restore });
  }

  #compare(
    { number, hash }: Position,
    borders: ReadonlyMap<number, (Position & { source: string })[]>,
    place: Place = { segment: number },
  ): void {
    for (const { source, ...border } of borders.get(number) ?? [])
      if (border.hash !== hash)
        this.#report('broken_chain', `segment ${number} is not ${source}${this.#restoreNote(number)}`, place);
    for (const expected of this.#expected) {
      if (expected.number !== number || this.#compared.has(expected)) continue;
      this.#compared.add(expected);
      const message = `segment ${number} does not match ${expected.source}${this.#restoreNote(number)}`;
      if (hash !== expected.hash) this.#report('anchor_differs', message, place);
    }
  }

  /**
   * Returns a note for the message if a restore explains why a position does not match. That is so after the end of the
   * chain in the backup, up to its end in the replaced database.
   */
  #restoreNote(at: number): string {
    const restore = this.#restores.findLast(({ backup, replaced }) => backup < at && at <= replaced);
    return restore ? `; segment ${restore.number} records that the database was restored from a backup` : '';
  }

  /**
   * Checks that missing segments were archived or delivered before they were deleted. Checks a gap from its last segment
   * to its first, because the record of a deletion comes after the deleted segments.
   */
  #checkGap({ first, last }: Segments): void {
    const { archives, note } = this.#options;
    if (archives === 'ignored') return;
    const of = `of chain ${chainName(this.#tenantId)}`;
    const removals = this.#removals;
    /** The removal of the segments after `end`. The record about the segments up to `end` was among them. */
    let above: Removal | undefined;
    for (let end = last; end >= first; ) {
      const removal = removals.findLast((one) => one.first <= end && end <= one.last.number);
      const below = removals.map((one) => one.last.number).filter((number) => number < end);
      const start = Math.max(first, removal ? removal.first : Math.max(0, ...below) + 1);
      const place = { segment: start, last: end };
      const names = segmentNames(start, end);
      const [is, was] = start === end ? ['is', 'was'] : ['are', 'were'];
      const archived = (where: string, todo: string) => {
        if (archives === 'optional') note(`${names} ${of} ${is} archived ${where}`);
        else this.#report('missing_archive', `${names} ${is} archived${todo}`, place);
      };
      if (removal?.file !== undefined) archived(`in ${removal.file}`, `: add ${removal.file}`);
      else if (removal) note(`${names} ${of} ${was} deleted after delivery to all sinks`);
      else if (!above)
        this.#report('missing_segments', `${names} ${is} missing, and no entry records an archive`, place);
      else if (above.file !== undefined)
        archived(`in a file that ${above.file} names`, `: add ${above.file}, which names the next file`);
      else note(`${names} ${of} ${was} deleted earlier; the entry about it was delivered to all sinks, too`);
      above = removal ?? above;
      end = start - 1;
    }
  }

  /**
   * A part names the segment before its first one, with its hash. If that was the last one of a deletion, the deletion
   * must have recorded the same hash.
   */
  #checkRemovals(): void {
    for (const { last } of this.#removals)
      for (const { part } of this.#parts) {
        const message = `${nameOf(part)} does not start after the deleted segment ${last.number}`;
        if (part.after.number === last.number && part.after.hash !== last.hash)
          this.#report('broken_chain', message, { segment: last.number });
      }
  }

  #checkExpected(end: number): void {
    const open = this.#expected.filter((one) => !this.#compared.has(one));
    const furthest = (by: Expected['required']) =>
      open
        .filter(({ number, required }) => required === by && number > end)
        .toSorted((a, b) => b.number - a.number)[0];
    const [inLog, inArchives] = [furthest('log'), furthest('archive')];
    if (inArchives && !inLog && this.#options.archives === 'required') {
      const { number: last, source } = inArchives;
      this.#report('missing_archive', notInFiles(end + 1, last, source), { segment: end + 1, last });
    }
    if (inLog) {
      const { number, source } = inLog;
      const message = cutOff(end, number, source) + this.#restoreNote(number);
      this.#report('cut_off', message, { segment: end });
    }
    const isVerified = this.#parts.some(({ part }) => part.isRest);
    for (const { number, source, given } of open)
      if (given && number <= end && !isVerified)
        this.#report('missing_archive', `segment ${number}, which ${source} names, is not in these files`, {
          segment: number,
        });
  }

  #report(code: FindingCode, message: string, place: Place): void {
    this.#options.report({ code, chain: chainName(this.#tenantId), ...place, message });
  }
}

interface Check {
  readonly item: PartSegment | Problem;
  readonly before?: Before | undefined;
  /** Undefined for a segment that does not come after those before it. It is not checked. */
  readonly checked?: Promise<CheckedSegment>;
}

type Place = Pick<Finding, 'file' | 'line' | 'segment' | 'last' | 'entry'>;

/** The end of a part according to its footer; its start if the footer is missing. */
export function endOf({ end, after }: Part): Position {
  return end ?? after;
}

function nameOf({ file }: Part): string {
  return file ?? 'the database';
}

interface Segments {
  readonly first: number;
  readonly last: number;
}

/** A message about segments that the system chain mentions. It is not known whether they were archived. */
export function notInFiles(first: number, last: number, source: string): string {
  const is = first === last ? 'is' : 'are';
  return `${segmentNames(first, last)}, which ${source} mentions, ${is} not in these files: add the archives, or pass --database`;
}

/** A message about a chain that ended with segment `number` according to `source`. */
export function cutOff(end: number, number: number, source: string): string {
  const is = end === 0 ? 'the chain is missing' : `the log ends with segment ${end}`;
  return `${is}, but had segment ${number} according to ${source}`;
}

function segmentNames(first: number, last: number): string {
  return first === last ? `segment ${first}` : `segments ${first} to ${last}`;
}
