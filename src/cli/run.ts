/** The command line: finds the command, reads what it was given, and runs it. */
import { parseArgs } from 'node:util';
import { type Config, flagOf, readConfig, settingList } from '../config.ts';
import { withoutSecrets } from '../domain/key.ts';
import { version } from '../version.ts';
import { callOptions, openService, serviceUrl } from './call.ts';
import { type Command, type Given, type Invocation, type Options, UsageError } from './command.ts';
import { commands } from './commands.ts';
import { complaintOf, type Whereabouts } from './complaint.ts';
import { helpFor, overview, usage } from './help.ts';
import { Input } from './input.ts';
import { painter } from './paint.ts';
import { escaping, processTerminal, type Terminal } from './terminal.ts';

const settingFlags = settingList.filter(({ secret }) => !secret).map(({ variable }) => flagOf(variable));
const ownOptions = [...callOptions, ...commands.flatMap(({ options = [] }) => options)];

const options = {
  ...Object.fromEntries(
    ownOptions.map(({ name, takes }) => [
      name,
      takes ? { type: 'string' as const, multiple: true } : { type: 'boolean' as const },
    ]),
  ),
  ...Object.fromEntries(settingFlags.map((flag) => [flag, { type: 'string' as const }])),
  json: { type: 'boolean' as const },
  help: { type: 'boolean' as const, short: 'h' },
  version: { type: 'boolean' as const },
};

type Values = Record<string, string | boolean | (string | boolean)[] | undefined>;

export async function run(argv: readonly string[], bare: Terminal = processTerminal()): Promise<number> {
  const where: Whereabouts = {};
  let terminal = escaping(bare, false);
  try {
    refuseSecrets(argv);
    const { values, positionals } = asking(parse(argv));
    terminal = escaping(bare, values.json === true);
    const print = (line: string) => terminal.write(`${line}\n`);
    if (values.version) return say(print, version);
    const command = commands.find(({ words }) => words.every((word, index) => positionals[index] === word));
    const isGroup = positionals.length <= 1 && commands.some(({ words }) => words[0] === positionals[0]);
    if (positionals.length === 0 || (values.help && (command || isGroup))) {
      return say(print, command ? helpFor(command) : overview(positionals[0]));
    }
    if (!command) throw unknownCommand(positionals);
    const args = positionals.slice(command.words.length);
    if (args.length !== command.takes.length) throw new UsageError(`usage: sallyport ${usage(command)}`);
    const own = optionsOf(command, values);
    const input = new Input(terminal);
    const output = { json: values.json === true, print, paint: painter(terminal) };
    const given = { args, options: own, input, terminal, ...output };
    if ('run' in command) return await command.run(withSettings(given, values, where));
    const url = serviceUrl(own, terminal);
    where.url = url;
    const service = await openService(url, own, terminal, input);
    return await command.call({ ...given, service, url });
  } catch (error) {
    return explain(error, where, terminal);
  }
}

/** Everyone on the machine can read an argument list, and a shell remembers it. */
function refuseSecrets(argv: readonly string[]): void {
  const flag = argv.some((word) => /^--(key|credential|nonce)(=|$)/.test(word));
  if (!flag && argv.every((word) => withoutSecrets(word) === word)) return;
  throw new UsageError(
    'a key, credential or nonce is never an argument: everyone on the machine can see those',
    'use the environment, a file or standard input; a key that was typed here should be replaced',
  );
}

interface Parsed {
  readonly values: Values;
  readonly positionals: readonly string[];
}

/** `help tokens` is another way to say `tokens --help`. */
function asking({ values, positionals }: Parsed): Parsed {
  const [first, ...rest] = positionals;
  return first === 'help'
    ? { values: { ...values, help: true }, positionals: rest }
    : { values, positionals };
}

function parse(argv: readonly string[]): Parsed {
  try {
    return parseArgs({ args: [...argv], options, allowPositionals: true });
  } catch (error) {
    throw new UsageError((error as Error).message.split('\n')[0] as string);
  }
}

function unknownCommand(positionals: readonly string[]): UsageError {
  const [first] = positionals;
  const kin = commands.filter(({ words }) => words[0] === first && words.length > 1);
  const hint = `sallyport ${first} takes ${kin.map(({ words }) => words[1]).join(', ')}`;
  return new UsageError(`there is no command "${positionals.join(' ')}"`, kin.length > 0 ? hint : undefined);
}

/** Refuses what belongs to other commands, and twice what is taken once. */
function optionsOf(command: Command, given: Values): Options {
  const name = `sallyport ${command.words.join(' ')}`;
  const remote = 'call' in command;
  const takes = [...(command.options ?? []), ...(remote ? callOptions : [])];
  const all = [...ownOptions.map((option) => option.name), ...(remote ? settingFlags : [])];
  const foreign = all.find((one) => given[one] !== undefined && !takes.some((option) => option.name === one));
  if (foreign) throw new UsageError(`${name} does not take --${foreign}`);
  const texts = (one: string) => [given[one] ?? []].flat().filter((value) => typeof value === 'string');
  const twice = takes.find((option) => !option.many && texts(option.name).length > 1);
  if (twice) throw new UsageError(`--${twice.name} is given once`);
  return { on: (one) => given[one] === true, value: (one) => texts(one)[0], values: texts };
}

/** Settings are read when they are asked for: a command that needs none does not mind a wrong one. */
function withSettings(given: Given, values: Values, where: Whereabouts): Invocation {
  let config: Config | undefined;
  const read = () => {
    const flags = values as Record<string, string | undefined>;
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

function say(print: (line: string) => void, text: string): number {
  print(text);
  return 0;
}

/** Lines that say what is wrong, one that says what to do, and the exit code. */
function explain(error: unknown, where: Whereabouts, terminal: Terminal): number {
  const { errors, hint, code } = complaintOf(error, where);
  for (const line of errors) terminal.note(`sallyport: error: ${line}\n`);
  if (hint) terminal.note(`sallyport: hint: ${hint}\n`);
  return code;
}
