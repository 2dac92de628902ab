import type { Queries } from './db.ts';

/**
 * Answers whether nobody, in this process or another, has committed since it was last asked: SQLite looks at
 * the header of the WAL index, which all connections share in memory and which a commit changes before it
 * returns. Mapping that memory ourselves would be quicker still, but closing a file of SQLite's drops the
 * locks that this process holds on it.
 */
export function watchCommits(reads: Queries): () => boolean {
  let seen: number | undefined;
  return () => {
    const row = reads.get<{ data_version: number }>('pragma data_version') as { data_version: number };
    const same = row.data_version === seen;
    seen = row.data_version;
    return same;
  };
}
