import { flagOf, settingList } from '../config.ts';
import type { Command } from './commands.ts';
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

export function helpFor({ words, takes, summary, details }: Command): string {
  const rows = settingList.map(
    ({ variable, sentence, fallback, secret }) =>
      [
        `  ${secret ? '' : `--${flagOf(variable)}`}`,
        `${sentence} ${variable}, default ${fallback}.`,
      ] as const,
  );
  return [
    `Usage: sallyport ${[...words, ...takes].join(' ')}`,
    '',
    summary,
    ...(details ? [details] : []),
    '',
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
