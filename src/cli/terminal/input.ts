/** What a command reads beside its arguments: files, standard input, and secrets, which never are arguments. */
import { readFileSync } from 'node:fs';
import { findInexactNumber } from '../../domain/number-precision.ts';
import { UsageError } from '../errors.ts';
import type { Terminal } from './terminal.ts';

export class Input {
  readonly #terminal: Terminal;
  #taken: string | undefined;

  constructor(terminal: Terminal) {
    this.#terminal = terminal;
  }

  /** The text of a file, or of standard input for `-`. */
  async text(path: string, option: string): Promise<string> {
    if (path === '-') return this.standard(`${option} -`);
    try {
      return readFileSync(path, 'utf8');
    } catch (error) {
      const missing = (error as NodeJS.ErrnoException).code === 'ENOENT';
      const why = missing ? 'there is no such file' : (error as Error).message;
      throw new UsageError(`${option} ${path}: ${why}`);
    }
  }

  /** What is parsed is what is sent, so a number that would come out as another is refused. */
  async json(path: string, option: string): Promise<unknown> {
    const text = await this.text(path, option);
    try {
      const value: unknown = JSON.parse(text);
      const changed = findInexactNumber(text);
      if (changed === undefined) return value;
      throw new UsageError(
        `${option} ${path}: ${changed || 'it'} is a number of more digits than can be kept`,
      );
    } catch (error) {
      if (error instanceof UsageError) throw error;
      throw new UsageError(`${option} ${path}: is not valid JSON`);
    }
  }

  /** The body that `--file` names, or an empty one. */
  async body(path: string | undefined): Promise<Record<string, unknown>> {
    if (path === undefined) return {};
    const value = await this.json(path, '--file');
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
      return value as Record<string, unknown>;
    }
    throw new UsageError(`--file ${path}: must hold a JSON object`);
  }

  /** A secret from the environment, or piped in. */
  async secret(variable: string, noun: string): Promise<string> {
    const given = this.#terminal.env[variable];
    if (given) return oneWord(given, variable);
    if (this.#terminal.person.types) throw new UsageError(`no ${noun}: set ${variable}, or pipe it in`);
    return oneWord(await this.standard(noun), `the ${noun} on standard input`);
  }

  async standard(what: string): Promise<string> {
    if (this.#taken) throw new UsageError(`standard input cannot be both ${this.#taken} and ${what}`);
    this.#taken = what;
    return this.#terminal.read();
  }
}

/** Nothing but a word fits into a header; the complaint does not repeat it. */
export function oneWord(text: string, where: string): string {
  const word = text.trim();
  if (/^[\x21-\x7e]+$/.test(word)) return word;
  throw new UsageError(word === '' ? `${where} is empty` : `${where} must be one word of plain characters`);
}
