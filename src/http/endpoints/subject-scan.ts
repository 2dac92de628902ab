/** Reads the applications and sessions of a tenant in batches, without blocking other requests. */
import type { Store, Subject } from '../../store/store.ts';

/** Greater than every id. */
export const beforeAll = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

/** Where a scan continues: with the subjects of `kind` whose id is less than `before`, then with the next kinds. */
export interface ScanPosition {
  readonly kind: Subject['kind'];
  readonly before: string;
}

export interface ScanOptions {
  readonly kinds: readonly Subject['kind'][];
  /** Only subjects whose grants contain this permission. */
  readonly permission?: string;
  /** Only sessions that are limited by a key of this application. */
  readonly limitedBy?: string;
  readonly from?: ScanPosition | undefined;
  readonly uniqueNames?: boolean;
}

/** Limits the work of one request: the rows that it examines, and the characters of rules that it reads. */
export class ScanBudget {
  /** Rows per batch. 100 rows with 50 rules each are a few milliseconds of work. */
  readonly batchSize: number;
  #rows: number;
  #characters: number;

  constructor(rows = 20_000, characters = 128_000_000, batchSize = 100) {
    this.#rows = rows;
    this.#characters = characters;
    this.batchSize = batchSize;
  }

  spend(rows: number, characters: number): void {
    this.#rows -= rows;
    this.#characters -= characters;
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

/** Lets the process handle other requests. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
