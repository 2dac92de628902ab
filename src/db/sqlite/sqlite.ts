import { type Statement as Compiled, type Database, SQLiteError, type SQLQueryBindings } from 'bun:sqlite';
import { randomBytes } from 'node:crypto';
import { existsSync, lstatSync, rmSync, statfsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Awaitable } from '../../domain/awaitable.ts';
import { fail } from '../../domain/error.ts';
import { type Db, DbUnavailable, ownerDeleted, type Queries } from '../db.ts';
import { type Enqueue, groupCommit } from '../group-commit.ts';
import { boundOf, type Statement } from '../statement.ts';
import { checkpoints } from './checkpoints.ts';
import { type CommitWatch, counter, mapCounters, watchCommits } from './commit-watch.ts';
import { createOwned, openDatabase, pathWithoutLinks, shrinkOwned, writeOwned } from './file-ownership.ts';
import { type LogSync, mendLog, syncLog } from './log-sync.ts';
import { InUse, lockExclusively, lockShared } from './sqlite-lock.ts';

/** The maximum number of changes that share a commit. */
const maxBatch = 512;
/** Milliseconds for which commits of other processes wait for a checkpoint, if its process does not say that it ended. */
const longestHold = 2000;

/**
 * Opens two connections: one reads committed data, the other writes. Changes that are requested at the same time share
 * one commit: see group-commit.ts. Syncs and checkpoints do not block the event loop: see log-sync.ts. With `alone`,
 * throws `InUse` if another process uses the database. `reserved` is the number of bytes that are reserved for essential
 * changes.
 */
export function openSqlite(path: string, now: () => number, alone = false, reserved = 0): Db {
  const { counters, writer, reader, unlock } = connectTwice(path, alone);
  const file = watchFile(path, writer);
  const reserve = diskReserve(path, reserved, now);
  const reads = prepared(reader, now, file.onError);
  const onError = (error: unknown) => {
    file.onError(error);
    if (isFullDisk(error)) reserve.shrink();
  };
  const log = syncLog(path, counters, () => passes.begin());
  const check = () => {
    file.check();
    log.check();
  };
  const commits = watchCommits(counters, reads, check);
  const queue = writeQueue({ writer, counters, commits, log, check, now, onError });
  const { transaction, between } = queue;
  const passes = checkpoints({ path, pages: () => pagesInLog(reads), watch: log.watch, between });
  const { durable } = log;
  const enqueue = groupCommit({
    transaction,
    durable,
    maxBatch,
    maxInFlight: Infinity,
    pipelined: false,
    now,
  });
  const change = unlessFull(enqueue, reserve.isFull, path);

  /** Starts in another tick, because `begin` would block the event loop while a transaction of this process is open. */
  async function exclusively<T>(work: (tx: Queries) => Promise<T>): Promise<T> {
    await new Promise(setImmediate);
    return transaction(work).finally(() => durable());
  }

  return {
    ...engine,
    local: {
      generation: commits.generation,
      now,
      fileProblem: () => file.problem() ?? log.problem(),
      isDiskFull: reserve.isFull,
      durable: () => durable(),
    },
    get: reads.get,
    all: reads.all,
    ...changesBy(change),
    lookup: reads.lookup,
    transaction: (work) => change(work),
    defer: (write, row) => change((tx) => write(tx, [row])),
    change,
    exclusively,
    close: async () => {
      do {
        await queue.last();
        await new Promise(setImmediate);
        await log.idle();
      } while (await queue.isBusy());
      await passes.close(() => {
        reads.close();
        queue.close();
      });
      log.close();
      unlock();
    },
  };
}

interface WriteQueueOptions {
  readonly writer: Database;
  readonly counters: Int32Array;
  readonly commits: CommitWatch;
  readonly log: LogSync;
  readonly check: () => void;
  readonly now: () => number;
  readonly onError: (error: unknown) => void;
}

/** Transactions run one after another on the connection that writes. */
function writeQueue({ writer, counters, commits, log, check, now, onError }: WriteQueueOptions) {
  let hasWritten = false;
  const writes = prepared(writer, now, onError, () => {
    hasWritten = true;
  });
  let last: Promise<unknown> = Promise.resolve();

  function next<T>(work: () => Promise<T>): Promise<T> {
    const mine = last.then(work);
    last = mine.catch(() => {});
    return mine;
  }

  async function commit<T>(work: (tx: Queries) => Awaitable<T>): Promise<T> {
    check();
    while (isHeld(counters, now())) await Bun.sleep(1);
    writes.run('begin immediate');
    try {
      hasWritten = false;
      const value = await work(writes);
      const isRead = !hasWritten;
      const end = commits.beginCommit();
      const withoutWrites = log.beforeCommit();
      try {
        writes.run('commit');
      } finally {
        end();
      }
      if (isRead) withoutWrites();
      return value;
    } catch (error) {
      rollback();
      throw mapDbError(error);
    }
  }

  /** The rollback may fail for the same reason as the commit. The next `begin` then reports the problem. */
  function rollback(): void {
    try {
      if (writer.inTransaction) writes.run('rollback');
    } catch {}
  }

  return {
    transaction: <T>(work: (tx: Queries) => Awaitable<T>) => next(() => commit(work)),
    /** Runs after the transactions of this process, while those of others wait. */
    between: (work: () => Promise<void>) =>
      next(() => {
        Atomics.store(counters, counter.heldUntil, (now() + longestHold) | 0);
        return work().finally(() => Atomics.store(counters, counter.heldUntil, 0));
      }),
    last: () => last,
    /** Whether another transaction starts within two ticks. */
    isBusy: async () => {
      const before = last;
      for (let tick = 0; tick < 2; tick++) await new Promise(setImmediate);
      return last !== before;
    },
    close: writes.close,
  };
}

function changesBy(change: Db['change']) {
  return {
    run: (statement) => change((tx) => tx.run(statement)),
    returning: (statement) => change((tx) => tx.returning(statement)),
    insert: (...inserted) => change((tx) => tx.insert(...inserted)),
  } satisfies Partial<Queries>;
}

function connectTwice(
  path: string,
  alone: boolean,
): { counters: Int32Array; writer: Database; reader: Database; unlock: () => void } {
  let unlock = () => {};
  try {
    mendLog(path);
    unlock = alone ? lockExclusively(path) : lockShared(path);
    refuseToDiscard(path);
    return { counters: mapCounters(path), writer: connect(path), reader: connect(path), unlock };
  } catch (error) {
    unlock();
    if (error instanceof InUse || error instanceof DbUnavailable) throw error;
    if (isFullDisk(error) && shrinkOwned(reserveFile(path), reserveStep)) return connectTwice(path, alone);
    throw new DbUnavailable(`cannot be opened: ${(error as Error).message}`, { cause: error });
  }
}

/**
 * SQLite deletes a write-ahead log beside a missing or empty file. The log can have the only copy of the data. A first
 * start writes to the file before it creates the log, so the log is looked for first.
 */
function refuseToDiscard(path: string): void {
  const file = pathWithoutLinks(path);
  const sizeOf = (name: string) => statSync(name, { throwIfNoEntry: false })?.size;
  if (sizeOf(`${file}-wal`) && !sizeOf(file))
    throw new Error(
      `${file} is missing or empty, but ${file}-wal has data of it. Move the database back beside it, or restore a backup. For a new database, move ${file}-wal away`,
    );
}

function connect(path: string): Database {
  let db: Database | undefined;
  try {
    // SQLite would create the file with the umask, and for root as the owner.
    if (!existsSync(path)) createOwned(path);
    db = openDatabase(path, 'create');
    db.run('pragma busy_timeout = 5000');
    switchToWal(db);
    // A commit writes the log, which log-sync.ts syncs.
    db.run('pragma synchronous = normal');
    db.run('pragma foreign_keys = on');
    db.run('pragma temp_store = memory');
    db.run('pragma cache_size = -16000');
    db.run('pragma wal_autocheckpoint = 0');
    // Creates the log.
    db.run('select count(*) from sqlite_master');
    return db;
  } catch (error) {
    db?.close();
    throw error;
  }
}

/** If several processes switch a new file at the same time, SQLite fails for some of them instead of waiting. */
function switchToWal(db: Database, attempts = 500): void {
  try {
    db.run('pragma journal_mode = wal');
  } catch (error) {
    if (attempts <= 1 || !(error instanceof SQLiteError && error.code?.startsWith('SQLITE_BUSY')))
      throw error;
    Bun.sleepSync(10);
    switchToWal(db, attempts - 1);
  }
}

/** Whether a checkpoint waits for the end of commits. */
function isHeld(counters: Int32Array, time: number): boolean {
  const left = (Atomics.load(counters, counter.heldUntil) - time) | 0;
  return left > 0 && left <= longestHold;
}

function pagesInLog(reads: Queries): number {
  return (reads.get<{ log: number }>('pragma wal_checkpoint(noop)') as { log: number }).log;
}

const SQLITE_FCNTL_HAS_MOVED = 20;

/** With a write-ahead log, SQLite continues to use a file that was removed, and reports it only on request. */
function hasMoved(db: Database): boolean {
  const answer = new Int32Array(2);
  db.fileControl(SQLITE_FCNTL_HAS_MOVED, answer);
  return answer[0] === 1;
}

const damaged = /^SQLITE_(CORRUPT|NOTADB)/;

/** After the first sign of damage, writes are refused, because they could destroy data that can still be saved. */
function watchFile(path: string, db: Database) {
  let damage: string | undefined;
  const problem = () =>
    damage ?? (hasMoved(db) ? `the database file was moved or deleted: ${path}` : undefined);
  return {
    problem,
    check: () => {
      const found = problem();
      if (found !== undefined) throw new DbUnavailable(found);
    },
    onError: (error: unknown) => {
      if (!(error instanceof SQLiteError && damaged.test(error.code ?? ''))) return;
      damage ??= `${path} is damaged (${error.message}): stop the service, run \`sallyport doctor\`, and restore a backup`;
    },
  };
}

/** The size of the reserve of a service: see docs/operations/runbooks.md#sallyportdiskfull. */
export const reservedBytes = 32 * 1024 * 1024;
/** A disk that was full counts as full until this much is free. */
export const neededFree = 2 * reservedBytes;
/** Bytes by which it shrinks at a time. Most changes need less. Other programs can use the freed space, too. */
const reserveStep = 256 * 1024;

/**
 * Reserves space with a file beside the database, which all processes share. It shrinks when a write finds the disk full,
 * so that essential changes can be made. The disk counts as full until there is space for twice the whole file.
 */
function diskReserve(path: string, bytes: number, now: () => number) {
  const file = reserveFile(path);
  let [full, checkedAt] = [false, Number.NEGATIVE_INFINITY];

  /** Returns false if the disk has not enough space. If it fails for another reason, the service works without a reserve. */
  function create(): boolean {
    try {
      const { bavail, bsize } = statfsSync(dirname(file));
      if (bavail * bsize < 2 * bytes) return false;
      rmSync(file, { force: true });
      // Random, because some file systems compress.
      writeOwned(file, randomBytes(bytes), path);
      return true;
    } catch (error) {
      return (error as NodeJS.ErrnoException).code !== 'ENOSPC';
    }
  }

  return {
    /** Not checked again for 10 ms, or for a second if it is full. */
    isFull: () => {
      if (bytes === 0 || Math.abs(now() - checkedAt) < (full ? 1000 : 10)) return full;
      full = (lstatSync(file, { throwIfNoEntry: false })?.size ?? 0) < bytes && !create();
      checkedAt = now();
      return full;
    },
    shrink: () => {
      shrinkOwned(file, reserveStep);
      [full, checkedAt] = [bytes > 0, now()];
    },
  };
}

/** Makes only essential changes while the disk is full. */
function unlessFull(enqueue: Enqueue, isFull: () => boolean, path: string): Db['change'] {
  return (work, entity, tenant, isEssential) => {
    if (isEssential) return retryOnFullDisk(() => enqueue(work, entity, tenant));
    const guarded: typeof work = (tx) => {
      if (!isFull()) return work(tx);
      throw fail('disk_full', {
        cause: new Error(`the disk of ${path} is full: free at least ${neededFree / 2 ** 20} MiB`),
      });
    };
    return enqueue(guarded, entity, tenant);
  };
}

function reserveFile(path: string): string {
  return `${pathWithoutLinks(path)}-reserve`;
}

/** Each failed attempt makes the reserve smaller. */
async function retryOnFullDisk<T>(attempt: () => Promise<T>, retries = 4): Promise<T> {
  return attempt().catch((error) => {
    if (retries === 0 || !isFullDisk(error.cause)) throw error;
    return retryOnFullDisk(attempt, retries - 1);
  });
}

/** Limits of the cache of prepared statements: their number, and the characters of their SQL. */
const maxPrepared = 500;
const maxPreparedText = 1_000_000;

interface Prepared {
  readonly statement: Compiled;
  readonly clock: boolean;
}

/** `onWrite` is called after statements that may have written. */
function prepared(
  db: Database,
  now: () => number,
  onError: (error: unknown) => void,
  onWrite: () => void = () => {},
): Queries & { close(): void } {
  const statements = new Map<string, Prepared>();
  let text = 0;

  function prepare(sql: string): Prepared {
    const cached = statements.get(sql);
    if (cached) return cached;
    if (statements.size >= maxPrepared || text + sql.length > maxPreparedText) clear();
    text += sql.length;
    const prepared = { statement: db.prepare(translate(sql)), clock: sql.includes(':now') };
    statements.set(sql, prepared);
    return prepared;
  }

  function clear(): void {
    for (const { statement } of statements.values()) statement.finalize();
    statements.clear();
    text = 0;
  }

  function run<T>(bound: Statement, step: Step<T>): T {
    const [sql, params] = boundOf(bound);
    try {
      const { statement, clock } = prepare(sql);
      return step(statement, clock ? [...params, now()] : (params as SQLQueryBindings[]));
    } catch (error) {
      onError(error);
      throw mapDbError(error);
    }
  }

  const get = <R>(statement: Statement) =>
    run(statement, (prepared, values) => (prepared.get(...values) ?? undefined) as R | undefined);
  const all = <R>(statement: Statement) =>
    run(statement, (prepared, values) => prepared.all(...values) as R[]);
  const writing = (statement: Statement, rows: number) => {
    if (rows > 0 || !/^\s*(insert|update|delete|with)\b/i.test(boundOf(statement)[0])) onWrite();
  };
  const change = (statement: Statement) => {
    const { changes } = run(statement, (prepared, values) => prepared.run(...values));
    writing(statement, changes);
    return changes;
  };
  const returning = <R>(statement: Statement) => {
    const rows = all<R>(statement);
    writing(statement, rows.length);
    return rows;
  };
  return {
    ...engine,
    get,
    all,
    run: change,
    returning,
    insert: (target, rows, onlyIf) => {
      if (onlyIf && !get(onlyIf)) return 0;
      let inserted = 0;
      for (const row of rows) inserted += change([target.one, Object.values(row)]);
      return inserted;
    },
    lookup: ({ one }, key, tenant) => get([one, tenant === undefined ? [key] : [key, tenant]]),
    close: () => {
      clear();
      db.close(true);
    },
  };
}

const engine = { dialect: 'sqlite', isEmbedded: true, writesTogether: false } as const;

type Step<T> = (prepared: Compiled, values: SQLQueryBindings[]) => T;

/** `$1` becomes `?1`. `:now` becomes an additional last parameter. */
function translate(sql: string): string {
  const last = Math.max(0, ...Array.from(sql.matchAll(/\$(\d+)/g), (match) => Number(match[1])));
  return sql.replace(/\$(\d+)/g, '?$1').replaceAll(':now', `?${last + 1}`);
}

const outOfReach = /^SQLITE_(BUSY|LOCKED|FULL|IOERR|CANTOPEN|READONLY|CORRUPT|NOTADB|NOMEM|PROTOCOL)/;

/** Distinguishes failures of the database from failures of a statement. */
function mapDbError(error: unknown): unknown {
  if (!(error instanceof SQLiteError)) return error;
  if (error.code === 'SQLITE_CONSTRAINT_FOREIGNKEY') return ownerDeleted(error);
  if (!outOfReach.test(error.code ?? '')) return error;
  return new DbUnavailable(error.message, { cause: error });
}

function isFullDisk(error: unknown): boolean {
  const { code = '' } = (error ?? {}) as NodeJS.ErrnoException;
  return /^(SQLITE_FULL|SQLITE_IOERR_SHMSIZE|ENOSPC)$/.test(code);
}
