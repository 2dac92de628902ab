/** Changes that wait at the same time share one commit, and so one sync to disk, each with an outcome of its own. */
import type { Database, Statement } from 'bun:sqlite';
import type { Queries } from './db.ts';
import { attempt, Left, type Outcome, SharedTransaction, type Waiting } from './sharing.ts';

export class GroupCommit {
  readonly #writer: Database;
  readonly #queries: Queries;
  readonly #left = new Left();
  readonly #tx: SharedTransaction;
  readonly #judged: (error: unknown) => unknown;
  readonly #statements = new Map<string, Statement>();

  constructor(writer: Database, queries: Queries, judged: (error: unknown) => unknown) {
    this.#writer = writer;
    this.#queries = queries;
    this.#tx = new SharedTransaction(queries, this.#left);
    this.#judged = judged;
  }

  /** If the commit fails, all of them fail. */
  async commit(batch: readonly Waiting[]): Promise<void> {
    let outcomes: Outcome[];
    try {
      this.#begin();
      outcomes = batch.length === 1 ? [await this.#alone(batch[0] as Waiting)] : await this.#all(batch);
      this.#run('commit');
    } catch (error) {
      this.#rollback();
      for (const { reject } of batch) reject(this.#judged(error));
      return;
    }
    for (const tell of outcomes) tell();
  }

  async #alone({ work, resolve }: Waiting): Promise<Outcome> {
    const value = await work(this.#tx);
    await this.#left.settle(this.#queries);
    return () => resolve(value);
  }

  async #all(batch: readonly Waiting[]): Promise<Outcome[]> {
    const outcomes = await this.#together(batch);
    if (outcomes) return outcomes;
    this.#rollback();
    this.#begin();
    return this.#again(batch);
  }

  async #together(batch: readonly Waiting[]): Promise<Outcome[] | undefined> {
    const outcomes: Outcome[] = [];
    for (const waiting of batch) {
      const attempted = attempt(waiting, this.#tx);
      const outcome = attempted instanceof Promise ? await attempted : attempted;
      if (!outcome) return undefined;
      outcomes.push(outcome);
    }
    try {
      await this.#left.settle(this.#queries);
      return outcomes;
    } catch {
      return undefined;
    }
  }

  /** From the beginning, each in a savepoint of its own. Nobody was told of the first time. */
  async #again(batch: readonly Waiting[]): Promise<Outcome[]> {
    const outcomes: Outcome[] = [];
    for (const waiting of batch) {
      this.#run('savepoint one');
      try {
        outcomes.push(await this.#alone(waiting));
      } catch (error) {
        if (!this.#writer.inTransaction) throw error;
        this.#run('rollback to one');
        this.#left.clear();
        outcomes.push(() => waiting.reject(this.#judged(error)));
      }
      this.#run('release one');
    }
    return outcomes;
  }

  close(): void {
    for (const statement of this.#statements.values()) statement.finalize();
  }

  #begin(): void {
    this.#left.clear();
    this.#run('begin immediate');
  }

  #run(sql: string): void {
    const known = this.#statements.get(sql);
    const statement = known ?? this.#writer.prepare(sql);
    if (!known) this.#statements.set(sql, statement);
    statement.run();
  }

  /** What made the commit fail may fail this too; the next `begin` says so to those who wait then. */
  #rollback(): void {
    try {
      if (this.#writer.inTransaction) this.#run('rollback');
    } catch {}
  }
}
