/** Builds the commander program from the table of commands: parsing, help, suggestions and usage errors. */
import {
  CommanderError,
  Help,
  type OutputConfiguration,
  Command as Program,
  Option as ProgramOption,
} from 'commander';
import { build } from '../config/version.ts';
import { type Command, type Context, nameOf, type Option, type Options, optionFor } from './command.ts';
import { commandsOf, type Topic, topics } from './commands.ts';
import { UsageError } from './errors.ts';
import { completeCommand, completionsFor, type SuggestValues } from './terminal/completion.ts';
import { callOptions } from './terminal/connection.ts';

/** Runs a command. Resolves with its exit code. */
export type Execute = (command: Command, parsed: Parsed) => Promise<number>;

export type Parsed = Pick<Context, 'args' | 'options' | 'json' | 'wide'>;

const headings = { server: 'Server commands:', api: 'API commands:', other: 'Other commands:' };

/** `print` receives help and completions. Resolves with the exit code. Throws UsageError for invalid arguments. */
export async function parseAndRun(
  argv: readonly string[],
  print: (text: string) => void,
  execute: Execute,
  suggestValues: SuggestValues = async () => [],
): Promise<number> {
  let code = 0;
  const isCompletion = argv[0] === completeCommand;
  const words = (isCompletion ? argv.slice(1) : argv).map(withoutAlias);
  const program = await buildProgram(
    isCompletion ? words.slice(0, -1) : words,
    async (command, parsed) => {
      code = await execute(command, parsed);
      return code;
    },
    { writeOut: print, writeErr: print },
  );
  if (isCompletion) {
    for (const line of await completionsFor(program, words, suggestValues)) print(`${line}\n`);
    return 0;
  }
  try {
    await program.parseAsync(normalizeHelp(words, program), { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
  }
  return code;
}

/** As the name of a command, `applications` is the same as `apps`. */
function withoutAlias(word: string, index: number, words: readonly string[]): string {
  return word === 'applications' && words.findIndex(isCommandName) === index ? 'apps' : word;
}

/** Global options have no values, so the first such word is the name of the command. */
function isCommandName(word: string): boolean {
  return word !== 'help' && !word.startsWith('-');
}

/** Turns `help apps list` into `apps list --help`. After an unknown command, drops --help so that the error appears. */
function normalizeHelp(argv: readonly string[], program: Program): string[] {
  const words = argv[0] === 'help' ? [...argv.slice(1), '--help'] : [...argv];
  let parent: Program | undefined = program;
  for (const word of words) {
    if (word.startsWith('-') || parent.commands.length === 0) return words;
    parent = parent.commands.find((child) => child.name() === word);
    if (!parent) return words.filter((one) => one !== '--help' && one !== '-h');
  }
  return words;
}

/** The help of the whole program, as a terminal of 100 columns shows it. */
export async function helpText(): Promise<string> {
  const program = await buildProgram([], async () => 0, { getOutHelpWidth: () => 100 });
  return program.helpInformation();
}

/** Only the commands that begin with the first of the words can be run. Of the others, only the summary is known. */
async function buildProgram(
  words: readonly string[],
  execute: Execute,
  output: OutputConfiguration,
): Promise<Program> {
  const program = new Program('sallyport')
    .description(
      'Run and manage Sallyport: API keys for services, short-lived keys for browsers, and rules for the data that each may see.',
    )
    .usage('COMMAND [options]')
    .version(build(), '--version', 'Print the version.')
    .option('--json', 'Print JSON.')
    .option('--wide', 'Print whole tables, also if they are wider than the terminal.')
    .helpOption('-h, --help', 'Show help.')
    .commandsGroup(headings.other)
    .helpCommand('help [COMMAND]', 'Show help for a command.')
    .configureHelp({ showGlobalOptions: true, formatHelp, subcommandTerm: (command) => command.name() })
    .configureOutput({ ...output, outputError: () => {} });
  reportErrors(program);
  const word = words.find(isCommandName);
  for (const [name, topic] of Object.entries(topics)) {
    if (name === word) await addTopic(program, name, topic, execute);
    else program.command(name).helpGroup(headings[topic.kind]).description(topic.summary);
  }
  return program;
}

async function addTopic(program: Program, name: string, topic: Topic, execute: Execute): Promise<void> {
  const heading = headings[topic.kind];
  let group: Program | undefined;
  for (const command of await commandsOf(name, topic)) {
    if (nameOf(command) === name) {
      await add(program.command(command.usage).helpGroup(heading), command, execute);
      continue;
    }
    group ??= addGroup(program, name, heading, topic.summary);
    const { usage, isDefault = false } = command;
    await add(group.command(usage.slice(name.length + 1), { isDefault }), command, execute);
  }
}

function addGroup(program: Program, name: string, heading: string, summary: string): Program {
  const group = program.command(name).helpGroup(heading).usage('COMMAND [options]').helpCommand(false);
  reportErrors(group);
  return group.description(summary);
}

/** Turns commander's errors into a UsageError that names the command and its help. A request for help is no error. */
function reportErrors(program: Program): void {
  program.exitOverride((error) => {
    if (error.exitCode === 0 || error.code === 'commander.help') throw error;
    const message = withSuggestion(error.message.replace(/^error: /, '').replace('\n', ' '), program);
    const name = program.parent ? `${pathOf(program).slice('sallyport '.length)}: ` : '';
    throw new UsageError(name + message, `run \`${pathOf(program)} --help\``);
  });
}

/** Suggests the option for a field of the API. Drops commander's suggestion of one with another first letter. */
function withSuggestion(message: string, program: Program): string {
  const [error = '', suggestion = ''] = message.split(' (Did you mean ');
  const names = program.options.map(({ long }) => long?.slice(2) ?? '');
  const typed = /^unknown option '--([^'=]+)/.exec(error)?.[1];
  if (typed === undefined) return message;
  const option = optionFor(typed, names);
  if (option) return `${error} (Did you mean --${option}?)`;
  if (!program.parent && callOptions.some(({ name }) => name === typed))
    return `--${typed} must follow the command`;
  return suggestion.replace(/^(one of )?--/, '').startsWith(typed[0] as string) ? message : error;
}

async function add(program: Program, command: Command, execute: Execute): Promise<void> {
  const { choices, options = [], summary, details, examples = [] } = command;
  reportErrors(program);
  program.summary(summary).description([summary, details].filter(Boolean).join('\n\n'));
  if (choices) program.registeredArguments[0]?.choices(choices);
  for (const option of options) program.addOption(toProgramOption(option, program));
  if ('call' in command) {
    program.optionsGroup('Connection options:');
    const connection = command.withoutKey
      ? callOptions.filter(({ name }) => !name.startsWith('key-'))
      : callOptions;
    for (const option of connection) program.addOption(toProgramOption(option, program));
  } else if (!command.standalone) await addSettings(program, command);
  if (examples.length > 0)
    program.addHelpText('after', `\nExamples:\n${examples.map((example) => `  $ ${example}`).join('\n')}`);
  program.action(async () => {
    const { json = false, wide = false } = program.optsWithGlobals();
    await execute(command, { args: program.args, options: optionsOf(program), json, wide });
  });
}

/** Every server command accepts the settings; only the help of `serve` lists them. */
async function addSettings(program: Program, { usage }: Command): Promise<void> {
  const { flagOf, settingList } = await import('../config/settings.ts');
  const listed = usage === 'serve';
  program.optionsGroup('Settings (option, environment variable, or line in .env):');
  // A secret has no option, because an argument list is visible to every user of the machine.
  for (const { variable, description, fallback } of settingList.filter(({ secret }) => !secret)) {
    const text = `${description}\n[env: ${variable}, default: ${fallback}]`;
    const option = { name: flagOf(variable), value: 'VALUE', description: text };
    program.addOption(toProgramOption(option, program).hideHelp(!listed));
  }
  if (!listed) {
    const pointer =
      'Settings such as --data-dir and --database-url work here too: see `sallyport serve --help`.';
    program.addHelpText('after', `\n${pointer}`);
    return;
  }
  const secrets = settingList.filter(({ secret }) => secret);
  const items = secrets.map(({ variable, description }) => describeBelow(variable, description, 80));
  program.addHelpText('after', `\nEnvironment variables without an option:\n${items.join('\n')}`);
}

function toProgramOption(
  { name, value, choices, repeatable, description }: Option,
  program: Program,
): ProgramOption {
  const option = new ProgramOption(value ? `--${name} <${value}>` : `--${name}`, description);
  if (choices) option.choices(choices);
  if (!value) return option;
  const check = option.parseArg;
  return option.argParser((text: string, previous: string | string[] | undefined) => {
    const checked = check ? (check(text, undefined as never) as string) : text;
    if (repeatable) return [...((previous as string[] | undefined) ?? []), checked];
    if (previous !== undefined) program.error(`--${name} can be given only once`);
    return checked;
  });
}

function optionsOf(program: Program): Options {
  const get = (name: string): unknown =>
    program.getOptionValue(new ProgramOption(`--${name}`).attributeName());
  return {
    on: (name) => get(name) === true,
    value: (name) => get(name) as string | undefined,
    values: (name) => get(name) as string[] | undefined,
  };
}

/** If the first column would be wider, descriptions are printed below the terms. */
const maxTermWidth = 32;

/** Usage, description, commands, then options. Commander prints options before commands. */
function formatHelp(command: Program, helper: Help): string {
  const helpWidth = helper.helpWidth ?? 80;
  const width = helper.padWidth(command, helper);
  const list = (heading: string, items: readonly (readonly [term: string, description: string])[]) =>
    helper.formatItemList(
      heading,
      items.map(([term, description]) =>
        width > maxTermWidth
          ? describeBelow(term, description, helpWidth)
          : helper.formatItem(term, width, description, helper),
      ),
      helper,
    );
  const listOptions = (heading: string, options: readonly ProgramOption[]) =>
    list(
      heading,
      options.map((option) => [helper.optionTerm(option), helper.optionDescription(option)]),
    );
  const children = helper.visibleCommands(command);
  const groups = helper.groupItems([], children, (child) => child.helpGroup() || 'Commands:');
  const options = [...helper.visibleOptions(command), ...helper.visibleGlobalOptions(command)];
  const isGlobal = ({ long }: ProgramOption) =>
    long === '--json' || long === '--wide' || long === '--help' || !command.parent;
  const own = options.filter((option) => !isGlobal(option) && option.long !== '--version');
  const ownGroups = helper.groupItems([], own, (option) => option.helpGroupHeading ?? 'Options:');
  return [
    `Usage: ${helper.commandUsage(command)}`,
    '',
    helper.boxWrap(helper.commandDescription(command), helpWidth),
    '',
    ...[...groups].flatMap(([heading, items]) =>
      list(
        heading,
        items.map((child) => [child.name(), helper.subcommandDescription(child)]),
      ),
    ),
    ...[...ownGroups].flatMap(([heading, items]) => listOptions(heading, items)),
    ...listOptions(command.parent ? 'Global options:' : 'Options:', options.filter(isGlobal)),
    ...(children.length > 0 ? [`Run \`${pathOf(command)} COMMAND --help\` for help on a command.`, ''] : []),
  ].join('\n');
}

function describeBelow(term: string, description: string, width: number): string {
  return `  ${term}\n${new Help().boxWrap(description, width - 6).replace(/^/gm, '      ')}`;
}

/** The command line up to this command, such as `sallyport apps list`. */
function pathOf(program: Program): string {
  return program.parent ? `${pathOf(program.parent)} ${program.name()}` : program.name();
}
