/** The results of a run as rows: workload, baseline, and whether the target was reached. */
import { arch, cpus, platform, totalmem } from 'node:os';
import type { Figure, Sample, Series } from './compare.ts';
import { figure, ratio } from './compare.ts';

export interface Row {
  readonly group: string;
  readonly work: string;
  readonly baseline: string;
  readonly unit: string;
  readonly ours: Figure;
  readonly theirs: Figure;
  /** Ours divided by theirs. If less is better, `max` is set instead of `min`. */
  readonly ratio: Figure;
  readonly min?: number;
  readonly max?: number;
  readonly aim?: number;
  /** Microseconds of CPU time per operation, if known. */
  readonly processor?: { readonly ours: number; readonly theirs: number };
  readonly database?: number;
  readonly p50?: number;
  readonly p99?: number;
  readonly reached: boolean;
}

interface RowSpec {
  readonly group: string;
  readonly work: string;
  readonly baseline: string;
  readonly unit: string;
  readonly min: number;
  readonly aim?: number;
}

const medianOf = (series: Series, of: (sample: Sample) => number | undefined): number | undefined => {
  const values = series.samples.map(of).filter((value) => value !== undefined);
  return values.length === 0 ? undefined : figure(values).median;
};

/** Compares rates: ours must be at least `min` times theirs. */
export function rowOf(spec: RowSpec, ours: Series, theirs: Series): Row {
  const rates = ratio(ours, theirs);
  const [mine, its] = [ours, theirs].map((series) => medianOf(series, ({ processor }) => processor));
  const database = medianOf(ours, (sample) => sample.database);
  const p50 = medianOf(ours, (sample) => sample.p50);
  const p99 = medianOf(ours, (sample) => sample.p99);
  return {
    ...spec,
    ours: figure(ours.samples.map(({ rate }) => rate)),
    theirs: figure(theirs.samples.map(({ rate }) => rate)),
    ratio: rates,
    ...(mine !== undefined && its !== undefined && { processor: { ours: mine, theirs: its } }),
    ...(database !== undefined && { database }),
    ...(p50 !== undefined && { p50 }),
    ...(p99 !== undefined && { p99 }),
    reached: rates.median >= spec.min,
  };
}

/** A figure that must not exceed `max`, next to a baseline. */
export function maxRow(
  spec: Omit<RowSpec, 'min' | 'aim'> & { readonly max: number },
  ours: Figure,
  theirs: Figure,
  bounded: number,
): Row {
  const share = {
    median: ours.median / theirs.median,
    low: ours.low / theirs.high,
    high: ours.high / theirs.low,
  };
  return { ...spec, ours, theirs, ratio: share, reached: bounded <= spec.max };
}

/** Throughput with a number of nodes on one database. */
export interface NodePoint {
  readonly nodes: number;
  readonly rate: number;
  readonly processor: number;
  readonly database: number;
}

export interface Results {
  readonly at: string;
  readonly quick: boolean;
  readonly machine: Record<string, string>;
  readonly rows: Row[];
  readonly nodes: NodePoint[];
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

const formatNumber = (value: number): string =>
  value >= 100 ? Math.round(value).toLocaleString('en-US') : value.toPrecision(value >= 10 ? 3 : 2);

export function spread({ median, low, high }: Figure): string {
  return `${formatNumber(median)} (${formatNumber(low)}–${formatNumber(high)})`;
}

/** The target as text. */
export function formatBound({ min, max, aim, unit }: Row): string {
  if (max !== undefined) return unit === 'µs' ? `at most ${max} ×` : `at most ${max} ${unit}`;
  return aim === undefined ? `${min} ×` : `${min} × (aim ${aim})`;
}

export const columns = [
  'workload',
  'Sallyport',
  'baseline',
  'baseline result',
  'ratio',
  'target',
  'CPU µs per operation',
  '',
];

export function cells(row: Row): string[] {
  const { processor } = row;
  const each = processor ? `${formatNumber(processor.ours)} / ${formatNumber(processor.theirs)}` : '';
  return [
    row.work,
    `${spread(row.ours)} ${row.unit}`,
    row.baseline,
    spread(row.theirs),
    spread(row.ratio),
    formatBound(row),
    each,
    row.reached ? 'ok' : 'MISSED',
  ];
}

export function printRows(rows: readonly Row[]): void {
  const lines = [columns, ...rows.map(cells)];
  const widths = columns.map((_, at) => Math.max(...lines.map((line) => (line[at] as string).length)));
  for (const line of lines) console.log(line.map((cell, at) => cell.padEnd(widths[at] as number)).join('  '));
}
