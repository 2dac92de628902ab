/** Verifies all parts of one chain together: whether they are complete, and whether each continues the one before. */

import type { ChainKeys } from '../../db/keys/keyring.ts';
import { timestamp } from '../../domain/common-fields.ts';
import { chainOf, headerAt } from '../log/chain.ts';
import { timeOfId } from '../log/entry.ts';
import type { Range } from '../log/segment.ts';
import { isIndexed } from '../log/terms.ts';
import { anchorOf, chainName, type Position, parsePosition, systemTenant } from '../records.ts';
import {
  type CheckedItem,
  checkSegments,
  endDiffers,
  entriesOf,
  type Finding,
  IndexCheck,
  indexChanged,
  isEndOf,
  type Problem,
  ReplayCheck,
  segmentNames,
} from './check.ts';
import { checkNotDeleted, type Part } from './export.ts';
import { type Removal, type Restore, type Statement, statementOf } from './statements.ts';

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

export interface ReadablePart {
  readonly part: Part;
  readonly keys: ChainKeys;
}

/** State that the chains of a log share. */
export interface WholeLog {
  readonly archives: 'required' | 'optional' | 'ignored';
  readonly onEntry: ((entry: VerifiedEntry) => void) | undefined;
  report(finding: Finding): void;
  note(text: string): void;
  /** Call this after every segment, and with 0 between other steps. May throw to stop. */
  between(tenantId: string, segment: number, verified: number): Promise<void>;
  /** Call this for every segment with a valid signature. `system` is the end of the system chain that it names. */
  link(tenantId: string, position: Position, system: Position | undefined, part: Part): void;
  /** Call this for every statement of the system chain. */
  readSystem(segment: number, at: number, statement: Statement): void;
}

export class ChainCheck {
  readonly #log: WholeLog;
  readonly #tenantId: string;
  readonly #parts: readonly ReadablePart[];
  readonly #expected: readonly Expected[];
  /** Those of `#expected` that were compared with the chain. */
  readonly #compared = new Set<Expected>();
  readonly #removals: Removal[] = [];
  /** Segments that record a restore. */
  readonly #restores: (Restore & { readonly number: number })[] = [];
  readonly #replays = new ReplayCheck((entry, of) =>
    this.#report({ code: 'replayed_entry', message: `entry ${entry} is a copy of entry ${of}`, entry }),
  );
  /** False if some parts of the chain cannot be read. Then missing segments are not reported. */
  readonly #isComplete: boolean;
  readonly #totals = { entries: 0, segments: 0 };
  #latest = 0;

  constructor(
    log: WholeLog,
    tenantId: string,
    parts: readonly ReadablePart[],
    expected: readonly Expected[],
    isComplete: boolean,
  ) {
    this.#log = log;
    this.#tenantId = tenantId;
    this.#parts = parts.toSorted(
      ({ part: a }, { part: b }) => a.after.number - b.after.number || endOf(a).number - endOf(b).number,
    );
    this.#expected = expected;
    this.#isComplete = isComplete && parts.every(({ part }) => part.end !== undefined);
  }

  async run(): Promise<ChainVerdict> {
    let head: Position = { number: 0, hash: '' };
    const gaps: Range[] = [];
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
    this.#compare(position, borders, { segment: position.number });
    for await (const checked of checkSegments(keys, part.after, part.segments(keys))) {
      const { segment, problems } = checked;
      for (const problem of problems) this.#report({ ...file, ...problem });
      if (!segment) continue;
      position = checked.position;
      const { number } = segment;
      this.#read(checked);
      if (problems.every(({ code }) => code !== 'changed_segment'))
        this.#log.link(this.#tenantId, position, parsePosition(segment.system ?? ''), part);
      await this.#checkTerms(checked, part, index);
      this.#compare(position, borders, { ...file, segment: number });
      await this.#log.between(this.#tenantId, number, 1);
      if (index?.isFull) await this.#checkIndex(index, part, number);
    }
    if (index) await this.#checkIndex(index, part, position.number);
    await this.#checkEnd(part, position);
    return position;
  }

  async #checkEnd(part: Part, { number, hash }: Position): Promise<void> {
    const end = endOf(part);
    const file = part.file !== undefined && { file: part.file };
    if (end.number > number) {
      const message = `the chain ended with segment ${end.number}, but ends with segment ${number}`;
      this.#report({ code: 'cut_off', message, ...file, segment: number });
    } else if (end.number === number && end.hash !== hash) {
      const message = `the chain ended with another segment ${number}`;
      this.#report({ code: 'broken_chain', message, segment: number });
    } else if (part.db) {
      // The row of the chain repeats values of its last segment, which searches and the next segment use.
      const chain = await chainOf(part.db, this.#tenantId);
      const last = chain && (await headerAt(part.db, this.#tenantId, chain.number));
      if (last && !isEndOf(last, chain))
        this.#report({ code: 'changed_index', message: endDiffers(last.number), segment: last.number });
    }
  }

  /** Reads the entries with a valid MAC. */
  #read({ segment, position, entries }: CheckedItem): void {
    if (!segment) return;
    const { number, first, sealed_at } = segment;
    entries.forEach((entry, offset) => {
      if (!entry) return;
      const { id, at, text } = entry;
      this.#replays.add(first + offset, id, timeOfId(id));
      this.#log.onEntry?.({ tenantId: this.#tenantId, segment: position, id, at, text });
      const statement = statementOf(text);
      if (statement && this.#tenantId === systemTenant) this.#log.readSystem(number, at, statement);
      if (statement?.removal) this.#removals.push(statement.removal);
      if (statement?.restore) this.#restores.push({ number, ...statement.restore });
    });
    this.#latest = Math.max(this.#latest, sealed_at);
    this.#totals.segments += 1;
    this.#totals.entries += entries.length;
  }

  async #checkTerms({ segment, terms }: CheckedItem, { db }: Part, index: IndexCheck | undefined) {
    if (!segment || !terms) return;
    if (index) index.add(segment, terms.length);
    else if (db && !(await isIndexed(db, segment, terms))) this.#reportIndex(segment.number);
  }

  async #checkIndex(index: IndexCheck, { db, tenantId }: Part, at: number): Promise<void> {
    const changed = await index.takeChanged(() => this.#log.between(tenantId, at, 0));
    if (db && changed[0] !== undefined) await checkNotDeleted(db, tenantId, changed[0] - 1);
    for (const number of changed) this.#reportIndex(number);
  }

  #reportIndex(number: number): void {
    this.#report({ code: 'changed_index', message: indexChanged(number), segment: number });
  }

  /** Reads all parts again if some entries may be copies of entries that are no longer in memory. */
  async #checkReplays(): Promise<void> {
    if (!this.#replays.isUndecided) return;
    for (const { part, keys } of this.#parts)
      for await (const item of part.segments(keys)) {
        if (!('content' in item)) continue;
        const { number, first } = item.segment;
        entriesOf(item).forEach(({ id }, offset) => {
          this.#replays.compare(first + offset, id);
        });
        await this.#log.between(this.#tenantId, number, 0);
      }
  }

  /** The starts and ends of other parts that are within this part, by number. Their hashes must match this part. */
  #bordersOf(part: Part): Borders {
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

  #compare({ number, hash }: Position, borders: Borders, place: Pick<Finding, 'file' | 'segment'>): void {
    for (const { source, ...border } of borders.get(number) ?? []) {
      const message = `segment ${number} is not ${source}${this.#restoreNote(number)}`;
      if (border.hash !== hash) this.#report({ code: 'broken_chain', message, ...place });
    }
    for (const expected of this.#expected) {
      if (expected.number !== number || this.#compared.has(expected)) continue;
      this.#compared.add(expected);
      const message = `segment ${number} does not match ${expected.source}${this.#restoreNote(number)}`;
      if (hash !== expected.hash) this.#report({ code: 'anchor_differs', message, ...place });
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
  #checkGap({ first, last }: Range): void {
    const { archives } = this.#log;
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
        if (archives === 'optional') this.#log.note(`${names} ${of} ${is} archived ${where}`);
        else this.#report({ code: 'missing_archive', message: `${names} ${is} archived${todo}`, ...place });
      };
      const deleted = (how: string) => this.#log.note(`${names} ${of} ${was} deleted ${how}`);
      if (removal?.file !== undefined) archived(`in ${removal.file}`, `: add ${removal.file}`);
      else if (removal) deleted('after delivery to all sinks');
      else if (above?.file !== undefined)
        archived(`in a file that ${above.file} names`, `: add ${above.file}, which names the next file`);
      else if (above) deleted('earlier; the entry about it was delivered to all sinks, too');
      else {
        const message = `${names} ${is} missing, and no entry records an archive`;
        this.#report({ code: 'missing_segments', message, ...place });
      }
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
          this.#report({ code: 'broken_chain', message, segment: last.number });
      }
  }

  #checkExpected(end: number): void {
    const open = this.#expected.filter((one) => !this.#compared.has(one));
    const furthest = (by: Expected['required']) =>
      open
        .filter(({ number, required }) => required === by && number > end)
        .toSorted((a, b) => b.number - a.number)[0];
    const [inLog, inArchives] = [furthest('log'), furthest('archive')];
    if (inLog) {
      const message = cutOff(end, inLog) + this.#restoreNote(inLog.number);
      this.#report({ code: 'cut_off', message, segment: end });
    } else if (inArchives && this.#log.archives === 'required') {
      const message = notInFiles(end + 1, inArchives);
      const range = { segment: end + 1, last: inArchives.number };
      this.#report({ code: 'missing_archive', message, ...range });
    }
    const isVerified = this.#parts.some(({ part }) => part.isRest);
    for (const { number, source, given } of open) {
      const message = `segment ${number}, which ${source} names, is not in these files`;
      if (given && number <= end && !isVerified)
        this.#report({ code: 'missing_archive', message, segment: number });
    }
  }

  #report(problem: Problem & { readonly file?: string }): void {
    this.#log.report({ chain: chainName(this.#tenantId), ...problem });
  }
}

type Borders = ReadonlyMap<number, readonly (Position & { readonly source: string })[]>;

/** The end of a part according to its footer; its start if the footer is missing. */
export function endOf({ end, after }: Part): Position {
  return end ?? after;
}

function nameOf({ file }: Part): string {
  return file ?? 'the database';
}

/** A segment, and what says that the chain has it. */
export type Known = Pick<Expected, 'number' | 'source'>;

/** A message about segments that the system chain mentions. It is not known whether they were archived. */
export function notInFiles(first: number, { number: last, source }: Known): string {
  const is = first === last ? 'is' : 'are';
  return `${segmentNames(first, last)}, which ${source} mentions, ${is} not in these files: add the archives, or pass --database`;
}

/** A message about a chain that had a segment that is known from elsewhere. */
export function cutOff(end: number, { number, source }: Known): string {
  const is = end === 0 ? 'the chain is missing' : `the log ends with segment ${end}`;
  return `${is}, but had segment ${number} according to ${source}`;
}
