/** Rows for people. */
import { escapeText } from '../../domain/escape.ts';
import type { Colorize } from './colors.ts';

/** Columns under a head, as wide as they need to be. */
export function table(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  paint: Colorize,
): string {
  const clean = rows.map((row) => row.map(escapeText));
  const widths = head.map((_, column) =>
    Math.max(...[head, ...clean].map((cells) => Bun.stringWidth(cells[column] ?? ''))),
  );
  const [top, ...rest] = [head, ...clean].map((cells) => inColumns(cells, widths));
  return [paint('dim', top as string), ...rest].join('\n');
}

/** Names on the left, what they stand for on the right; what stands for nothing is left out. */
export function fields(pairs: readonly (readonly [name: string, value: string | undefined])[]): string {
  const given = pairs.filter(([, value]) => value !== undefined && value !== '');
  const width = Math.max(...given.map(([name]) => name.length));
  return given.map(([name, value]) => `${name.padEnd(width)}  ${escapeText(value as string)}`).join('\n');
}

export function inColumns(cells: readonly string[], widths: readonly number[]): string {
  return cells
    .map((cell, column) => cell + ' '.repeat(Math.max(0, (widths[column] ?? 0) - Bun.stringWidth(cell))))
    .join('  ')
    .trimEnd();
}
