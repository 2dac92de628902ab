import { constants, Database } from 'bun:sqlite';
import { pathWithoutLinks } from './file-ownership.ts';

const { SQLITE_OPEN_CREATE, SQLITE_OPEN_NOFOLLOW, SQLITE_OPEN_READWRITE } = constants;

/**
 * Opens a SQLite file for reading and writing. A link that takes its place meanwhile is not followed, nor is one that
 * the connection is told to write to by `vacuum into`.
 */
export function openFile(path: string, mode: 'create' | 'existing'): Database {
  const flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW | (mode === 'create' ? SQLITE_OPEN_CREATE : 0);
  return new Database(pathWithoutLinks(path), flags);
}
