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

const head = ['', 'test', 'database', 'must show', 'measured', 'time', 'seed', 'commit'];

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
  const widths = head.map((_, column) =>
    Math.max(...[head, ...cells].map((each) => each[column]?.length ?? 0)),
  );
  return [head, ...cells]
    .map((each) =>
      each
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
