/** Errors that end a command. Also turns errors of the operating system and of SQLite into messages for operators. */
import { SQLiteError } from 'bun:sqlite';
import { constants } from 'node:os';

/** Exit code of a command that succeeded with a negative result, such as `can` for a denied permission. */
export const negativeExitCode = 5;

/** The command was called correctly and failed. */
export class CommandError extends Error {
  readonly hint: string | undefined;
  readonly exitCode: number;
  constructor(message: string, hint?: string, exitCode = 1) {
    super(message);
    this.hint = hint;
    this.exitCode = exitCode;
  }
}

/** Wrong arguments, options or input files. The default hint is the help of the command. */
export class UsageError extends CommandError {
  constructor(message: string, hint?: string) {
    super(message, hint, 2);
  }
}

/** A stop signal has ended the command. The exit code is the usual one: 128 and the number of the signal. */
export class Interrupted extends CommandError {
  constructor(signal: NodeJS.Signals, consequence?: string) {
    const message = `interrupted by ${signal}${consequence === undefined ? '' : `: ${consequence}`}`;
    super(message, 'run the command again', 128 + constants.signals[signal]);
  }
}

/** Names the subject of another error, such as an application. The message and the exit code come from `cause`. */
export class ErrorAbout extends Error {
  readonly subject: string;
  constructor(subject: string, cause: unknown) {
    super(subject, { cause });
    this.subject = subject;
  }
}

/** The user answered a confirmation prompt with no. */
export class Cancelled extends Error {}

export interface SystemError {
  readonly reason: string;
  readonly hint: string;
  readonly path?: string | undefined;
}

type Message = Pick<SystemError, 'reason' | 'hint'>;

const denied: Message = {
  reason: 'permission denied',
  hint: 'run the command as the user that runs the service',
};
const full: Message = {
  reason: 'the disk is full',
  hint: 'free some space, or choose a path on another disk',
};
const readOnly: Message = {
  reason: 'the file is read-only',
  hint: 'check the owner of the file, and whether its file system is mounted read-only',
};
const damaged: Message = { reason: 'the database is damaged', hint: 'run `sallyport doctor`' };

const messages: Readonly<Record<string, Message>> = {
  EACCES: denied,
  EPERM: denied,
  ENOSPC: full,
  EDQUOT: full,
  EROFS: { reason: 'the file system is read-only', hint: 'mount it writable, or choose another path' },
  SQLITE_FULL: full,
  SQLITE_READONLY: readOnly,
  SQLITE_CANTOPEN: {
    reason: 'the file cannot be opened',
    hint: 'check that the file exists and that this user may open it',
  },
  SQLITE_CORRUPT: damaged,
  SQLITE_NOTADB: damaged,
};

/** Returns undefined for other errors, which may be bugs in the program. */
export function systemErrorOf(error: unknown): SystemError | undefined {
  if (error instanceof SQLiteError) {
    const [code] = /^SQLITE_[A-Z]+/.exec(error.code ?? '') ?? [];
    const message = messages[code ?? ''];
    return message && { ...message, reason: `${message.reason} (${error.message})` };
  }
  const { code, syscall, path, dest, message } = (error ?? {}) as NodeJS.ErrnoException & { dest?: string };
  if (code === undefined || syscall === undefined) return undefined;
  const known = messages[code] ?? {
    reason: message.split(', ')[0] as string,
    hint: 'check the path and the disk',
  };
  return { ...known, path: dest ?? path };
}

/** Wraps an error of the system in a CommandError that starts with `what`. Returns other errors unchanged. */
export function describeSystemError(what: string, error: unknown): unknown {
  const known = systemErrorOf(error);
  return known ? new CommandError(`${what}: ${known.reason}`, known.hint) : error;
}
