/** Changes that wait at the same time share one commit, and so one sync to disk, each with an outcome of its own. */
import type { Database, Statement } from 'bun:sqlite';
import type { Queries } from './db.ts';

export interface Waiting {
  readonly work: (tx: Queries) => Promise<unknown>;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
  /** Whether it may change what SQLite does not count, such as the schema. */
  readonly uncounted: boolean;
}

/** What to tell whoever waits, once the commit is on disk. */
type Outcome = () => void;

export class GroupCommit {
  readonly #writer: Database;
  readonly #tx: Queries;
  readonly #judged: (error: unknown) => unknown;
  readonly #statements = new Map<string, Statement>();

  constructor(writer: Database, tx: Queries, judged: (error: unknown) => unknown) {
    this.#writer = writer;
    this.#tx = tx;
    this.#judged = judged;
  }

  /** If the commit fails, all of them fail. */
  async commit(batch: readonly Waiting[]): Promise<void> {
    let outcomes: Outcome[];
    try {
      this.#run('begin immediate');
      outcomes = (await this.#together(batch)) ?? (await this.#again(batch));
      this.#run('commit');
    } catch (error) {
      this.#rollback();
      for (const { reject } of batch) reject(this.#judged(error));
      return;
    }
    for (const tell of outcomes) tell();
  }

  /**
   * Without a way back for each, which costs more than most changes do. Nothing if that was needed: if one of
   * them failed and had changed something before. Most that fail have not.
   */
  async #together(batch: readonly Waiting[]): Promise<Outcome[] | undefined> {
    if (batch.some(({ uncounted }) => uncounted)) return undefined;
    const outcomes: Outcome[] = [];
    for (const { work, resolve, reject } of batch) {
      const before = this.#changes();
      try {
        const value = await work(this.#tx);
        outcomes.push(() => resolve(value));
      } catch (error) {
        if (!this.#writer.inTransaction) throw error;
        if (this.#changes() !== before) return undefined;
        outcomes.push(() => reject(this.#judged(error)));
      }
    }
    return outcomes;
  }

  /** From the beginning, each in a savepoint of its own. Nobody was told of the first time. */
  async #again(batch: readonly Waiting[]): Promise<Outcome[]> {
    this.#run('rollback');
    this.#run('begin immediate');
    const outcomes: Outcome[] = [];
    for (const { work, resolve, reject } of batch) {
      this.#run('savepoint one');
      try {
        const value = await work(this.#tx);
        outcomes.push(() => resolve(value));
      } catch (error) {
        if (!this.#writer.inTransaction) throw error;
        this.#run('rollback to one');
        outcomes.push(() => reject(this.#judged(error)));
      }
      this.#run('release one');
    }
    return outcomes;
  }

  close(): void {
    for (const statement of this.#statements.values()) statement.finalize();
  }

  /** Rows changed by this connection since it was opened. */
  #changes(): number {
    const row = this.#prepared('select total_changes() as count').get() as { count: number };
    return row.count;
  }

  #run(sql: string): void {
    this.#prepared(sql).run();
  }

  #prepared(sql: string): Statement {
    const known = this.#statements.get(sql);
    if (known) return known;
    const made = this.#writer.prepare(sql);
    this.#statements.set(sql, made);
    return made;
  }

  /** What made the commit fail may fail this too; the next `begin` says so to those who wait then. */
  #rollback(): void {
    try {
      if (this.#writer.inTransaction) this.#run('rollback');
    } catch {}
  }
}
