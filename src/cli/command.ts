/** The types of a command, its options and its context. */
import type { Sallyport } from '../../sdk/src/sallyport.ts';
import type { Config } from '../config/settings.ts';
import type { Input } from './terminal/input.ts';
import type { Colorize, Terminal } from './terminal/terminal.ts';

/** An option of one command. Settings are declared in config.ts, connection options in terminal/connection.ts. */
export interface Option {
  readonly name: string;
  /** Placeholder of the value in help, such as FILE. Absent for a switch. */
  readonly value?: string;
  readonly choices?: readonly string[];
  readonly repeatable?: true;
  readonly description: string;
}

/** An option, from its name and the placeholder of its value, such as `file FILE`, or `id ID...` if it is repeatable. */
export function option(usage: string, description: string, choices?: readonly string[]): Option {
  const [name, value] = usage.replace('...', '').split(' ') as [string, string?];
  return {
    name,
    ...(value !== undefined && { value }),
    ...(usage.endsWith('...') && { repeatable: true }),
    ...(choices && { choices }),
    description,
  };
}

/** The name among `names` of the option for a field of the API, such as `permission` for `permissions`. */
export function optionFor(field: string, names: readonly string[]): string | undefined {
  if (field === 'size') return names.find((name) => name === 'limit');
  const wordOf = (name: string) => name.replaceAll('_', '-').replace(/^(allowed|require)-|(-file|s)$/g, '');
  return names.find((name) => wordOf(name) === wordOf(field));
}

interface CommandDescription {
  /** The name and the arguments, such as `keys delete <APP> <KEY>` or `audit verify [PATH...]`. */
  readonly usage: string;
  /** The values that the only argument accepts. */
  readonly choices?: readonly string[];
  readonly options?: readonly Option[];
  /** Runs if the user enters only the name of the group, without a subcommand. */
  readonly isDefault?: true;
  /** One imperative sentence. */
  readonly summary: string;
  readonly details?: string;
  /** Complete command lines; tests parse them. */
  readonly examples?: readonly string[];
}

/** Uses the settings of the service and its database. Works whether the service runs or not. */
export interface LocalCommand extends CommandDescription {
  readonly standalone?: undefined;
  /** Resolves with the exit code. */
  readonly run: (invocation: Invocation) => Promise<number>;
}

/** Needs neither settings nor a database. */
export interface StandaloneCommand extends CommandDescription {
  readonly standalone: true;
  /** Resolves with the exit code. */
  readonly run: (context: Context) => Promise<number>;
}

/** Calls a running service through the SDK. */
export interface RemoteCommand extends CommandDescription {
  /** Sends no key. */
  readonly withoutKey?: true;
  /** Resolves with the exit code. */
  readonly call: (call: Call) => Promise<number>;
}

export type Command = LocalCommand | StandaloneCommand | RemoteCommand;

/** The usage without the arguments, such as `keys delete`. */
export function nameOf({ usage }: Command): string {
  return usage.replace(/ [<[].*/, '');
}

export interface Context {
  readonly args: readonly string[];
  readonly options: Options;
  readonly json: boolean;
  /** Whether tables may be wider than the terminal. */
  readonly wide: boolean;
  readonly print: (line: string) => void;
  /** Prints the value as JSON with --json, otherwise the text. Returns the exit code, which is 0 by default. */
  readonly printResult: (value: unknown, text: string, exitCode?: number) => number;
  readonly colorize: Colorize;
  readonly input: Input;
  readonly terminal: Terminal;
}

export interface Invocation extends Context {
  readonly config: Config;
}

export interface Call extends Context {
  /** Absent for a command that sends no key. */
  readonly key: string | (() => Promise<string>) | undefined;
  readonly service: Sallyport;
  readonly url: string;
}

export interface Options {
  on(name: string): boolean;
  value(name: string): string | undefined;
  /** Returns undefined if the option was not given. */
  values(name: string): string[] | undefined;
}
