/** What a run found, as rows: of work, beside what, and whether it reached what it must. */
import { arch, cpus, platform, totalmem } from 'node:os';
import type { Figure, Sample, Series } from './contest.ts';
import { figure, ratio } from './contest.ts';
import type { Point } from './plot.ts';

export interface Row {
  readonly group: string;
  readonly work: string;
  readonly beside: string;
  readonly unit: string;
  readonly ours: Figure;
  readonly theirs: Figure;
  /** Ours to theirs; where less is better, theirs to ours is not turned round: `most` says so. */
  readonly ratio: Figure;
  readonly least?: number;
  readonly most?: number;
  readonly aim?: number;
  /** Microseconds of processor time for each, where it can be told. */
  readonly processor?: { readonly ours: number; readonly theirs: number };
  readonly database?: number;
  readonly half?: number;
  readonly longest?: number;
  readonly reached: boolean;
}

interface Wanted {
  readonly group: string;
  readonly work: string;
  readonly beside: string;
  readonly unit: string;
  readonly least: number;
  readonly aim?: number;
}

const middle = (series: Series, of: (sample: Sample) => number | undefined): number | undefined => {
  const values = series.samples.map(of).filter((value) => value !== undefined);
  return values.length === 0 ? undefined : figure(values).median;
};

/** Rates beside each other: ours must be at least so much of theirs. */
export function rowOf(wanted: Wanted, ours: Series, theirs: Series): Row {
  const rates = ratio(ours, theirs);
  const [mine, its] = [ours, theirs].map((series) => middle(series, ({ processor }) => processor));
  const database = middle(ours, (sample) => sample.database);
  const half = middle(ours, (sample) => sample.half);
  const longest = middle(ours, (sample) => sample.most);
  return {
    ...wanted,
    ours: figure(ours.samples.map(({ rate }) => rate)),
    theirs: figure(theirs.samples.map(({ rate }) => rate)),
    ratio: rates,
    ...(mine !== undefined && its !== undefined && { processor: { ours: mine, theirs: its } }),
    ...(database !== undefined && { database }),
    ...(half !== undefined && { half }),
    ...(longest !== undefined && { longest }),
    reached: rates.median >= wanted.least,
  };
}

/** A figure that must stay below a bound, beside what somebody else has. */
export function boundRow(
  wanted: Omit<Wanted, 'least' | 'aim'> & { readonly most: number },
  ours: Figure,
  theirs: Figure,
  bounded: number,
): Row {
  const share = {
    median: ours.median / theirs.median,
    low: ours.low / theirs.high,
    high: ours.high / theirs.low,
  };
  return { ...wanted, ours, theirs, ratio: share, reached: bounded <= wanted.most };
}

export interface Results {
  readonly at: string;
  readonly quick: boolean;
  readonly machine: Record<string, string>;
  readonly rows: Row[];
  readonly nodes: Point[];
}

export function machine(): Record<string, string> {
  const [cpu] = cpus();
  return {
    processor: `${cpus().length} × ${cpu?.model ?? 'unknown'}`,
    memory: `${Math.round(totalmem() / 2 ** 30)} GiB`,
    system: `${platform()} ${arch()}`,
    bun: Bun.version,
  };
}

const shown = (value: number): string =>
  value >= 100 ? Math.round(value).toLocaleString('en-US') : value.toPrecision(value >= 10 ? 3 : 2);

export function spread({ median, low, high }: Figure): string {
  return `${shown(median)} (${shown(low)}–${shown(high)})`;
}

/** What it must reach, in words. */
export function bound({ least, most, aim, unit }: Row): string {
  if (most !== undefined) return unit === 'µs' ? `at most ${most} ×` : `at most ${most} ${unit}`;
  return aim === undefined ? `${least} ×` : `${least} × (aim ${aim})`;
}

const columns = ['work', 'ours', 'beside', 'theirs', 'ratio', 'must reach', 'µs each', ''];

export function cells(row: Row): string[] {
  const { processor } = row;
  const each = processor ? `${shown(processor.ours)} / ${shown(processor.theirs)}` : '';
  return [
    row.work,
    `${spread(row.ours)} ${row.unit}`,
    row.beside,
    spread(row.theirs),
    spread(row.ratio),
    bound(row),
    each,
    row.reached ? 'ok' : 'SHORT',
  ];
}

export function printRows(rows: readonly Row[]): void {
  const lines = [columns, ...rows.map(cells)];
  const widths = columns.map((_, at) => Math.max(...lines.map((line) => (line[at] as string).length)));
  for (const line of lines) console.log(line.map((cell, at) => cell.padEnd(widths[at] as number)).join('  '));
}
