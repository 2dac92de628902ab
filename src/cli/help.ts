import { flagOf, settingList } from '../config.ts';
import { callOptions } from './call.ts';
import type { Command, Option } from './command.ts';
import { commands } from './commands.ts';

/** All commands, or those that begin with a word. */
export function overview(first?: string): string {
  const asked = commands.filter(({ words }) => words[0] === first);
  const shown = asked.length > 0 ? asked : commands;
  const width = Math.max(...shown.map((command) => brief(command).length));
  const block = (title: string, some: readonly Command[]) =>
    some.length === 0
      ? []
      : [title, ...some.map((one) => `  ${brief(one).padEnd(width)}  ${one.summary}`), ''];
  return [
    'Sallyport: API credentials and short-lived browser sessions.',
    '',
    'Usage: sallyport COMMAND [--json] [OPTION …]',
    '',
    ...block(
      'Run the service, and look after its data:',
      shown.filter((command) => 'run' in command),
    ),
    ...block(
      'Call a running service:',
      shown.filter((command) => 'call' in command),
    ),
    'sallyport help COMMAND says more about a command, and so does COMMAND --help; help serve lists the settings.',
  ].join('\n');
}

function brief({ words, takes }: Command): string {
  return [...words, ...takes].join(' ');
}

/** Its words, what it takes, and what it may be given. */
export function usage({ words, takes, options = [] }: Command): string {
  return [
    ...words,
    ...takes,
    ...options.map((option) => `[${written(option)}${option.many ? ' …' : ''}]`),
  ].join(' ');
}

function written({ name, takes }: Option): string {
  return takes ? `--${name} ${takes}` : `--${name}`;
}

export function helpFor(command: Command): string {
  const { options = [], summary, details } = command;
  return [
    `Usage: sallyport ${usage(command)}`,
    '',
    summary,
    ...(details ? [details] : []),
    '',
    ...(options.length > 0 ? [optionRows(options), ''] : []),
    ...('call' in command
      ? ['Where to call, and with which key:', optionRows(callOptions)]
      : ['Settings, as a flag, an environment variable, or a line in .env:', settingRows()]),
    '',
    '  --json  Print JSON for programs.',
  ].join('\n');
}

function optionRows(options: readonly Option[]): string {
  return columns(options.map((option) => [`  ${written(option)}`, option.sentence]));
}

function settingRows(): string {
  return columns(
    settingList.map(({ variable, sentence, fallback, secret }) => [
      `  ${secret ? '' : `--${flagOf(variable)}`}`,
      `${sentence} ${variable}, default ${fallback}.`,
    ]),
  );
}

function columns(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([left]) => left.length)) + 2;
  return rows.map(([left, right]) => left.padEnd(width) + right).join('\n');
}
