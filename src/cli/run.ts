/** The command line: reads the arguments, runs the command, reports errors. */
import { Sallyport } from '../../sdk/src/sallyport.ts';
import type { Config } from '../config/settings.ts';
import { escapeJson } from '../domain/escape.ts';
import { redactSecrets } from '../domain/key.ts';
import { type Command, type Context, type Invocation, nameOf, type Options } from './command.ts';
import { Cancelled, UsageError } from './errors.ts';
import { type Parsed, parseAndRun } from './program.ts';
import type { ErrorContext } from './terminal/cli-error.ts';
import { keyOf, serviceUrl } from './terminal/connection.ts';
import { Input } from './terminal/input.ts';
import { colorizer, escaping, processTerminal, type Terminal } from './terminal/terminal.ts';

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
      (placeholder, typed, words) => suggestValues(placeholder, typed, words, terminal),
    );
  } catch (error) {
    return report(error, errorContext, terminal, argv.includes('--json'));
  }
}

async function execute(
  command: Command,
  parsed: Parsed,
  terminal: Terminal,
  errorContext: ErrorContext,
): Promise<number> {
  errorContext.command = nameOf(command);
  const { options, json } = parsed;
  errorContext.optionNames = command.options?.map(({ name }) => name) ?? [];
  errorContext.options = options;
  const input = new Input(terminal);
  const print = (line: string) => terminal.write(`${line}\n`);
  const printResult: Context['printResult'] = (value, text, exitCode = 0) => {
    print(json ? JSON.stringify(value) : text);
    return exitCode;
  };
  const context: Context = { ...parsed, print, printResult, colorize: colorizer(terminal), input, terminal };
  if ('run' in command)
    return command.standalone ? command.run(context) : command.run(await withSettings(context, errorContext));
  const url = serviceUrl(options, terminal);
  errorContext.url = url;
  const key = command.withoutKey ? undefined : await keyOf(options, terminal, input);
  const service = new Sallyport({ url, ...(key !== undefined && { key }) });
  return command.call({ ...context, key, service, url });
}

/**
 * Throws if an argument is a secret: all users of the machine can read arguments, and the shell history stores them.
 */
function rejectSecrets(argv: readonly string[]): void {
  const flag = argv.some((word) => /^--(key|credential|nonce)(=|$)/.test(word));
  if (!flag && argv.every((word) => redactSecrets(word) === word)) return;
  throw new UsageError(
    'keys, credentials and nonces cannot be arguments, because every user of this machine can read those',
    'pass it by environment, file or standard input, and regenerate a key that you typed here',
  );
}

/** Reads the settings on first use, so that an invalid setting does not stop a command that needs none. */
async function withSettings(context: Context, errorContext: ErrorContext): Promise<Invocation> {
  const { flagOf, readConfig, settingList } = await import('../config/settings.ts');
  let config: Config | undefined;
  const read = () => {
    const names = settingList.map(({ variable }) => flagOf(variable));
    const flags = Object.fromEntries(names.map((name) => [name, context.options.value(name)]));
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

/** Prints the errors and a hint to standard error, as JSON with --json. Returns the exit code. */
async function report(
  error: unknown,
  errorContext: ErrorContext,
  terminal: Terminal,
  json: boolean,
): Promise<number> {
  if (error instanceof Cancelled) {
    terminal.writeError('Cancelled.\n');
    return 1;
  }
  const { toCliError } = await import('./terminal/cli-error.ts');
  const { errors, hint, code, problem } = toCliError(error, errorContext);
  if (json) {
    terminal.writeError(`${escapeJson(JSON.stringify({ errors, hint, exit_code: code, problem }))}\n`);
    return code;
  }
  for (const line of errors) terminal.writeError(`sallyport: error: ${line}\n`);
  if (hint) terminal.writeError(`sallyport: hint: ${hint}\n`);
  return code;
}

/** Maximum number of milliseconds that a shell waits for names. */
const timeout = 2000;

/**
 * Lines of the form "value TAB description" for a placeholder such as APP. `words` is the whole command line. Returns
 * an empty list if the service cannot be reached.
 */
async function suggestValues(
  placeholder: string,
  typed: string,
  words: readonly string[],
  terminal: Terminal,
): Promise<string[]> {
  if (placeholder === 'PERMISSION') {
    const { builtIn, descriptionOf } = await import('../domain/permission.ts');
    return builtIn.map((name) => `${name}\t${descriptionOf(name)}`);
  }
  if (placeholder !== 'APP' && placeholder !== 'DESTINATION') return [];
  try {
    return await storedNames(placeholder, typed, optionsIn(words), terminal);
  } catch {
    return [];
  }
}

async function storedNames(
  placeholder: 'APP' | 'DESTINATION',
  typed: string,
  options: Options,
  terminal: Terminal,
): Promise<string[]> {
  // The key cannot come from standard input, which is the user's terminal.
  if (options.on('key-stdin') || options.value('key-file') === '-') return [];
  const url = serviceUrl(options, terminal);
  const key = await keyOf(options, terminal, new Input(terminal));
  const service = new Sallyport({ url, key, timeout, retries: 0 });
  const query = { size: 100, ...(typed !== '' && { name: typed }) };
  if (placeholder === 'DESTINATION')
    return (await service.destinations.list(query)).data.map(({ name, origin }) => `${name}\t${origin}`);
  const { data } = await service.applications.list(query);
  return data.map(({ name, type, id }) => `${name}\t${type} ${id}`);
}

/** The options of an incomplete command line. */
function optionsIn(words: readonly string[]): Options {
  const value = (name: string) => {
    const at = words.indexOf(`--${name}`);
    const joined = words.find((word) => word.startsWith(`--${name}=`));
    return at >= 0 ? words[at + 1] : joined?.slice(name.length + 3);
  };
  return { on: (name) => words.includes(`--${name}`), value, values: () => undefined };
}
