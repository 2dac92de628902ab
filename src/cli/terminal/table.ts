import { escapeText } from '../../domain/escape.ts';
import type { Colorize } from './colors.ts';

export function table(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  colorize: Colorize,
): string {
  const escaped = rows.map((row) => row.map(escapeText));
  const widths = head.map((_, column) =>
    Math.max(...[head, ...escaped].map((cells) => Bun.stringWidth(cells[column] ?? ''))),
  );
  const [top, ...rest] = [head, ...escaped].map((cells) => inColumns(cells, widths));
  return [colorize('dim', top as string), ...rest].join('\n');
}

/** One "name  value" line per pair; pairs with an empty value are left out. */
export function fields(pairs: readonly (readonly [name: string, value: string | undefined])[]): string {
  const present = pairs.filter(([, value]) => value !== undefined && value !== '');
  const width = Math.max(...present.map(([name]) => name.length));
  return present.map(([name, value]) => `${name.padEnd(width)}  ${escapeText(value as string)}`).join('\n');
}

export function inColumns(cells: readonly string[], widths: readonly number[]): string {
  return cells
    .map((cell, column) => cell + ' '.repeat(Math.max(0, (widths[column] ?? 0) - Bun.stringWidth(cell))))
    .join('  ')
    .trimEnd();
}
