/** Reads the applications and sessions of a tenant in batches, without blocking other requests. */
import { nextTurn } from '../../../domain/steps.ts';
import type { Store, Subject } from '../../../store/store.ts';

/** Greater than every id. */
export const beforeAll = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

/** Delegations are read together with sessions. */
export type ScannedKind = Exclude<Subject['kind'], 'delegation'>;

export function tableOf(kind: Subject['kind']): ScannedKind {
  return kind === 'application' ? kind : 'session';
}

/** Where a scan continues: with the subjects of `kind` whose id is less than `before`, then with the next kinds. */
export interface ScanPosition {
  readonly kind: ScannedKind;
  readonly before: string;
}

export interface ScanOptions {
  readonly kinds: readonly ScannedKind[];
  /** Only subjects whose grants contain this permission. */
  readonly permission?: string;
  /** Only sessions that are limited by a key of this application. */
  readonly limitedBy?: string;
  readonly from?: ScanPosition | undefined;
  readonly uniqueNames?: boolean;
}

/** Rows of the first batch. A row has at most 128 KiB of rules. */
const firstBatch = 5;
/** Reading, filtering and parsing this many characters takes a few milliseconds. */
const batchCharacters = 250_000;

/** Limits the work of one request: the rows that it examines, and the characters of rules that it reads. */
export class ScanBudget {
  #rows: number;
  #characters: number;
  readonly #maxBatch: number;
  #batchSize: number;

  constructor(rows = 20_000, characters = 128_000_000, maxBatch = 200) {
    this.#rows = rows;
    this.#characters = characters;
    this.#maxBatch = maxBatch;
    this.#batchSize = Math.min(firstBatch, maxBatch);
  }

  /** Rows of the next batch. It depends on the size of the rows in the last one. */
  get batchSize(): number {
    return this.#batchSize;
  }

  spend(rows: number, characters: number): void {
    this.#rows -= rows;
    this.#characters -= characters;
    const fitting = Math.floor((batchCharacters * rows) / Math.max(characters, 1));
    this.#batchSize = Math.min(this.#maxBatch, Math.max(fitting, 1));
  }

  get isSpent(): boolean {
    return this.#rows <= 0 || this.#characters <= 0;
  }
}

/** Yields batches, newest first. Returns the position at which the budget ended, or undefined if all were read. */
export async function* scanSubjects(
  { subjects }: Pick<Store, 'subjects'>,
  tenant: string,
  { kinds, permission, limitedBy, from, uniqueNames = false }: ScanOptions,
  budget: ScanBudget,
): AsyncGenerator<readonly Subject[], ScanPosition | undefined> {
  for (const kind of kinds.slice(from ? kinds.indexOf(from.kind) : 0)) {
    let before: string | undefined = kind === from?.kind ? from.before : beforeAll;
    while (before !== undefined) {
      if (budget.isSpent) return { kind, before };
      const scan = { permission, limitedBy, before, limit: budget.batchSize, uniqueNames };
      const batch = await subjects.scan(tenant, kind, scan);
      budget.spend(batch.examined, batch.characters);
      yield batch.subjects;
      before = batch.next;
      await nextTurn();
    }
  }
  return undefined;
}
