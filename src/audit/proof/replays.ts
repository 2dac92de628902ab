/** Finds copies of entries that another program has inserted. Every entry has a unique id, which its MAC covers. */
import type { Segment } from '../log/segment.ts';

/** Entries whose ids are certainly in memory. At most twice as many are. */
const minRecent = 16_384;
/** Maximum number of entries that are compared with the whole chain. */
const maxLate = 2 ** 20;

export type ReportCopy = (seq: number, original: number) => void;

type Items = AsyncIterable<
  { kind: 'segment'; segment: Pick<Segment, 'first' | 'entries'> } | { kind: 'problem' }
>;

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

  /**
   * Call this after the last entry. Reads all parts again if some entries may be copies of entries that are no longer
   * in memory.
   */
  async end(parts: readonly Items[]): Promise<void> {
    if (this.#late.size === 0) return;
    for (const part of parts)
      for await (const item of part) {
        if (item.kind === 'problem') continue;
        const { first, entries } = item.segment;
        entries.forEach(({ id }, offset) => {
          const copy = this.#late.get(id);
          if (copy === undefined || first + offset >= copy) return;
          this.#late.delete(id);
          this.#report(copy, first + offset);
        });
      }
  }
}
