/** What changes have in common that share a transaction, whatever the database. */
import { type Awaitable, then } from '../domain/awaitable.ts';
import type { Queries, Shared, Value } from './db.ts';

export interface Waiting {
  readonly work: (tx: Shared) => Awaitable<unknown>;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/** What to tell whoever waits, once the commit is durable. */
export type Outcome = () => void;

type Write = (tx: Queries, all: readonly never[]) => Promise<void>;

/** What is to be written when all have run. */
export class Left {
  readonly #all = new Map<Write, unknown[]>();

  add(write: Write, one: unknown): void {
    const left = this.#all.get(write);
    if (left) left.push(one);
    else this.#all.set(write, [one]);
  }

  async settle(tx: Queries): Promise<void> {
    for (const [write, all] of this.#all) await write(tx, all as never[]);
    this.#all.clear();
  }

  clear(): void {
    this.#all.clear();
  }
}

/** What only reads, by its first word. */
const reads = /^\s*(select|pragma)\b/i;

/** Keeps an eye on what a change does. */
export class SharedTransaction implements Shared {
  readonly #on: Queries;
  readonly #left: Left;
  #changed = false;
  /** Statements that have not answered, or have failed. */
  #open = 0;

  constructor(on: Queries, left: Left) {
    this.#on = on;
    this.#left = left;
  }

  readonly get = <R>(sql: string, params?: readonly Value[]): Awaitable<R | undefined> => {
    this.#open++;
    return then(this.#on.get<R>(sql, params), (row) => {
      this.#answered(row !== undefined && !reads.test(sql));
      return row;
    });
  };

  readonly all = <R>(sql: string, params?: readonly Value[]): Awaitable<R[]> => {
    this.#open++;
    return then(this.#on.all<R>(sql, params), (rows) => {
      this.#answered(rows.length > 0 && !reads.test(sql));
      return rows;
    });
  };

  readonly run = (sql: string, params?: readonly Value[]): Awaitable<number> => {
    this.#open++;
    return then(this.#on.run(sql, params), (changes) => {
      this.#answered(changes > 0);
      return changes;
    });
  };

  readonly leave = <T>(write: (tx: Queries, all: readonly T[]) => Promise<void>, one: T): void => {
    this.#changed = true;
    this.#left.add(write, one);
  };

  /** Whether anything was changed, or may have been, or failed, that only taking it back would undo. */
  get touched(): boolean {
    return this.#changed || this.#open > 0;
  }

  /** For the next change. */
  renew(): void {
    this.#changed = false;
    this.#open = 0;
  }

  #answered(changed: boolean): void {
    this.#open--;
    if (changed) this.#changed = true;
  }
}

/**
 * Runs it without a way back, which costs more than most changes do. Nothing if that was needed, and all of the
 * transaction must be taken back: if it failed and had changed something before, or broke the transaction. Most
 * that fail have only looked.
 */
export function attempt(
  { work, resolve, reject }: Waiting,
  tx: SharedTransaction,
): Awaitable<Outcome | undefined> {
  tx.renew();
  const done = (value: unknown) => () => resolve(value);
  const failed = (error: unknown) => (tx.touched ? undefined : () => reject(error));
  try {
    const value = work(tx);
    return value instanceof Promise ? value.then(done, failed) : done(value);
  } catch (error) {
    return failed(error);
  }
}
