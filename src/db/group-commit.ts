/**
 * Group commit: changes that are requested at the same time share one transaction, and so one commit and one sync
 * to disk. Each has its own result or error.
 */

import { type Awaitable, then } from '../domain/awaitable.ts';
import { nilTenant } from '../domain/key.ts';
import { nextTurn } from '../domain/steps.ts';
import { type BatchLimits, batcher, nameOf } from './batcher.ts';
import { alone, DbUnavailable, type Entity, type Key, type Queries, type Transaction } from './db.ts';
import type { Lookup, Statement } from './statement.ts';

export interface Driver extends BatchLimits {
  /**
   * Runs work in one transaction. Durable when it resolves, or when `durable` does; rolled back if work throws. With
   * `perTenant`, `tenant` is that of the changes: `nilTenant` if they have none.
   */
  readonly transaction: <T>(work: (tx: Queries) => Awaitable<T>, tenant: string) => Promise<T>;
  /** Resolves when every commit and read before the call is on disk. Callers get their results afterwards. */
  readonly durable?: (changes: number) => Promise<void>;
  /** Whether only changes of the same tenant share a transaction. */
  readonly perTenant?: boolean;
  /** Whether statements of different changes may be sent without waiting for each other's answers. */
  readonly pipelined: boolean;
  /** Milliseconds after which a queued change is not started: it would probably miss its deadline. */
  readonly maxQueueTime?: number;
  /** A clock, in milliseconds. Must be monotonic with `maxQueueTime`. */
  readonly now?: () => number;
}

/** Queues a change. `checkDeadline` throws if the caller no longer waits for the result. */
export type Enqueue = <T>(
  work: (tx: Transaction) => Awaitable<T>,
  entity?: Entity,
  tenant?: string,
  checkDeadline?: () => void,
) => Promise<T>;

interface Pending {
  readonly work: (tx: Transaction) => Awaitable<unknown>;
  readonly entity: Entity | undefined;
  readonly tenant: string;
  readonly queuedAt: number;
  readonly resolve: (value: never) => void;
  readonly reject: (error: unknown) => void;
  readonly checkDeadline: () => void;
}

/** Resolves or rejects the promise of a caller, once the commit is durable. */
type Outcome = () => void;

/**
 * The shared transaction was rolled back because of one of its changes, the first that failed. Each change can be run
 * again in its own transaction.
 */
class RolledBack extends Error {
  readonly #culprit: Pending | undefined;

  constructor(culprit: Pending | undefined, cause: unknown) {
    super('', { cause });
    this.#culprit = culprit;
  }

  /** The culprit and changes of the same entity are last, because they may wait for the lock again. */
  again(batch: readonly Pending[]): readonly Pending[] {
    const culprit = this.#culprit;
    const entity = culprit?.entity;
    const mayWait = (each: Pending) => each === culprit || (entity !== undefined && each.entity === entity);
    return batch.toSorted((a, b) => Number(mayWait(a)) - Number(mayWait(b)));
  }
}

function aloneFirst(a: Pending, b: Pending): number {
  return Number(b.entity === alone) - Number(a.entity === alone);
}

export function groupCommit(driver: Driver): Enqueue {
  const { now = () => performance.now() } = driver;

  /** Other requests are handled between two transactions, not within one: it would hold its locks for longer. */
  async function commit(queued: readonly Pending[]): Promise<void> {
    const settled: Promise<void>[] = [];
    let batch = rejectStale(driver, queued).toSorted(aloneFirst);
    while (batch.length > 0) {
      const done = await commitSome(batch, (outcomes) => settled.push(settle(outcomes)));
      batch = batch.slice(done);
      if (batch.length > 0) await nextTurn();
    }
    await Promise.all(settled);
  }

  /** The next transaction does not wait for this. */
  async function settle(outcomes: readonly Outcome[]): Promise<void> {
    await driver.durable?.(outcomes.length);
    for (const tell of outcomes) tell();
  }

  /**
   * Runs the changes in one transaction, or as many of them as a few milliseconds allow. If that fails because of one
   * of them, runs each in its own. Returns the number of changes that are done.
   */
  async function commitSome(
    batch: readonly Pending[],
    end: (outcomes: readonly Outcome[]) => void,
  ): Promise<number> {
    if (batch.length === 1 || batch[0]?.entity === alone) {
      end([await commitAlone(batch[0] as Pending)]);
      return 1;
    }
    try {
      const { tenant } = batch[0] as Pending;
      const outcomes = await driver.transaction((tx) => runSome(driver, batch, tx), tenant);
      end(outcomes);
      return outcomes.length;
    } catch (error) {
      // One after another, so that they need no more connections than before.
      if (error instanceof RolledBack) for (const each of error.again(batch)) end([await commitAlone(each)]);
      else
        end(
          batch.map(
            ({ reject }) =>
              () =>
                reject(error),
          ),
        );
      return batch.length;
    }
  }

  async function commitAlone({ work, tenant, resolve, reject, checkDeadline }: Pending): Promise<Outcome> {
    const run = async (queries: Queries) => {
      checkDeadline();
      const deferred = new DeferredWrites();
      const value = await work(sharedTransaction(queries, deferred));
      await deferred.flush(queries);
      checkDeadline();
      return value as never;
    };
    return driver.transaction(run, tenant).then(
      (value) => () => resolve(value),
      (error) => () => reject(error),
    );
  }

  const add = batcher(commit, driver, driver.perTenant ? ({ tenant }) => tenant : undefined);
  return (work, entity, tenant = nilTenant, checkDeadline = () => {}) =>
    new Promise((resolve, reject) =>
      add({ work, entity, tenant, queuedAt: now(), resolve, reject, checkDeadline }),
    );
}

function rejectStale(
  { maxQueueTime = Number.POSITIVE_INFINITY, now = () => performance.now() }: Driver,
  queued: readonly Pending[],
): readonly Pending[] {
  const earliest = now() - maxQueueTime;
  for (const { queuedAt, reject } of queued)
    if (queuedAt < earliest) reject(new DbUnavailable('the database is too busy'));
  return queued.filter(({ queuedAt }) => queuedAt >= earliest);
}

async function runSome(
  { pipelined, now = () => performance.now() }: Driver,
  batch: readonly Pending[],
  queries: Queries,
): Promise<Outcome[]> {
  const deferred = new DeferredWrites();
  let culprit: Pending | undefined;
  const run = (pending: Pending) =>
    attempt(pending, sharedTransaction(queries, deferred), () => {
      culprit ??= pending;
    });
  try {
    const startedAt = now();
    const outcomes = pipelined
      ? await pipeline(batch, run)
      : await inTurn(batch, run, () => Math.abs(now() - startedAt) > maxTime);
    await deferred.flush(queries);
    for (const { checkDeadline } of batch.slice(0, outcomes.length)) checkDeadline();
    return outcomes;
  } catch (error) {
    throw new RolledBack(culprit, error);
  }
}

/** Milliseconds for which the changes of a transaction run, if they run one after another. */
const maxTime = 10;

type Run = (pending: Pending) => Awaitable<Outcome>;

/** Stops after a change if `isOver` returns true. */
async function inTurn(
  batch: readonly Pending[],
  run: Run,
  isOver: () => boolean = () => false,
): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  for (const pending of batch) {
    const outcome = run(pending);
    outcomes.push(outcome instanceof Promise ? await outcome : outcome);
    if (isOver()) break;
  }
  return outcomes;
}

/**
 * Changes of the same entity run one after another, and so do changes without an entity. All others run concurrently.
 * Every transaction starts its changes in the order of their entities, so that deadlocks between transactions are rare.
 * After a deadlock, the lock timeout rolls one transaction back.
 */
async function pipeline(batch: readonly Pending[], run: Run): Promise<Outcome[]> {
  const groups = [...Map.groupBy(batch, ({ entity }) => entity).entries()];
  groups.sort(([a], [b]) => compareEntities(a, b));
  const settled = await Promise.allSettled(groups.map(([, group]) => inTurn(group, run)));
  return settled.flatMap((group) => {
    if (group.status === 'rejected') throw group.reason;
    return group.value;
  });
}

/** Sorts by id. New entities come first, because they wait for no lock. */
function compareEntities(a: Entity | undefined, b: Entity | undefined): number {
  const [x, y] = [a, b].map((entity) => (typeof entity === 'string' ? entity : ''));
  return (x as string) < (y as string) ? -1 : (x as string) > (y as string) ? 1 : 0;
}

/**
 * Runs one change without a savepoint, which would cost more than most changes do. If it fails before it wrote
 * anything, only its own outcome is an error. If it fails after writing, throws: the transaction must be rolled back.
 */
function attempt(
  { work, resolve, reject }: Pending,
  tx: SharedTransaction,
  onRollback: () => void,
): Awaitable<Outcome> {
  const succeed = (value: unknown) => () => resolve(value as never);
  const failWith = (error: unknown): Outcome => {
    if (!tx.mayHaveWritten()) return () => reject(error);
    onRollback();
    throw error;
  };
  try {
    const value = work(tx);
    return value instanceof Promise ? value.then(succeed, failWith) : succeed(value);
  } catch (error) {
    return failWith(error);
  }
}

type Write = (tx: Queries, rows: readonly never[]) => Promise<void>;

/** Rows to insert just before the commit, one batch per `Write`. */
class DeferredWrites {
  readonly #rows = new Map<Write, unknown[]>();
  /** Cached lookups since the last write of the changes. Many changes have the same key. */
  readonly found = new Map<Lookup<unknown>, Map<string, Awaitable<unknown>>>();

  add(write: Write, row: unknown): void {
    const rows = this.#rows.get(write);
    if (rows) rows.push(row);
    else this.#rows.set(write, [row]);
  }

  /** Sends the batches together. Waits for all of them, also if one fails: the connection is used again afterwards. */
  async flush(tx: Queries): Promise<void> {
    const writing = Array.from(this.#rows, ([write, rows]) => write(tx, rows as never[]));
    for (const each of await Promise.allSettled(writing)) if (each.status === 'rejected') throw each.reason;
  }
}

interface SharedTransaction extends Transaction {
  /** Whether statements of the change have written, or are in progress or have failed: then they may have written. */
  mayHaveWritten(): boolean;
}

/** Tracks whether a change has written anything. */
function sharedTransaction(queries: Queries, deferred: DeferredWrites): SharedTransaction {
  const { dialect, isEmbedded, writesTogether } = queries;
  let wrote = false;
  let open = 0;

  function track<T>(send: () => Awaitable<T>, hasWritten: (answer: T) => boolean = () => false) {
    open++;
    return then(send(), (answer) => {
      open--;
      if (hasWritten(answer)) {
        wrote = true;
        deferred.found.clear();
      }
      return answer;
    });
  }

  return {
    dialect,
    isEmbedded,
    writesTogether,
    get: (statement) => track(() => queries.get(statement)),
    all: (statement) => track(() => queries.all(statement)),
    returning: <R>(statement: Statement) =>
      track(
        () => queries.returning<R>(statement),
        (rows) => rows.length > 0,
      ),
    insert: (target, rows, onlyIf) =>
      track(
        () => queries.insert(target, rows, onlyIf),
        (inserted) => inserted > 0 || onlyIf !== undefined,
      ),
    run: (statement) =>
      track(
        () => queries.run(statement),
        (changes) => changes > 0,
      ),
    lookup: <R>(lookup: Lookup<R>, key: Key, tenant?: string) => {
      const rows = deferred.found.get(lookup) ?? new Map<string, Awaitable<unknown>>();
      const name = nameOf(key, tenant);
      deferred.found.set(lookup, rows);
      const find = () => queries.lookup(lookup, key, tenant);
      if (!rows.has(name)) rows.set(name, track(find));
      return rows.get(name) as Awaitable<R | undefined>;
    },
    defer: (write, row) => {
      wrote = true;
      deferred.add(write, row);
    },
    mayHaveWritten: () => wrote || open > 0,
  };
}
