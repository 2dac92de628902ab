/** What the system or SQLite says when it cannot, in an operator's words. */
import { SQLiteError } from 'bun:sqlite';
import { Refused } from '../errors.ts';

export interface SystemError {
  readonly says: string;
  readonly todo: string;
  /** What it is about, if the system tells. */
  readonly path?: string | undefined;
}

type Words = Pick<SystemError, 'says' | 'todo'>;

const denied: Words = {
  says: 'permission is denied to this user',
  todo: 'run it as the user that the service runs as',
};
const full: Words = { says: 'the disk is full', todo: 'make room there, or name a place on another disk' };
const readOnly: Words = {
  says: 'it cannot be written to',
  todo: 'check whose it is, and whether its file system is read-only',
};
const damaged: Words = { says: 'it is damaged', todo: 'sallyport doctor tells more' };

const known: Readonly<Record<string, Words>> = {
  EACCES: denied,
  EPERM: denied,
  ENOSPC: full,
  EDQUOT: full,
  EROFS: { says: 'the file system is read-only', todo: 'make it writable, or name another place' },
  SQLITE_FULL: full,
  SQLITE_READONLY: readOnly,
  SQLITE_CANTOPEN: { says: 'it cannot be opened', todo: 'check whose it is, and that it is there' },
  SQLITE_CORRUPT: damaged,
  SQLITE_NOTADB: damaged,
};

/** Undefined for what is not of the system's doing, and may be a fault of the program. */
export function systemErrorOf(error: unknown): SystemError | undefined {
  if (error instanceof SQLiteError) {
    const [kind] = /^SQLITE_[A-Z]+/.exec(error.code ?? '') ?? [];
    const words = known[kind ?? ''];
    return words && { ...words, says: `${words.says} (${error.message})` };
  }
  const { code, syscall, path, dest, message } = (error ?? {}) as NodeJS.ErrnoException & { dest?: string };
  if (code === undefined || syscall === undefined) return undefined;
  const words = known[code] ?? {
    says: message.split(', ')[0] as string,
    todo: 'check the path and the disk',
  };
  return { ...words, path: dest ?? path };
}

/** The same error as a sentence about this file, if the system is to blame. */
export function describeSystemError(what: string, error: unknown): unknown {
  const trouble = systemErrorOf(error);
  return trouble ? new Refused(`${what}: ${trouble.says}`, trouble.todo) : error;
}
