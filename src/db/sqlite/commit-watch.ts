/**
 * Detects commits to a SQLite file, usually without a query. Every process maps a small file beside the database into
 * memory. The file contains two counters: the number of the last commit that has begun, and of the last commit that has
 * ended. A writer changes the first before its commit and the second after it. credentials.ts explains why that
 * is enough. The others are about syncs: see log-sync.ts and checkpoints.ts.
 */
import { closeSync, constants, existsSync, fstatSync, openSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Queries } from '../db.ts';
import { createOwned, pathWithoutLinks } from './file-ownership.ts';

export interface CommitWatch {
  /**
   * Call this with the write lock held, right before the commit. Call the returned function after the commit or
   * rollback.
   */
  beginCommit(): () => void;
  /** See `Local.generation` in db.ts. */
  generation(): number | undefined;
}

export function generationFile(path: string): string {
  return `${pathWithoutLinks(path)}-generation`;
}

/** Places in the file. They outlive a process, but need not outlive the machine. */
export const counter = {
  begun: 0,
  ended: 1,
  /** How many syncs have begun and not succeeded. */
  syncing: 2,
  /** 1 if a sync has failed. */
  failed: 3,
  /** The time until which a checkpoint wants no commits, in milliseconds modulo 2 ** 32. */
  heldUntil: 4,
} as const;
const { begun, ended } = counter;

/** Milliseconds for which a check of the file and of `pragma data_version` is not repeated. */
const checkInterval = 1;

/**
 * `checkFile` throws if the database file was moved or replaced, because commits to the new file would not be detected.
 * `clock` is monotonic, in milliseconds.
 */
export function watchCommits(
  counters: Int32Array,
  reads: Queries,
  checkFile: () => void = () => {},
  clock = () => performance.now(),
): CommitWatch {
  let generation = 0;
  let last: { readonly commit: number; readonly version: number } | undefined;
  let checkedAt = Number.NEGATIVE_INFINITY;

  /** A number that changes with every commit of another connection, including programs that do not use the counters. */
  function dataVersion(): number {
    checkFile();
    const time = clock();
    const row = reads.get<{ data_version: number }>('pragma data_version') as { data_version: number };
    checkedAt = time;
    return row.data_version;
  }

  return {
    beginCommit: () => {
      const number = (Atomics.load(counters, begun) + 1) | 0;
      Atomics.store(counters, begun, number);
      return () => Atomics.store(counters, ended, number);
    },
    generation: () => {
      const commit = Atomics.load(counters, begun);
      if (commit !== last?.commit || clock() - checkedAt >= checkInterval) {
        const version = dataVersion();
        if (commit !== last?.commit || version !== last.version) generation++;
        last = { commit, version };
      }
      return Atomics.load(counters, ended) === commit ? generation : undefined;
    },
  };
}

const size = 4096;
const countersSize = 4 * Object.keys(counter).length;

/**
 * Maps the counters of the database at `path` into memory. Throws if that fails, because other processes would not
 * detect commits of this process. Does not follow links: if root works in a folder of another user, that user could
 * have created a link there.
 */
export function mapCounters(path: string): Int32Array {
  const name = generationFile(path);
  createOwned(name, existsSync(path) ? path : dirname(path));
  const file = openSync(name, constants.O_RDWR | constants.O_NOFOLLOW);
  try {
    const { nlink, size: found } = fstatSync(file);
    if (nlink !== 1) throw new Error(`${name} has more than one name`);
    // Allocates the blocks, so that a full disk cannot make writing to memory fail later. Skips the counters, which
    // another process may be using.
    if (found < size)
      writeSync(file, new Uint8Array(size - countersSize), 0, size - countersSize, countersSize);
    const bytes = Bun.mmap(`/dev/fd/${file}`, { shared: true });
    return new Int32Array(bytes.buffer, bytes.byteOffset, countersSize / 4);
  } finally {
    closeSync(file);
  }
}
