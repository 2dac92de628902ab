/** What a command is, and what it is given. */
import type { Sallyport } from '../../sdk/src/sallyport.ts';
import type { Config } from '../config.ts';
import type { Colorize } from './terminal/colors.ts';
import type { Input } from './terminal/input.ts';
import type { Terminal } from './terminal/terminal.ts';

/** What a command takes beside the settings. The same name means the same kind of thing everywhere. */
export interface Option {
  readonly name: string;
  /** What its value is called; without one it is on or off. */
  readonly takes?: string;
  /** What its value can be, where that is one of a few words. */
  readonly oneOf?: readonly string[];
  /** May be given several times. */
  readonly many?: true;
  readonly sentence: string;
}

interface Described {
  readonly words: readonly string[];
  readonly takes: readonly string[];
  readonly options?: readonly Option[];
  /** One imperative sentence. */
  readonly summary: string;
  readonly details?: string;
  /** Command lines that work. */
  readonly examples?: readonly string[];
}

/** Works with the settings of the service, whether that runs or not. */
export interface LocalCommand extends Described {
  /** Resolves with the exit code. */
  readonly run: (invocation: Invocation) => Promise<number>;
}

/** Calls a running service, through the SDK alone. */
export interface RemoteCommand extends Described {
  /** Resolves with the exit code. */
  readonly call: (call: Call) => Promise<number>;
}

export type Command = LocalCommand | RemoteCommand;

export interface Given {
  /** What stands behind the command's own words. */
  readonly args: readonly string[];
  /** The command's own options, as they were given. */
  readonly options: Options;
  readonly json: boolean;
  readonly print: (line: string) => void;
  readonly paint: Colorize;
  readonly input: Input;
  readonly terminal: Terminal;
}

export interface Invocation extends Given {
  readonly config: Config;
}

export interface Call extends Given {
  readonly service: Sallyport;
  /** Where it is. */
  readonly url: string;
}

export interface Options {
  on(name: string): boolean;
  value(name: string): string | undefined;
  values(name: string): readonly string[];
}
