import { constants, Database } from 'bun:sqlite';
import { pathWithoutLinks } from './file-ownership.ts';

const { SQLITE_OPEN_CREATE, SQLITE_OPEN_NOFOLLOW, SQLITE_OPEN_READWRITE } = constants;

/**
 * Opens a SQLite file for reading and writing. A link that replaces the file after the check is not followed, nor is the
 * target of `vacuum into` if it is a link.
 */
export function openFile(path: string, mode: 'create' | 'existing'): Database {
  const flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW | (mode === 'create' ? SQLITE_OPEN_CREATE : 0);
  return new Database(pathWithoutLinks(path), flags);
}
