/**
 * Finds copies of entries that another program has inserted. Every row of format 2 has a unique MAC, so a second row
 * with the same MAC is a copy.
 */
import type { ExportedRow } from './export-format.ts';
import { hasUniqueMac } from './hash-chain.ts';

/** Maximum number of rows whose MACs are in memory. */
const maxRecent = 16_384;
/** Maximum number of rows that are compared with the whole chain. */
const maxLate = 2 ** 20;

interface Recent {
  readonly seq: number;
  /** The latest time of the rows up to this one. */
  readonly latest: number;
}

export type ReportCopy = (seq: number, original: number) => void;

export class ReplayCheck {
  readonly #report: ReportCopy;
  /** Keys are MACs. Rows are in the order of the chain. */
  readonly #recent = new Map<string, Recent>();
  /** Rows that may be copies of a row that is no longer in memory. Keys are MACs, values are positions. */
  readonly #late = new Map<string, number>();
  #seq = 0;
  #latest = Number.NEGATIVE_INFINITY;
  /**
   * The latest time of the rows that are no longer in memory. A copy has the time of its original, so a later row is
   * not a copy of these.
   */
  #latestForgotten = Number.NEGATIVE_INFINITY;

  constructor(report: ReportCopy) {
    this.#report = report;
  }

  /** Call this for each row with a valid MAC. Parts may overlap: rows that were added before are ignored. */
  add({ format, seq, at, mac }: ExportedRow): void {
    if (mac === null || !hasUniqueMac(format) || seq <= this.#seq) return;
    this.#seq = seq;
    const known = this.#recent.get(mac);
    if (known) {
      this.#report(seq, known.seq);
      return;
    }
    if (at <= this.#latestForgotten && this.#late.size < maxLate) this.#late.set(mac, seq);
    this.#latest = Math.max(this.#latest, at);
    this.#recent.set(mac, { seq, latest: this.#latest });
    if (this.#recent.size > maxRecent) this.#forgetFirst();
  }

  #forgetFirst(): void {
    for (const [mac, { latest }] of this.#recent) {
      this.#recent.delete(mac);
      this.#latestForgotten = latest;
      return;
    }
  }

  /**
   * Call this after the last row. Reads all parts again if some rows may be copies of rows that are no longer in
   * memory.
   */
  async end(parts: readonly { lines(): AsyncIterable<string> }[]): Promise<void> {
    if (this.#late.size === 0) return;
    for (const part of parts)
      for await (const text of part.lines()) {
        const [, mac] = /^\{"kind":"row".*"mac":"([0-9a-f]{32})"\}$/.exec(text) ?? [];
        const copy = mac === undefined ? undefined : this.#late.get(mac);
        if (mac === undefined || copy === undefined) continue;
        const { seq } = JSON.parse(text) as ExportedRow;
        if (seq >= copy) continue;
        this.#late.delete(mac);
        this.#report(copy, seq);
      }
  }
}
