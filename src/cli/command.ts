/** What a command is, and what it is given. */
import type { Config } from '../config.ts';

/** What a command takes beside the settings. The same name means the same kind of thing everywhere. */
export interface Option {
  readonly name: string;
  /** What its value is called; without one it is on or off. */
  readonly takes?: string;
  /** May be given several times. */
  readonly many?: true;
  readonly sentence: string;
}

export interface Command {
  readonly words: readonly string[];
  readonly takes: readonly string[];
  readonly options?: readonly Option[];
  readonly summary: string;
  readonly details?: string;
  /** Resolves with the exit code. */
  readonly run: (invocation: Invocation) => Promise<number>;
}

/** The command was called in a way that it does not take. */
export class UsageError extends Error {}

export interface Invocation {
  readonly config: Config;
  /** What stands behind the command's own words. */
  readonly args: readonly string[];
  /** The command's own options, as they were given. */
  readonly options: Options;
  readonly json: boolean;
  readonly print: (line: string) => void;
}

export interface Options {
  on(name: string): boolean;
  value(name: string): string | undefined;
  values(name: string): readonly string[];
}
