/** Reads files, standard input and secrets. Secrets are never arguments. */
import { readFileSync } from 'node:fs';
import { findInexactNumber } from '../../domain/number-precision.ts';
import { runSteps } from '../../domain/steps.ts';
import { UsageError } from '../errors.ts';
import type { Terminal } from './terminal.ts';

export class Input {
  readonly #terminal: Terminal;
  /** The option for which standard input was read. It can be read only once. */
  #stdinUsedBy: string | undefined;

  constructor(terminal: Terminal) {
    this.#terminal = terminal;
  }

  /** Reads a file, or standard input for `-`. */
  async text(path: string, option: string): Promise<string> {
    if (path === '-') return this.standard(`${option} -`);
    try {
      return readFileSync(path, 'utf8');
    } catch (error) {
      const missing = (error as NodeJS.ErrnoException).code === 'ENOENT';
      const reason = missing ? 'no such file' : (error as Error).message;
      throw new UsageError(`${option} ${path}: ${reason}`);
    }
  }

  /** Throws for numbers that JavaScript cannot represent exactly, because it would send other numbers. */
  async json(path: string, option: string): Promise<unknown> {
    const text = (await this.text(path, option)).replace(/^\ufeff/, '');
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      throw new UsageError(`${option} ${path}: not valid JSON`);
    }
    const inexact = runSteps(findInexactNumber(text));
    if (inexact === undefined) return value;
    const reason = `${inexact || 'the value'} is a number with too many digits`;
    throw new UsageError(`${option} ${path}: ${reason}`, 'send it as a string');
  }

  /** Reads the request body of `--file`. Returns an empty object if `path` is undefined. */
  async body(path: string | undefined): Promise<Record<string, unknown>> {
    if (path === undefined) return {};
    const value = await this.json(path, '--file');
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      return value as Record<string, unknown>;
    throw new UsageError(`--file ${path}: not a JSON object`);
  }

  /** Reads a secret from the environment variable, or else from standard input. */
  async secret(variable: string, noun: string): Promise<string> {
    const given = this.#terminal.env[variable];
    if (given) return parseSecret(given, variable);
    const hint = `set ${variable}, or pipe the ${noun} to standard input`;
    return parseSecret(await this.piped(noun, noun, hint), `the ${noun} on standard input`);
  }

  /** Like `standard`. Throws on a terminal, which would show the secret while it is typed. */
  async piped(noun: string, what: string, hint = `pipe the ${noun} to standard input`): Promise<string> {
    if (this.#terminal.isTty.stdin) throw new UsageError(`no ${noun} was given`, hint);
    return this.standard(what);
  }

  /** Reads standard input. `what` names the reader if a second one also wants it. */
  async standard(what: string): Promise<string> {
    if (this.#stdinUsedBy)
      throw new UsageError(`${this.#stdinUsedBy} and ${what} cannot both read standard input`);
    this.#stdinUsedBy = what;
    return this.#terminal.readAll();
  }
}

/** Checks that the secret can be sent in a header. The error message does not repeat it. */
export function parseSecret(text: string, source: string): string {
  const secret = text.trim();
  if (/^[\x21-\x7e]+$/.test(secret)) return secret;
  throw new UsageError(
    secret === '' ? `${source} is empty` : `${source} must be one word of ASCII characters without spaces`,
  );
}
