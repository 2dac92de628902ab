/** Builds the commander program from the table of commands: parsing, help, suggestions and usage errors. */
import {
  CommanderError,
  type OutputConfiguration,
  Command as Program,
  Option as ProgramOption,
} from 'commander';
import { flagOf, settingList } from '../config.ts';
import { version } from '../version.ts';
import type { Command, Option, Options } from './command.ts';
import { commands, groupSummaries } from './commands.ts';
import { UsageError } from './errors.ts';
import { callOptions } from './terminal/connection.ts';

/** Runs a command. Resolves with its exit code. */
export type Execute = (command: Command, parsed: Parsed) => Promise<number>;

export interface Parsed {
  readonly args: readonly string[];
  readonly options: Options;
  readonly json: boolean;
  /** Settings that were given as flags, by flag name. */
  readonly settings: Readonly<Record<string, string | undefined>>;
}

const headings = { run: 'Server commands:', call: 'API commands:' };

const settingOptions: readonly Option[] = settingList
  .filter(({ secret }) => !secret)
  .map(({ variable, sentence, fallback }) => ({
    name: flagOf(variable),
    takes: 'VALUE',
    sentence: `${sentence} ${variable}, default ${fallback}.`,
  }));

/** Settings that have no flag, because an argument list is visible to every user of the machine. */
const secretSettings = settingList
  .filter(({ secret }) => secret)
  .map(({ variable, sentence, fallback }) => `  ${variable}: ${sentence} Default ${fallback}.`);

/** `print` receives help texts. Resolves with the exit code. Throws UsageError. */
export async function parseAndRun(
  argv: readonly string[],
  print: (text: string) => void,
  execute: Execute,
): Promise<number> {
  let code = 0;
  const program = buildProgram(
    async (command, parsed) => {
      code = await execute(command, parsed);
      return code;
    },
    { writeOut: print, writeErr: print },
  );
  try {
    await program.parseAsync(normalizeHelp(argv, program), { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
  }
  return code;
}

/** Turns `help apps list` into `apps list --help`. Drops a help flag after an unknown command, which is an error. */
function normalizeHelp(argv: readonly string[], program: Program): string[] {
  const asked = argv[0] === 'help' ? [...argv.slice(1), '--help'] : [...argv];
  let parent: Program | undefined = program;
  for (const word of asked) {
    if (word.startsWith('-') || parent.commands.length === 0) return asked;
    parent = parent.commands.find((child) => child.name() === word);
    if (!parent) return asked.filter((one) => one !== '--help' && one !== '-h');
  }
  return asked;
}

/** The help of the whole program, as a terminal of 100 columns shows it. */
export function helpText(): string {
  return buildProgram(async () => 0, { getOutHelpWidth: () => 100 }).helpInformation();
}

export function buildProgram(execute: Execute, output: OutputConfiguration = {}): Program {
  const program = new Program('sallyport')
    .description('API keys for services, short-lived sessions for browsers, and rules for what each may see.')
    .usage('COMMAND [options]')
    .version(version, '--version', 'Print the version.')
    .option('--json', 'Print JSON.')
    .helpOption('-h, --help', 'Show help.')
    .helpCommand('help [COMMAND]', 'Show help for a command.')
    .configureHelp({ showGlobalOptions: true, subcommandTerm: termOf, styleTitle: sentenceCase })
    .configureOutput({ ...output, outputError: () => {} });
  reportErrors(program);
  const groups = new Map<string, Program>();
  for (const command of commands) {
    const [first, second] = command.words as [string, string?];
    const heading = headings['run' in command ? 'run' : 'call'];
    if (second === undefined) {
      add(program.command(first).helpGroup(heading), command, execute);
      continue;
    }
    const group = groups.get(first) ?? addGroup(program, first, heading);
    groups.set(first, group);
    add(group.command(second), command, execute);
  }
  return program;
}

function addGroup(program: Program, name: string, heading: string): Program {
  const group = program.command(name).helpGroup(heading).usage('COMMAND [options]').helpCommand(false);
  reportErrors(group);
  return group.description(groupSummaries[name] ?? '');
}

/** Throws a UsageError whose hint names the help of the command. Ends quietly where help was shown. */
function reportErrors(program: Program): void {
  program.exitOverride((error) => {
    if (error.exitCode === 0 || error.code === 'commander.help') throw error;
    const message = error.message.replace(/^error: /, '').replace('\n', ' ');
    throw new UsageError(message, `run \`${pathOf(program)} --help\``);
  });
}

function pathOf(program: Program): string {
  return program.parent ? `${pathOf(program.parent)} ${program.name()}` : program.name();
}

function add(program: Program, command: Command, execute: Execute): void {
  const { takes, options = [], summary, details, examples = [] } = command;
  reportErrors(program);
  program.summary(summary).description([summary, details].filter(Boolean).join('\n\n'));
  for (const name of takes) program.argument(`<${name}>`);
  for (const option of options) program.addOption(toProgramOption(option));
  if ('call' in command) {
    program.optionsGroup('Connection options:');
    for (const option of callOptions) program.addOption(toProgramOption(option));
  } else addSettings(program, command);
  if (examples.length > 0)
    program.addHelpText('after', `\nExamples:\n${examples.map((example) => `  $ ${example}`).join('\n')}`);
  program.action(async () => {
    const settings = settingOptions.map(({ name }) => [name, program.getOptionValue(attributeOf(name))]);
    await execute(command, {
      args: program.args,
      options: optionsOf(program),
      json: program.optsWithGlobals().json === true,
      settings: Object.fromEntries(settings),
    });
  });
}

/** Every server command accepts the settings; only the help of `serve` lists them. */
function addSettings(program: Program, { words }: Command): void {
  const listed = words[0] === 'serve';
  program.optionsGroup('Settings (flag, environment variable, or line in .env):');
  for (const option of settingOptions) program.addOption(toProgramOption(option).hideHelp(!listed));
  program.addHelpText(
    'after',
    listed
      ? `\nSettings without a flag:\n${secretSettings.join('\n')}`
      : '\nSettings are accepted as flags too: see `sallyport serve --help`.',
  );
}

function toProgramOption({ name, takes, oneOf, many, sentence }: Option): ProgramOption {
  const option = new ProgramOption(takes ? `--${name} <${takes}>` : `--${name}`, sentence);
  if (oneOf) option.choices(oneOf);
  if (!takes) return option;
  const check = option.parseArg;
  return option.argParser((value: string, previous: string | string[] | undefined) => {
    const checked = check ? (check(value, undefined as never) as string) : value;
    if (many) return [...((previous as string[] | undefined) ?? []), checked];
    if (previous !== undefined) throw new UsageError(`--${name} can be given only once`);
    return checked;
  });
}

function optionsOf(program: Program): Options {
  const get = (name: string): unknown => program.getOptionValue(attributeOf(name));
  return {
    on: (name) => get(name) === true,
    value: (name) => get(name) as string | undefined,
    values: (name) => (get(name) as string[] | undefined) ?? [],
  };
}

function attributeOf(name: string): string {
  return new ProgramOption(`--${name}`).attributeName();
}

/** In lists of commands: the name and what it takes, without `[options]`. */
function termOf(command: Program): string {
  const takes = command.registeredArguments.map((argument) => argument.name());
  return [command.name(), ...takes].join(' ');
}

function sentenceCase(title: string): string {
  return title.replace('Options:', 'options:').replace(/^options/, 'Options');
}
