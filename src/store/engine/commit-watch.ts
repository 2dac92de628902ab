import { type Pointer, read } from 'bun:ffi';
import { readFileSync, realpathSync } from 'node:fs';
import type { Queries } from './db.ts';

/** Answers whether nobody, in this process or another, has committed since it was last asked. */
export type Unchanged = () => boolean;

/**
 * All connections to a SQLite file share the WAL index in memory, and a commit changes its header before it
 * returns. Where Linux tells at which address SQLite has it, the header is read right there; elsewhere SQLite is
 * asked, which looks at the same header between two system calls. The file is never opened or mapped anew:
 * closing any file of a database drops the locks that the whole process holds on it.
 */
export function watchCommits(path: string, reads: Queries): { unchanged: Unchanged; stop(): void } {
  const asked = byPragma(reads);
  const address = walIndexAddress(path);
  let look = address === undefined ? asked : byWalIndex(address);
  return {
    unchanged: () => look(),
    /** To be called before the connections close, and the memory with them. */
    stop: () => {
      look = asked;
    },
  };
}

export function byPragma(reads: Queries): Unchanged {
  let seen: number | undefined;
  return () => {
    const row = reads.get<{ data_version: number }>('pragma data_version') as { data_version: number };
    const same = row.data_version === seen;
    seen = row.data_version;
    return same;
  };
}

/** The header by its bytes: the count of commits at 8, the last frame at 16, its own checksum at 40 and 44. */
function byWalIndex(index: Pointer): Unchanged {
  let [commits, frame, first, second] = [-1, -1, -1, -1];
  return () => {
    const [a, b] = [read.u32(index, 8), read.u32(index, 16)];
    const [c, d] = [read.u32(index, 40), read.u32(index, 44)];
    const same = a === commits && b === frame && c === first && d === second;
    commits = a;
    frame = b;
    first = c;
    second = d;
    return same;
  };
}

/** What the header says of its layout, in every version of SQLite so far. */
const knownLayout = 3_007_000;

/** Where this process has the WAL index of the database, if that can be known. */
export function walIndexAddress(path: string): Pointer | undefined {
  try {
    const file = `${realpathSync(path)}-shm`;
    const maps = readFileSync('/proc/self/maps', 'utf8').split('\n');
    const line = maps.find((each) => each.endsWith(` ${file}`) && / rw-s 0+ /.test(each));
    const index = line === undefined ? undefined : (Number.parseInt(line, 16) as Pointer);
    return index !== undefined && read.u32(index, 0) === knownLayout ? index : undefined;
  } catch {
    return undefined;
  }
}
