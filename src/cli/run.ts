/** The command line: finds the command, reads the settings, and turns what goes wrong into a line and an exit code. */
import { parseArgs } from 'node:util';
import { type Config, ConfigError, flagOf, readConfig, settingList } from '../config.ts';
import { Failure } from '../domain/error.ts';
import { WrongMasterKey } from '../store/keyring.ts';
import { SchemaTooNew } from '../store/migrate.ts';
import { version } from '../version.ts';
import { type Command, type Options, UsageError } from './command.ts';
import { commands } from './commands.ts';
import { helpFor, overview, usage } from './help.ts';
import { databasePlace } from './place.ts';

const ownOptions = commands.flatMap(({ options = [] }) => options);

const options = {
  ...Object.fromEntries(
    ownOptions.map(({ name, takes, many }) => [
      name,
      { type: takes ? ('string' as const) : ('boolean' as const), multiple: many === true },
    ]),
  ),
  ...Object.fromEntries(
    settingList
      .filter(({ secret }) => !secret)
      .map(({ variable }) => [flagOf(variable), { type: 'string' as const }]),
  ),
  json: { type: 'boolean' as const },
  help: { type: 'boolean' as const, short: 'h' },
  version: { type: 'boolean' as const },
};

/** What a command line has around it. */
export interface Surroundings {
  readonly env: Record<string, string | undefined>;
  readonly print: (line: string) => void;
  readonly complain: (line: string) => void;
}

const thisProcess: Surroundings = {
  env: process.env,
  print: (line) => process.stdout.write(`${line}\n`),
  complain: (line) => process.stderr.write(`${line}\n`),
};

export async function run(argv: readonly string[], around: Surroundings = thisProcess): Promise<number> {
  const { print } = around;
  let config: Config | undefined;
  try {
    const { values, positionals } = parse(argv);
    if (values.version) return say(print, version);
    const command = commands.find(({ words }) => words.every((word, index) => positionals[index] === word));
    if (values.help || positionals.length === 0) return say(print, command ? helpFor(command) : overview());
    if (!command) throw new UsageError(`there is no command "${positionals.join(' ')}"`);
    const flags = values as Record<string, string | undefined>;
    config = readConfig({ flags, env: around.env, envFile: '.env' });
    const args = positionals.slice(command.words.length);
    if (args.length !== command.takes.length) throw new UsageError(`usage: sallyport ${usage(command)}`);
    const own = optionsOf(command, values);
    return await command.run({ config, args, options: own, json: values.json === true, print });
  } catch (error) {
    return explain(error, config, around);
  }
}

function parse(argv: readonly string[]) {
  try {
    return parseArgs({ args: [...argv], options, allowPositionals: true });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

type Values = Record<string, string | boolean | (string | boolean)[] | undefined>;

function optionsOf({ words, options = [] }: Command, given: Values): Options {
  const taken = options.map(({ name }) => name);
  const foreign = ownOptions.find(({ name }) => given[name] !== undefined && !taken.includes(name));
  if (foreign) throw new UsageError(`sallyport ${words.join(' ')} does not take --${foreign.name}`);
  const texts = (name: string) => [given[name] ?? []].flat().filter((value) => typeof value === 'string');
  return { on: (name) => given[name] === true, value: (name) => texts(name)[0], values: texts };
}

function say(print: (line: string) => void, text: string): number {
  print(text);
  return 0;
}

/** One line that says what is wrong, one that says what to do, and the exit code. */
function explain(error: unknown, config: Config | undefined, { complain }: Surroundings): number {
  const [message, hint, code] = lines(error, config);
  complain(`sallyport: error: ${message}`);
  if (hint) complain(`sallyport: hint: ${hint}`);
  return code;
}

const outOfReach = 'check that the database is there, and can be reached and written to from here';

function lines(
  error: unknown,
  config: Config | undefined,
): [message: string, hint: string | undefined, code: number] {
  if (error instanceof UsageError) return [error.message, 'sallyport --help lists the commands', 2];
  if (error instanceof ConfigError) return [error.message, 'sallyport serve --help lists the settings', 2];
  if (error instanceof SchemaTooNew) return [error.message, undefined, 1];
  if (error instanceof WrongMasterKey) {
    return [error.message, 'give the key that was in use when the data was written', 1];
  }
  if (error instanceof Failure && error.code === 'unavailable') {
    const where = config ? ` ${databasePlace(config.databaseUrl)}` : '';
    return [`DATABASE_URL${where}: ${error.message}`, outOfReach, 1];
  }
  return [(error as Error)?.stack ?? String(error), undefined, 1];
}
