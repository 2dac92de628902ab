import type { Awaitable } from '../../domain/awaitable.ts';
import type { Db } from './db.ts';

export interface Instrumented {
  readonly db: Db;
  readonly inFlight: () => number;
}

/** Receives the duration of a call, and the error if it failed. */
export type Timing = (operation: string, seconds: number, error?: unknown) => void;

/** Measures the duration of every call and passes it to `note`. */
export function instrument(db: Db, note: Timing): Instrumented {
  let inFlight = 0;

  function watch<T>(operation: string, work: () => Awaitable<T>): Awaitable<T> {
    const start = performance.now();
    const done = (error?: unknown) => note(operation, (performance.now() - start) / 1000, error);
    const failed = (error: unknown) => {
      done(error);
      throw error;
    };
    let result: Awaitable<T>;
    try {
      result = work();
    } catch (error) {
      return failed(error);
    }
    if (!(result instanceof Promise)) {
      done();
      return result;
    }
    inFlight += 1;
    return result
      .finally(() => {
        inFlight -= 1;
      })
      .then((value) => {
        done();
        return value;
      }, failed);
  }

  return {
    inFlight: () => inFlight,
    db: {
      ...db,
      get: (sql, params) => watch('get', () => db.get(sql, params)),
      all: (sql, params) => watch('all', () => db.all(sql, params)),
      run: (sql, params) => watch('run', () => db.run(sql, params)),
      lookup: (sql, key, params) => watch('lookup', () => db.lookup(sql, key, params)),
      transaction: (work) =>
        watch('transaction', () => db.transaction(work)) as Promise<Awaited<ReturnType<typeof work>>>,
      change: (work, entity, tenant) =>
        watch('transaction', () => db.change(work, entity, tenant)) as Promise<
          Awaited<ReturnType<typeof work>>
        >,
    },
  };
}
