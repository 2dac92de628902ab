/**
 * Syncs the write-ahead log off the event loop. SQLite commits without a sync; a change is acknowledged after a sync that
 * began after its commit. Reads and other changes run meanwhile.
 */
import {
  closeSync,
  constants,
  fdatasync,
  fstatSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import { DbUnavailable } from '../db.ts';
import { copyBytes } from '../keys/backup-mac.ts';
import { counter, generationFile, mapCounters } from './commit-watch.ts';
import { copyOwnership, createExclusively, pathWithoutLinks } from './file-ownership.ts';
import { InUse, lockExclusively } from './sqlite-lock.ts';

export interface LogSync {
  /** Resolves when every commit that this process can have read, of any process, is on disk. `changes` wait for it. */
  durable(changes?: number): Promise<void>;
  /** Whether all commits are on disk. */
  isSynced(): boolean;
  /** With the write lock held. Returns a function that says that the commit which now follows has written nothing. */
  beforeCommit(): () => void;
  /** Counts the work as a sync. Ends the process if it fails. */
  watch<T>(work: () => Promise<T>): Promise<T>;
  /** Ends the process if a sync of another process has failed. */
  check(): void;
  /** A message if a sync takes very long. */
  problem(): string | undefined;
  /** Resolves when no sync runs or waits. */
  idle(): Promise<void>;
  close(): void;
}

const syncFile = promisify(fdatasync);

/** The milliseconds for which a sync waits for more changes: this part of the duration of the last, and the maximum. */
const [waitingPart, longestWait] = [1 / 8, 5];

/** Milliseconds after which a sync is a problem, and after which the process ends, because changes would wait for ever. */
const limits = { slow: 10_000, hung: 60_000 };

/**
 * Call this while a connection has the database open, so that the log exists. Its descriptor stays open: Linux reports
 * a failed write once to each descriptor. `onSync` is called after each sync.
 */
export function syncLog(
  path: string,
  counters: Int32Array,
  onSync: () => void,
  sync: (file: number) => Promise<void> = syncFile,
  end: (path: string, error: unknown) => void = endProcess,
  { slow, hung } = limits,
): LogSync {
  const file = openSync(logOf(path), constants.O_RDONLY | constants.O_NOFOLLOW);
  /** The number of the last commit that is on disk. */
  let synced: number | undefined;
  let current: Promise<void> = Promise.resolve();
  let next: Promise<void> | undefined;
  /** When the sync that runs began. */
  let began: number | undefined;
  /** Changes that wait for the next sync. */
  let waiting = 0;
  /** The changes that the next sync can expect, if the callers that were just answered send another one soon. */
  let expected = { changes: 0, until: 0 };

  const isSynced = () => Atomics.load(counters, counter.begun) === synced;

  const { check, watch } = failures(path, counters, end);

  async function run(): Promise<void> {
    // A commit that has begun and not ended may write after this sync has begun.
    const covered = Atomics.load(counters, counter.ended);
    const answered = waiting;
    waiting = 0;
    const startedAt = performance.now();
    began = startedAt;
    const timer = setTimeout(() => end(path, new Error('a sync does not end')), hung);
    timer.unref();
    await watch(() => sync(file));
    began = undefined;
    clearTimeout(timer);
    synced = covered;
    const endedAt = performance.now();
    const wait = Math.floor((endedAt - startedAt) * waitingPart);
    expected = { changes: waiting + answered, until: endedAt + Math.min(wait, longestWait) };
    onSync();
  }

  async function runAfter(previous: Promise<void>): Promise<void> {
    await previous.catch(() => {});
    // Changes that waited for the previous sync commit first.
    await new Promise(setImmediate);
    while (waiting < expected.changes && performance.now() < expected.until) await Bun.sleep(1);
    next = undefined;
    current = run();
    return current;
  }

  return {
    durable: async (changes = 1) => {
      if (isSynced()) return;
      waiting += changes;
      next ??= runAfter(current);
      return next;
    },
    isSynced,
    beforeCommit: () => {
      const number = Atomics.load(counters, counter.begun);
      const before = synced === number - 1;
      return () => {
        if (before) synced = number;
      };
    },
    watch,
    check,
    problem: () =>
      began !== undefined && performance.now() - began >= slow
        ? `the disk of ${path} takes more than ${slow / 1000} seconds for a sync`
        : undefined,
    idle: () => (next ?? current).catch(() => {}),
    close: () => closeSync(file),
  };
}

/** Ends the process if a sync fails, of this process or of another one. */
function failures(
  path: string,
  counters: Int32Array,
  end: (path: string, error: unknown) => void,
): Pick<LogSync, 'check' | 'watch'> {
  function check(): void {
    if (Atomics.load(counters, counter.failed) === 0) return;
    end(path, new Error('it has failed in another process'));
    throw new DbUnavailable('a sync to disk has failed');
  }

  return {
    check,
    watch: async (work) => {
      check();
      Atomics.add(counters, counter.syncing, 1);
      try {
        const value = await work();
        Atomics.sub(counters, counter.syncing, 1);
        return value;
      } catch (error) {
        Atomics.store(counters, counter.failed, 1);
        end(path, error);
        throw new DbUnavailable('a sync to disk has failed', { cause: error });
      }
    },
  };
}

/**
 * Ends the process at once, without closing the database: that would copy the log into the file. After a failed write,
 * Linux treats the pages in memory as written, so a later sync would succeed without them.
 */
function endProcess(path: string, error: unknown): void {
  const { message } = error as Error;
  writeSync(2, `the disk of ${path} failed: ${message}; ending, because changes may not be on disk\n`);
  process.kill(process.pid, 'SIGKILL');
}

/**
 * Call this before the database is opened. If a sync has failed or did not end, the log in memory may differ from the
 * one on disk: writes a new one. Throws `DbUnavailable` if that is necessary while other processes use the database.
 */
export function mendLog(path: string): void {
  const { isInDoubt, hasFailed } = readDoubt(path);
  if (!isInDoubt) return;
  let unlock: () => void;
  try {
    unlock = lockExclusively(path);
  } catch (error) {
    if (!(error instanceof InUse)) throw error;
    if (!hasFailed) return;
    throw new DbUnavailable('a sync to disk has failed: stop all processes that use the database');
  }
  try {
    rewrite(logOf(path));
    const counters = mapCounters(path);
    for (const at of [counter.syncing, counter.failed]) Atomics.store(counters, at, 0);
  } finally {
    unlock();
  }
}

function readDoubt(path: string): { isInDoubt: boolean; hasFailed: boolean } {
  try {
    const bytes = readFileSync(generationFile(path));
    const read = (at: number) => bytes.readInt32LE(4 * at) !== 0;
    return { isInDoubt: read(counter.syncing) || read(counter.failed), hasFailed: read(counter.failed) };
  } catch {
    return { isInDoubt: false, hasFailed: false };
  }
}

/** Copies through this process: the kernel could otherwise copy what is on disk. */
function rewrite(log: string): void {
  let old: number;
  try {
    old = openSync(log, constants.O_RDONLY | constants.O_NOFOLLOW);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
    throw error;
  }
  const copy = `${log}-copy`;
  rmSync(copy, { force: true });
  const written = createExclusively(copy);
  try {
    copyBytes(old, written, fstatSync(old).size);
    copyOwnership(log, copy);
    fsyncSync(written);
    renameSync(copy, log);
    syncFolder(dirname(log));
  } finally {
    closeSync(written);
    closeSync(old);
  }
}

function syncFolder(path: string): void {
  const folder = openSync(path, 'r');
  fsyncSync(folder);
  closeSync(folder);
}

function logOf(path: string): string {
  return `${pathWithoutLinks(path)}-wal`;
}
