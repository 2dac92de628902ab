/**
 * Compares the index of a chain with its entries. The index is not covered by the hash chain, so someone who changes it
 * can make filters miss entries.
 */
import type { Db, DbTime } from '../engine/db.ts';
import { blockOf, blockSize, type IndexedEntry, type IndexRow, rowsFor, storedRows } from './index-blocks.ts';
import { type Chain, chainOf, latestBefore } from './rows.ts';
import { indexTerms } from './terms.ts';

/** A chain and the database that contains its index. */
export interface ChainIndex {
  readonly db: Pick<Db, 'all' | 'get'>;
  readonly chain: Chain;
}

export interface CheckedRow {
  readonly seq: number;
  readonly at: number;
  /** JSON. */
  readonly entry: string;
}

interface Indexed extends IndexedEntry {
  readonly request: number | null;
}

interface Rows {
  readonly first: number;
  readonly last: number;
}

/**
 * `terms`: the index of terms or request ids was changed. `times`: `max_delay`, which searches by time use, is too low.
 */
export type ReportIndex = (changed: 'terms' | 'times', rows: Rows) => void;

/**
 * Compares the index with the rows of a chain, block by block. Add the rows in ascending order, without rows that have
 * an invalid MAC. The service may add and delete entries during the check.
 */
export class IndexCheck {
  readonly #index: ChainIndex;
  readonly #report: ReportIndex;
  /** The entries of the current block. When it is complete, they move to `#complete`. */
  #block: Indexed[] = [];
  #complete: readonly Indexed[] | undefined;
  /** Adjacent blocks whose index was changed. They are reported as one range. */
  #changed: Rows | undefined;
  #seen: Rows | undefined;
  #latest: number;
  #delay = 0;

  private constructor(index: ChainIndex, latest: number, report: ReportIndex) {
    this.#index = index;
    this.#latest = latest;
    this.#report = report;
  }

  static async start(index: ChainIndex, report: ReportIndex): Promise<IndexCheck> {
    return new IndexCheck(index, await latestBefore(index.db, index.chain), report);
  }

  add({ seq, at, entry }: CheckedRow): void {
    const first = this.#block[0];
    if (first && blockOf(first.seq) !== blockOf(seq)) {
      this.#complete = this.#block;
      this.#block = [];
    }
    this.#block.push({ seq, ...indexTerms(entry) });
    this.#seen = { first: this.#seen?.first ?? seq, last: seq };
    this.#latest = Math.max(this.#latest, at);
    this.#delay = Math.max(this.#delay, this.#latest - at);
  }

  /** Whether `compare` must be called before the next row. */
  get isFull(): boolean {
    return this.#complete !== undefined;
  }

  async compare(): Promise<void> {
    const entries = this.#complete ?? [];
    this.#complete = undefined;
    if (entries.length > 0) await this.#compareBlock(entries);
  }

  /** Call this after the last row. */
  async end(): Promise<void> {
    await this.compare();
    if (this.#block.length > 0) await this.#compareBlock(this.#block);
    this.#reportChanged();
    const now = await chainNow(this.#index);
    if (this.#seen && now.maxDelay < this.#delay) this.#report('times', this.#seen);
  }

  async #compareBlock(entries: readonly Indexed[]): Promise<void> {
    if (await isIndexed(this.#index, entries)) return this.#reportChanged();
    const first = this.#changed?.first ?? (entries[0] as Indexed).seq;
    this.#changed = { first, last: (entries.at(-1) as Indexed).seq };
  }

  #reportChanged(): void {
    if (this.#changed) this.#report('terms', this.#changed);
    this.#changed = undefined;
  }
}

async function chainNow({ db, chain }: ChainIndex): Promise<Chain> {
  return (await chainOf(db, chain.tenantId)) ?? chain;
}

/** Maximum number of comparisons of a block. A comparison is repeated if entries were deleted during it. */
const maxAttempts = 20;

/**
 * Whether the index has all terms and request ids of these entries, which are in one block. Additional terms are not
 * detected: a search reads the entry and ignores them.
 */
async function isIndexed(index: ChainIndex, entries: readonly Indexed[]): Promise<boolean> {
  let [present, base] = [entries, index.chain.baseSeq];
  for (let attempt = 0; attempt < maxAttempts; attempt++) {
    const isEqual = (await hasTerms(index, present)) && (await hasRequests(index, present));
    if (isEqual) return true;
    const { baseSeq } = await chainNow(index);
    if (baseSeq === base) return false;
    base = baseSeq;
    present = entries.filter(({ seq }) => seq > baseSeq);
  }
  return false;
}

async function hasTerms(index: ChainIndex, entries: readonly Indexed[]): Promise<boolean> {
  const [first] = entries;
  if (!first) return true;
  const { db, chain } = index;
  const block = blockOf(first.seq);
  const expected = rowsFor(entries);
  const stored = await storedRows(
    db,
    chain.number,
    block,
    expected.map(({ term }) => term),
  );
  const different = expected.filter(({ term, offsets }) => !isSame(stored.get(term), offsets));
  if (different.length === 0) return true;
  const checked = new Set(entries.map(({ seq }) => seq));
  const { seq: head } = await chainNow(index);
  return different.every((row) => agrees(row, stored.get(row.term), checked, head));
}

function isSame(a: Uint8Array | undefined, b: Uint8Array): boolean {
  return a !== undefined && Buffer.compare(a, b) === 0;
}

/** Compares only the checked positions. The stored row may have other positions, such as those of new entries. */
function agrees(
  { block, offsets }: IndexRow,
  stored: Uint8Array | undefined,
  checked: ReadonlySet<number>,
  head: number,
): boolean {
  if (stored === undefined || stored.length % 2 !== 0) return false;
  const known: number[] = [];
  let before = -1;
  for (let at = 0; at < stored.length; at += 2) {
    const offset = ((stored[at] as number) << 8) | (stored[at + 1] as number);
    const seq = block * blockSize + offset;
    if (offset <= before || offset >= blockSize || seq > head) return false;
    if (checked.has(seq)) known.push(stored[at] as number, stored[at + 1] as number);
    before = offset;
  }
  return isSame(Uint8Array.from(known), offsets);
}

async function hasRequests({ db, chain }: ChainIndex, entries: readonly Indexed[]): Promise<boolean> {
  const [first, last] = [entries[0], entries.at(-1)];
  if (!first || !last) return true;
  const rows = await db.all<{ seq: DbTime; request: number | null }>(
    'select seq, request from audit where chain = $1 and seq >= $2 and seq <= $3',
    [chain.number, first.seq, last.seq],
  );
  const requests = new Map(rows.map(({ seq, request }) => [Number(seq), request]));
  return entries.every(({ seq, request }) => requests.get(seq) === request);
}
