/** Errors that end a command with a message and a hint. */

/** Wrong arguments, options or input files. Exit code 2. */
export class UsageError extends Error {
  readonly hint: string | undefined;
  constructor(message: string, hint?: string) {
    super(message);
    this.hint = hint;
  }
}

/** No object has the given name. Exit code 4, like a 404 from the service. */
export class NotFoundError extends Error {
  readonly hint: string;
  constructor(message: string, hint: string) {
    super(message);
    this.hint = hint;
  }
}

/** The command was called correctly and failed. Exit code 1. */
export class CommandError extends Error {
  readonly hint: string;
  constructor(message: string, hint: string) {
    super(message);
    this.hint = hint;
  }
}
