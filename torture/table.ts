/** The results as one table for people, and as what is kept of a run. */
import type { Result } from './runner.ts';

/** What is written to `torture/results.json`. */
export interface Kept {
  readonly seed: number;
  readonly commit: string;
  readonly rows: readonly KeptRow[];
}

export interface KeptRow {
  readonly name: string;
  readonly database: string;
  readonly must: string;
  readonly measured: string;
  readonly shortfalls: readonly string[];
  readonly seconds: number;
}

export function kept(results: readonly Result[], seed: number, commit: string): Kept {
  const rows = results.map(({ row, database, figures, shortfalls, seconds }) => ({
    name: row.name,
    database,
    must: row.must,
    measured: measured(figures),
    shortfalls,
    seconds: Number(seconds.toFixed(1)),
  }));
  return { seed, commit, rows };
}

function measured(figures: Result['figures']): string {
  return Object.entries(figures)
    .map(([what, value]) => `${typeof value === 'number' ? value.toLocaleString('en') : value} ${what}`)
    .join(', ');
}

const columns: readonly (readonly [title: string, widest: number])[] = [
  ['', 4],
  ['test', 14],
  ['database', 10],
  ['must show', 46],
  ['measured', 46],
  ['time', 8],
  ['seed', 10],
  ['commit', 10],
];

/** Long cells go on in the next line. */
export function table({ seed, commit, rows }: Kept): string {
  const cells = rows.map((row) => [
    row.shortfalls.length === 0 ? 'ok' : 'FAIL',
    row.name,
    row.database,
    row.must,
    row.measured,
    `${row.seconds.toFixed(1)} s`,
    String(seed),
    commit,
  ]);
  const titles = columns.map(([title]) => title);
  const lines = [titles, ...cells].flatMap((row) => {
    const wrapped = row.map((cell, column) => wrap(cell, columns[column]?.[1] ?? 0));
    const height = Math.max(...wrapped.map(({ length }) => length));
    return Array.from({ length: height }, (_, line) => wrapped.map((parts) => parts[line] ?? ''));
  });
  const widths = columns.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)));
  return lines
    .map((line) => line.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  '))
    .map((line) => line.trimEnd())
    .join('\n');
}

function wrap(text: string, widest: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= widest)
      lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}
