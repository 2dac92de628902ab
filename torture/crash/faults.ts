/** A database that fails when it is told to: between the store and the real one. */
import { type Awaitable, then } from '../../src/domain/awaitable.ts';
import { type Db, DbUnavailable, type Queries, type Transaction } from '../../src/store/engine/db.ts';

/**
 * `refused`: one call is not made. `lost`: one call is made, but its answer does not arrive. `down`: from that
 * call on, none is made.
 */
export const faultKinds = ['refused', 'lost', 'down'] as const;
export type FaultKind = (typeof faultKinds)[number];

export class Faults {
  #kind: FaultKind = 'refused';
  #left = Number.POSITIVE_INFINITY;
  #hit = false;
  /** Whether what was hit was made durable all the same. */
  #committed = false;

  /** The call of this number fails, counted from now on. */
  arm(kind: FaultKind, call: number): void {
    this.#kind = kind;
    this.#left = call;
    this.#hit = false;
    this.#committed = false;
  }

  /** Nothing fails any more. Answers whether anything did, and whether that was the news of a commit. */
  disarm(): { hit: boolean; committed: boolean } {
    this.#left = Number.POSITIVE_INFINITY;
    return { hit: this.#hit, committed: this.#committed };
  }

  readonly through = (db: Db): Db => ({
    ...db,
    ...this.#queries(db, db.dialect),
    lookup: (sql, key) => this.#call(db.dialect, () => db.lookup(sql, key)),
    transaction: (work) =>
      this.#commit(db, (last) =>
        db.transaction(async (tx) => last(await work(this.#queries(tx, db.dialect)))),
      ),
    change: (work, entity) =>
      this.#commit(db, (last) => {
        const within = async (tx: Transaction) => last(await work(this.#shared(tx, db.dialect)));
        return db.change(within, entity);
      }),
  });

  async #commit<T>(db: Db, run: (last: (done: T) => T) => Promise<T>): Promise<T> {
    await this.#call(db.dialect, () => undefined);
    let lost = false;
    const value = await run((done) => {
      lost = this.#isNext();
      if (lost && this.#kind !== 'lost') throw broken();
      return done;
    });
    if (!lost) return value;
    this.#committed = true;
    throw broken();
  }

  #shared(on: Transaction, dialect: Db['dialect']): Transaction {
    const defer: Transaction['defer'] = (write, row) =>
      on.defer((tx, rows: readonly (typeof row)[]) => write(this.#queries(tx, dialect), rows), row);
    return { ...this.#queries(on, dialect), defer };
  }

  #queries(on: Queries, dialect: Db['dialect']): Queries {
    return {
      get: (sql, params) => this.#call(dialect, () => on.get(sql, params)),
      all: (sql, params) => this.#call(dialect, () => on.all(sql, params)),
      run: (sql, params) => this.#call(dialect, () => on.run(sql, params)),
    };
  }

  /** SQLite answers at once, PostgreSQL later: so do their failures. */
  #call<T>(dialect: Db['dialect'], make: () => Awaitable<T>): Awaitable<T> {
    if (!this.#isNext()) return make();
    if (this.#kind === 'lost') {
      return then(make(), () => {
        throw broken();
      });
    }
    if (dialect === 'postgres') return Promise.reject(broken());
    throw broken();
  }

  #isNext(): boolean {
    this.#left--;
    const next = this.#kind === 'down' ? this.#left <= 0 : this.#left === 0;
    this.#hit ||= next;
    return next;
  }
}

function broken(): DbUnavailable {
  return new DbUnavailable('out of order, for a try');
}
