/** Fault injection between the store and the database. */

import { type Db, DbUnavailable, type Queries, type Transaction } from '../../src/db/db.ts';
import { type Awaitable, then } from '../../src/domain/awaitable.ts';

/**
 * `refused`: one call fails without being made. `lost`: one call is made, but its result is lost. `down`: a call and
 * all later ones fail.
 */
export const faultKinds = ['refused', 'lost', 'down'] as const;
export type FaultKind = (typeof faultKinds)[number];

export class Faults {
  #kind: FaultKind = 'refused';
  #left = Number.POSITIVE_INFINITY;
  #hit = false;
  /** Whether the lost call was a commit. */
  #committed = false;

  /** Makes the n-th call from now fail. */
  arm(kind: FaultKind, call: number): void {
    this.#kind = kind;
    this.#left = call;
    this.#hit = false;
    this.#committed = false;
  }

  /** Stops injecting. Returns whether a call failed, and whether it was a commit whose result was lost. */
  disarm(): { hit: boolean; committed: boolean } {
    this.#left = Number.POSITIVE_INFINITY;
    return { hit: this.#hit, committed: this.#committed };
  }

  readonly through = (db: Db): Db => ({
    ...db,
    ...this.#queries(db),
    transaction: (work) =>
      this.#commit(db, (last) => db.transaction(async (tx) => last(await work(this.#queries(tx))))),
    change: (work, entity) =>
      this.#commit(db, (last) => {
        const within = async (tx: Transaction) => last(await work(this.#shared(tx)));
        return db.change(within, entity);
      }),
  });

  async #commit<T>(db: Db, run: (last: (done: T) => T) => Promise<T>): Promise<T> {
    await this.#call(db.dialect, () => undefined);
    let lost = false;
    const value = await run((done) => {
      lost = this.#isNext();
      if (lost && this.#kind !== 'lost') throw unavailableError();
      return done;
    });
    if (!lost) return value;
    this.#committed = true;
    throw unavailableError();
  }

  #shared(on: Transaction): Transaction {
    const defer: Transaction['defer'] = (write, row) =>
      on.defer((tx, rows: readonly (typeof row)[]) => write(this.#queries(tx), rows), row);
    return { ...this.#queries(on), defer };
  }

  #queries(on: Queries): Queries {
    const { dialect } = on;
    return {
      ...on,
      get: (statement) => this.#call(dialect, () => on.get(statement)),
      all: (statement) => this.#call(dialect, () => on.all(statement)),
      run: (statement) => this.#call(dialect, () => on.run(statement)),
      returning: (statement) => this.#call(dialect, () => on.returning(statement)),
      insert: (...inserted) => this.#call(dialect, () => on.insert(...inserted)),
      lookup: (...wanted) => this.#call(dialect, () => on.lookup(...wanted)),
    };
  }

  /** Fails synchronously on SQLite and asynchronously on PostgreSQL, like real errors. */
  #call<T>(dialect: Db['dialect'], make: () => Awaitable<T>): Awaitable<T> {
    if (!this.#isNext()) return make();
    if (this.#kind === 'lost') {
      return then(make(), () => {
        throw unavailableError();
      });
    }
    if (dialect === 'postgres') return Promise.reject(unavailableError());
    throw unavailableError();
  }

  #isNext(): boolean {
    this.#left--;
    const next = this.#kind === 'down' ? this.#left <= 0 : this.#left === 0;
    this.#hit ||= next;
    return next;
  }
}

function unavailableError(): DbUnavailable {
  return new DbUnavailable('injected fault');
}
