/** Verifies all parts of one chain together: whether they are complete, and whether each continues the one before. */
import { timestamp } from '../../domain/common-fields.ts';
import { chainName, formatPosition, type Position, parsePosition } from './export-format.ts';
import { type ChainIndex, IndexCheck } from './index-check.ts';
import { type Removal, statementOf } from './log-entries.ts';
import type { ChainOptions, ChainVerdict, Expected, Finding, Part } from './verify-chain-options.ts';
import { checkGap, type GapReport, notInFiles, type Rows } from './verify-gaps.ts';
import { type FindingCode, PartCheck, rowNames } from './verify-part.ts';
import { ReplayCheck } from './verify-replays.ts';

export class ChainCheck {
  readonly #tenantId: string;
  readonly #parts: readonly Part[];
  readonly #expected: readonly Expected[];
  readonly #options: ChainOptions;
  /** Those of `#expected` that were compared with the chain. */
  readonly #compared = new Set<Expected>();
  readonly #removals: Removal[] = [];
  /** Entries that record a restore, each with the end of the chain that the restore replaced. */
  readonly #restores: { readonly row: number; readonly end: number }[] = [];
  readonly #replays = new ReplayCheck((row, of) =>
    this.#report('replayed_row', `row ${row} is a copy of row ${of}`, { row }),
  );
  /** Whether some part could not be checked to its end. */
  #isUnreadable = false;
  readonly #totals = { rows: 0, checkpoints: 0 };
  #latest = 0;

  constructor(
    tenantId: string,
    parts: readonly Part[],
    expected: readonly Expected[],
    options: ChainOptions,
  ) {
    this.#tenantId = tenantId;
    this.#parts = parts.toSorted((a, b) => startOf(a).seq - startOf(b).seq || endOf(a).seq - endOf(b).seq);
    this.#expected = expected;
    this.#options = options;
  }

  get restored(): boolean {
    return this.#restores.length > 0;
  }

  async run(): Promise<ChainVerdict> {
    let head: Position = { seq: 0, hash: '' };
    const gaps: Rows[] = [];
    for (const part of this.#parts) {
      const { seq: start } = startOf(part);
      if (start > head.seq) gaps.push({ first: head.seq + 1, last: start });
      const end = await this.#checkPart(part);
      if (end.seq >= head.seq) head = end;
    }
    await this.#replays.end(this.#parts);
    if (!this.#isUnreadable) {
      for (const gap of gaps) this.#checkGap(gap);
      this.#checkRemovals();
      this.#checkExpected(head.seq);
    }
    return {
      chain: chainName(this.#tenantId),
      first: startOf(this.#parts[0] as Part).seq + 1,
      last: head.seq,
      ...(this.#latest > 0 && { latest_at: timestamp(this.#latest) }),
      ...this.#totals,
      anchor: `${chainName(this.#tenantId)}:${formatPosition(head)}`,
    };
  }

  /** Returns the end of the part. */
  async #checkPart(part: Part): Promise<Position> {
    const { masters, log, onRow } = this.#options;
    const borders = this.#bordersOf(part);
    const report = (code: FindingCode, line: number, message: string, row?: number) =>
      this.#report(code, message, {
        ...(part.file !== undefined && { file: part.file, line }),
        ...(row !== undefined && { row }),
      });
    const index = part.index && (await this.#checkIndex(part.index));
    const check = new PartCheck(part.line, {
      header: part.header,
      masters,
      log,
      report,
      onRow: (row) => {
        this.#read(row.seq, row.entry);
        this.#replays.add(row);
        index?.add(row);
        const { kind: _, ...fields } = row;
        onRow?.({ ...fields, tenantId: this.#tenantId });
      },
      onSystem: (seq, system) => this.#options.onSystem(seq, system, part),
      onPosition: (seq, hashes, line) => {
        if (hashes.length === 1) this.#options.onPosition(seq, hashes[0] as string);
        this.#compare(seq, hashes, (message) => report('anchor_differs', line, message, seq));
        for (const { source, ...border } of borders.get(seq) ?? [])
          if (hashes.length > 0 && !hashes.includes(border.hash))
            report('broken_chain', line, `row ${seq} is not ${source}${this.#restoreNote(seq)}`, seq);
      },
    });
    let isHeader = true;
    for await (const text of part.lines()) {
      if (!isHeader && !check.line(text)) break;
      isHeader = false;
      if (index?.isFull) await index.compare();
    }
    check.end();
    await index?.end();
    this.#isUnreadable ||= check.isUnreadable;
    this.#latest = Math.max(this.#latest, check.latest);
    this.#totals.rows += check.rows;
    this.#totals.checkpoints += check.checkpoints;
    return check.head;
  }

  #checkIndex(index: ChainIndex): Promise<IndexCheck> {
    const chain = chainName(this.#tenantId);
    return IndexCheck.start(index, (changed, { first, last }) => {
      const what = changed === 'terms' ? 'the index of' : 'the times that searches use for';
      const message = `${what} ${rowNames(first, last)} was changed, so filters miss entries: run \`sallyport audit reindex --tenant ${chain}\``;
      this.#report('changed_index', message, { row: first, last });
    });
  }

  /** The starts and ends of other parts that are within this part, by position. Their hashes must match this part. */
  #bordersOf(part: Part): ReadonlyMap<number, (Position & { source: string })[]> {
    const borders = this.#parts
      .filter((other) => other !== part)
      .flatMap((other) => [
        { ...startOf(other), source: `the last row before ${nameOf(other)}` },
        { ...endOf(other), source: `the last row of ${nameOf(other)}` },
      ]);
    const { seq: start } = startOf(part);
    return Map.groupBy(
      borders.filter(({ seq }) => seq > start),
      ({ seq }) => seq,
    );
  }

  #read(row: number, entryText: string): void {
    const statement = statementOf(entryText);
    if (statement?.heads) this.#options.onHeads(statement.heads, row);
    if (statement?.removal) this.#removals.push(statement.removal);
    if (statement?.replacedEnd !== undefined) this.#restores.push({ row, end: statement.replacedEnd });
  }

  #compare(seq: number, hashes: readonly string[], differs: (message: string) => void): void {
    for (const expected of this.#expected) {
      if (expected.seq !== seq || this.#compared.has(expected)) continue;
      this.#compared.add(expected);
      if (hashes.length > 0 && !hashes.includes(expected.hash))
        differs(`row ${seq} does not match ${expected.source}${this.#restoreNote(seq)}`);
    }
  }

  /**
   * Returns a note for the message if a restore explains why a position does not match. That is so from the entry of
   * the restore up to the end of the replaced chain.
   */
  #restoreNote(seq: number): string {
    const restore = this.#restores.findLast(({ row, end }) => row <= seq && seq <= end);
    return restore ? `; row ${restore.row} records that the database was restored from a backup` : '';
  }

  #checkGap(gap: Rows): void {
    const { archives = 'required', note } = this.#options;
    if (archives === 'ignored') return;
    const report: GapReport = (code, message, rows) =>
      this.#report(code, message, { row: rows.first, last: rows.last });
    checkGap(this.#tenantId, gap, this.#removals, { archives, report, note });
  }

  /**
   * A part names the row before its first one, with its hash. If that row was the last one of a deletion, the deletion
   * must have recorded the same hash.
   */
  #checkRemovals(): void {
    for (const { last } of this.#removals)
      for (const part of this.#parts) {
        const start = startOf(part);
        const message = `${nameOf(part)} does not start after the deleted row ${last.seq}`;
        if (start.seq === last.seq && start.hash !== last.hash)
          this.#report('broken_chain', message, { row: last.seq });
      }
  }

  #checkExpected(end: number): void {
    const open = this.#expected.filter((one) => !this.#compared.has(one));
    const furthest = (by: Expected['required']) =>
      open.filter(({ seq, required }) => required === by && seq > end).toSorted((a, b) => b.seq - a.seq)[0];
    const [inLog, inArchives] = [furthest('log'), furthest('archive')];
    if (inArchives && !inLog && (this.#options.archives ?? 'required') === 'required') {
      const { seq: last, source } = inArchives;
      this.#report('missing_archive', notInFiles(end + 1, last, source), { row: end + 1, last });
    }
    if (inLog) {
      const { seq, source } = inLog;
      const message = `the log ends with row ${end}, but had row ${seq} according to ${source}${this.#restoreNote(seq)}`;
      this.#report('cut_off', message, { row: end });
    }
    for (const { seq, source, given } of open)
      if (given && seq <= end)
        this.#report('missing_archive', `row ${seq}, which ${source} names, is not in these files`, {
          row: seq,
        });
  }

  #report(code: FindingCode, message: string, place: Pick<Finding, 'file' | 'line' | 'row' | 'last'>): void {
    this.#options.report({ code, chain: chainName(this.#tenantId), ...place, message });
  }
}

function startOf({ header }: Part): Position {
  return parsePosition(header.after) as Position;
}

/** The end of a part according to its footer; its start if the footer is missing. */
export function endOf(part: Part): Position {
  return parsePosition(part.head ?? '') ?? startOf(part);
}

function nameOf({ file }: Part): string {
  return file ?? 'the database';
}
