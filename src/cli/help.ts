import { flagOf, settingList } from '../config.ts';
import type { Command, Option } from './command.ts';
import { commands } from './commands.ts';

export function overview(): string {
  const rows = commands.map(
    ({ words, takes, summary }) => [`  ${[...words, ...takes].join(' ')}`, summary] as const,
  );
  return [
    'Sallyport: API credentials and short-lived browser sessions.',
    '',
    'Usage: sallyport COMMAND [--json] [--SETTING VALUE …]',
    '',
    columns(rows),
    '',
    'sallyport COMMAND --help says more about a command; serve --help lists the settings.',
  ].join('\n');
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
  const rows = settingList.map(
    ({ variable, sentence, fallback, secret }) =>
      [
        `  ${secret ? '' : `--${flagOf(variable)}`}`,
        `${sentence} ${variable}, default ${fallback}.`,
      ] as const,
  );
  const own = options.map((option) => [`  ${written(option)}`, option.sentence] as const);
  return [
    `Usage: sallyport ${usage(command)}`,
    '',
    summary,
    ...(details ? [details] : []),
    '',
    ...(own.length > 0 ? [columns(own), ''] : []),
    'Settings, as a flag, an environment variable, or a line in .env:',
    columns(rows),
    '',
    '  --json  Print JSON for programs.',
  ].join('\n');
}

function columns(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([left]) => left.length)) + 2;
  return rows.map(([left, right]) => left.padEnd(width) + right).join('\n');
}
