/** The command line: reads the arguments, runs the command, reports errors. */
import { type Config, readConfig } from '../config.ts';
import { redactSecrets } from '../domain/key.ts';
import type { Command, Context, Invocation } from './command.ts';
import { UsageError } from './errors.ts';
import { type Parsed, parseAndRun } from './program.ts';
import { type ErrorContext, toCliError } from './terminal/cli-error.ts';
import { colorizer } from './terminal/colors.ts';
import { openService, serviceUrl } from './terminal/connection.ts';
import { Input } from './terminal/input.ts';
import { escaping, processTerminal, type Terminal } from './terminal/terminal.ts';

/** Resolves with the exit code. */
export async function run(argv: readonly string[], output: Terminal = processTerminal()): Promise<number> {
  const errorContext: ErrorContext = {};
  let terminal = escaping(output, false);
  try {
    rejectSecrets(argv);
    return await parseAndRun(
      argv,
      (text) => terminal.write(text),
      (command, parsed) => {
        terminal = escaping(output, parsed.json);
        return execute(command, parsed, terminal, errorContext);
      },
    );
  } catch (error) {
    return report(error, errorContext, terminal);
  }
}

async function execute(
  command: Command,
  { args, options, json, settings }: Parsed,
  terminal: Terminal,
  errorContext: ErrorContext,
): Promise<number> {
  errorContext.words = command.words;
  const input = new Input(terminal);
  const print = (line: string) => terminal.write(`${line}\n`);
  const context: Context = { args, options, json, print, colorize: colorizer(terminal), input, terminal };
  if ('run' in command) return command.run(withSettings(context, settings, errorContext));
  const url = serviceUrl(options, terminal);
  errorContext.url = url;
  const service = await openService(url, options, terminal, input);
  return command.call({ ...context, service, url });
}

/** Argument lists are visible to every user of the machine and end up in shell history. */
function rejectSecrets(argv: readonly string[]): void {
  const flag = argv.some((word) => /^--(key|credential|nonce)(=|$)/.test(word));
  if (!flag && argv.every((word) => redactSecrets(word) === word)) return;
  throw new UsageError(
    'keys, credentials and nonces cannot be arguments, because every user of this machine can read those',
    'pass it by environment, file or standard input, and regenerate a key that you typed here',
  );
}

/** Reads the settings on first use, so that a command that needs none accepts an invalid one. */
function withSettings(context: Context, flags: Parsed['settings'], errorContext: ErrorContext): Invocation {
  let config: Config | undefined;
  const read = () => {
    const settings = readConfig({ flags, env: context.terminal.env, envFile: '.env' });
    errorContext.databaseUrl = settings.databaseUrl;
    return settings;
  };
  return {
    ...context,
    get config() {
      config ??= read();
      return config;
    },
  };
}

/** Prints the errors and a hint to standard error. Returns the exit code. */
function report(error: unknown, errorContext: ErrorContext, terminal: Terminal): number {
  const { errors, hint, code } = toCliError(error, errorContext);
  for (const line of errors) terminal.writeError(`sallyport: error: ${line}\n`);
  if (hint) terminal.writeError(`sallyport: hint: ${hint}\n`);
  return code;
}
