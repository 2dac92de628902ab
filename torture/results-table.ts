/** The results as a printed table and as stored JSON. */
import type { Result } from './runner.ts';

/** The contents of `torture/results.json`. */
export interface StoredResults {
  readonly rows: readonly StoredRow[];
}

export interface StoredRow {
  readonly name: string;
  readonly database: string;
  readonly requirement: string;
  readonly measured: string;
  readonly failures: readonly string[];
  /** Why the row did not finish. */
  readonly unfinished?: string;
  readonly seconds: number;
  /** Of the database, if they are not those of the project. */
  readonly versions?: string;
  readonly seed: number;
  readonly commit: string;
}

export type Verdict = 'holds' | 'FAILS' | 'not finished';

/** A row that did not finish is neither a success nor a broken guarantee. */
export function verdictOf({ failures, unfinished }: Pick<StoredRow, 'failures' | 'unfinished'>): Verdict {
  if (failures.length > 0) return 'FAILS';
  return unfinished === undefined ? 'holds' : 'not finished';
}

export function toStored(results: readonly Result[], seed: number, commit: string): StoredRow[] {
  return results.map(({ row, database, figures, failures, unfinished, seconds, versions }) => ({
    name: row.name,
    database,
    requirement: row.requirement,
    measured: formatFigures(figures),
    failures,
    ...(unfinished !== undefined && { unfinished }),
    ...(versions !== undefined && { versions }),
    seconds: Number(seconds.toFixed(1)),
    seed,
    commit,
  }));
}

/** Replaces the rows that ran again. The order is that of `names`; rows with other names are dropped. */
export function merge(
  { rows }: StoredResults,
  newer: readonly StoredRow[],
  names: readonly string[],
): StoredResults {
  const older = rows.filter(
    ({ name, database }) => !newer.some((row) => row.name === name && row.database === database),
  );
  const all = [...older, ...newer].filter(({ name }) => names.includes(name));
  return { rows: all.sort((a, b) => names.indexOf(a.name) - names.indexOf(b.name)) };
}

function formatFigures(figures: Result['figures']): string {
  return Object.entries(figures)
    .map(([what, value]) => `${typeof value === 'number' ? value.toLocaleString('en') : value} ${what}`)
    .join(', ');
}

const columns: readonly (readonly [title: string, widest: number])[] = [
  ['', 12],
  ['test', 14],
  ['database', 10],
  ['requirement', 46],
  ['measured', 46],
  ['time', 8],
  ['seed', 10],
  ['commit', 10],
];

/** Wraps long cells. */
export function table(rows: readonly StoredRow[]): string {
  const cells = rows.map((row) => [
    verdictOf(row),
    row.name,
    row.database,
    row.requirement,
    row.measured,
    `${row.seconds.toFixed(1)} s`,
    String(row.seed),
    row.commit,
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
