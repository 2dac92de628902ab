/** The command line: reads the arguments, runs the command, reports errors. */
import { type Config, readConfig } from '../config.ts';
import { redactSecrets } from '../domain/key.ts';
import type { Command, Given, Invocation } from './command.ts';
import { UsageError } from './errors.ts';
import { type Parsed, parseAndRun } from './program.ts';
import { type ErrorContext, toCliError } from './terminal/cli-error.ts';
import { colorizer } from './terminal/colors.ts';
import { openService, serviceUrl } from './terminal/connection.ts';
import { Input } from './terminal/input.ts';
import { escaping, processTerminal, type Terminal } from './terminal/terminal.ts';

/** Resolves with the exit code. */
export async function run(argv: readonly string[], bare: Terminal = processTerminal()): Promise<number> {
  const where: ErrorContext = {};
  let terminal = escaping(bare, false);
  try {
    refuseSecrets(argv);
    return await parseAndRun(
      argv,
      (text) => terminal.write(text),
      (command, parsed) => {
        terminal = escaping(bare, parsed.json);
        return execute(command, parsed, terminal, where);
      },
    );
  } catch (error) {
    return report(error, where, terminal);
  }
}

async function execute(
  command: Command,
  { args, options, json, settings }: Parsed,
  terminal: Terminal,
  where: ErrorContext,
): Promise<number> {
  const input = new Input(terminal);
  const print = (line: string) => terminal.write(`${line}\n`);
  const given: Given = { args, options, json, print, paint: colorizer(terminal), input, terminal };
  if ('run' in command) return command.run(withSettings(given, settings, where));
  const url = serviceUrl(options, terminal);
  where.url = url;
  const service = await openService(url, options, terminal, input);
  return command.call({ ...given, service, url });
}

/** Argument lists are visible to every user of the machine and end up in shell history. */
function refuseSecrets(argv: readonly string[]): void {
  const flag = argv.some((word) => /^--(key|credential|nonce)(=|$)/.test(word));
  if (!flag && argv.every((word) => redactSecrets(word) === word)) return;
  throw new UsageError(
    'a key, credential or nonce is never an argument: every user of this machine can read arguments',
    'use the environment, a file or standard input, and replace a key that you typed here',
  );
}

/** Reads the settings on first use, so that a command that needs none accepts an invalid one. */
function withSettings(given: Given, flags: Parsed['settings'], where: ErrorContext): Invocation {
  let config: Config | undefined;
  const read = () => {
    const settings = readConfig({ flags, env: given.terminal.env, envFile: '.env' });
    where.databaseUrl = settings.databaseUrl;
    return settings;
  };
  return {
    ...given,
    get config() {
      config ??= read();
      return config;
    },
  };
}

/** Prints the errors and a hint to standard error. Returns the exit code. */
function report(error: unknown, where: ErrorContext, terminal: Terminal): number {
  const { errors, hint, code } = toCliError(error, where);
  for (const line of errors) terminal.note(`sallyport: error: ${line}\n`);
  if (hint) terminal.note(`sallyport: hint: ${hint}\n`);
  return code;
}
