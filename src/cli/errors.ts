/** Errors that end a command with a message and a hint. */

/** The command was called in a way that it does not take. */
export class UsageError extends Error {
  readonly hint: string | undefined;
  constructor(message: string, hint?: string) {
    super(message);
    this.hint = hint;
  }
}

/** What was named is not there; found out by looking, where the service was not asked for it by its id. */
export class Missing extends Error {
  readonly hint: string;
  constructor(message: string, hint: string) {
    super(message);
    this.hint = hint;
  }
}

/** As things are, it cannot be done. */
export class Refused extends Error {
  readonly hint: string;
  constructor(message: string, hint: string) {
    super(message);
    this.hint = hint;
  }
}
