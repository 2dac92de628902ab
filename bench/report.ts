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
  /** Ours divided by theirs. */
  readonly ratio: Figure;
  /** The target, if any: a minimum ratio, a maximum ratio, or a maximum for our value. */
  readonly min?: number;
  readonly maxRatio?: number;
  readonly max?: number;
  /** Microseconds of CPU time per operation, if known. */
  readonly processor?: { readonly ours: number; readonly theirs?: number };
  readonly database?: number;
  /** Milliseconds. */
  readonly latency?: Latency;
  readonly theirLatency?: Latency;
  readonly reached: boolean;
}

/** A row of results.json, with the name of its measurement and when it ran. */
export interface PublishedRow extends Row {
  readonly measurement: string;
  readonly day: string;
  /** The operating system and architecture. */
  readonly system: string;
  /** The load average of the machine before the run. */
  readonly load: number;
}

/** Above this load average, other work distorts rates and latencies. */
export const maxLoad = 1.5;

/**
 * Whether the target was reached by the median of the rounds or, if `rough`, by the best round. True for rows without a
 * target.
 */
export function isReached({ min, maxRatio, max, ratio, ours }: Omit<Row, 'reached'>, rough = false): boolean {
  if (min !== undefined) return (rough ? ratio.high : ratio.median) >= min;
  if (maxRatio !== undefined) return (rough ? ratio.low : ratio.median) <= maxRatio;
  return max === undefined || (rough ? ours.low : ours.median) <= max;
}

function judged(row: Omit<Row, 'reached'>): Row {
  return { ...row, reached: isReached(row) };
}

export interface Latency {
  readonly p50: number;
  readonly p99: number;
  readonly p999: number;
}

interface RowSpec {
  readonly group: string;
  readonly work: string;
  readonly baseline: string;
  readonly unit: string;
  readonly min?: number;
}

const medianOf = (series: Series, of: (sample: Sample) => number | undefined): number | undefined => {
  const values = series.samples.map(of).filter((value) => value !== undefined);
  return values.length === 0 ? undefined : figure(values).median;
};

/** The medians of the latencies over all rounds. */
export function latencyOf(series: Series): Latency | undefined {
  const [p50, p99, p999] = [
    medianOf(series, (sample) => sample.p50),
    medianOf(series, (sample) => sample.p99),
    medianOf(series, (sample) => sample.p999),
  ];
  return p50 === undefined || p99 === undefined || p999 === undefined ? undefined : { p50, p99, p999 };
}

/** Compares rates: ours must be at least `min` times theirs, if there is a target. */
export function rowOf(
  spec: RowSpec,
  ours: Series,
  theirs: Series,
  of: (sample: Sample) => number = ({ rate }) => rate,
): Row {
  const rates = ratio(ours, theirs, of);
  const [mine, its] = [ours, theirs].map((series) => medianOf(series, ({ processor }) => processor));
  const database = medianOf(ours, (sample) => sample.database);
  const latency = latencyOf(ours);
  return judged({
    ...spec,
    ours: figure(ours.samples.map(of)),
    theirs: figure(theirs.samples.map(of)),
    ratio: rates,
    ...(mine !== undefined && {
      processor: { ours: mine, ...(its !== undefined && { theirs: its }) },
    }),
    ...(database !== undefined && { database }),
    ...(latency && { latency }),
  });
}

/** Compares a cost, such as CPU time or latency: ours must be at most `maxRatio` times theirs, if there is a target. */
export function costRow(
  spec: Omit<RowSpec, 'min'> & { readonly maxRatio?: number },
  ours: Series,
  theirs: Series,
  of: (sample: Sample) => number,
): Row {
  const [latency, theirLatency] = [latencyOf(ours), latencyOf(theirs)];
  return judged({
    ...spec,
    ours: figure(ours.samples.map(of)),
    theirs: figure(theirs.samples.map(of)),
    ratio: ratio(ours, theirs, of),
    ...(latency && { latency }),
    ...(theirLatency && { theirLatency }),
  });
}

/** Compares a value with a baseline: the median of ours must be at most `max`, if there is a target. */
export function maxRow(
  spec: Omit<RowSpec, 'min'> & { readonly max?: number },
  ours: Figure,
  theirs: Figure,
): Row {
  const share = {
    median: ours.median / theirs.median,
    low: ours.low / theirs.high,
    high: ours.high / theirs.low,
  };
  return judged({ ...spec, ours, theirs, ratio: share });
}

/** Throughput with a number of nodes on one database. */
export interface NodePoint {
  readonly nodes: number;
  readonly rate: number;
  readonly processor: number;
  readonly database: number;
}

export interface Results {
  readonly machine: Record<string, string>;
  readonly rows: PublishedRow[];
  readonly nodes: NodePoint[];
}

export const system = `${platform()} ${arch()}`;

export function machine(): Record<string, string> {
  const [cpu] = cpus();
  return {
    processor: `${cpus().length} × ${cpu?.model ?? 'unknown'}`,
    memory: `${Math.round(totalmem() / 2 ** 30)} GiB`,
    system,
    bun: Bun.version,
  };
}

export const formatNumber = (value: number): string =>
  value >= 100 ? Math.round(value).toLocaleString('en-US') : value.toPrecision(value >= 10 ? 3 : 2);

export function spread({ median, low, high }: Figure): string {
  return `${formatNumber(median)} (${formatNumber(low)}–${formatNumber(high)})`;
}

/** The target as text. */
export function formatBound({ min, max, maxRatio, unit }: Row): string {
  if (min !== undefined) return `${min} ×`;
  if (maxRatio !== undefined) return `at most ${maxRatio} ×`;
  return max === undefined ? '' : `at most ${max} ${unit}`;
}

const columns = ['workload', 'Sallyport', 'baseline', 'baseline result', 'ratio', 'target', 'details', ''];

function cells(row: Row): string[] {
  return [
    row.work,
    `${spread(row.ours)} ${row.unit}`,
    row.baseline,
    spread(row.theirs),
    spread(row.ratio),
    formatBound(row),
    details(row),
    row.reached ? 'ok' : 'MISSED',
  ];
}

/** Latencies of both sides in rows about latency, otherwise the CPU time per operation of both sides. */
function details({ group, processor, database, latency, theirLatency }: Row): string {
  const join = (values: number[]) => values.map(formatNumber).join(' / ');
  if (group === 'latency') {
    const sides = [latency, theirLatency].filter((side) => side !== undefined);
    return sides.map(({ p50, p99, p999 }) => join([p50, p99, p999])).join(', ');
  }
  if (!processor) return '';
  const own = formatNumber(processor.ours) + (database === undefined ? '' : ` + ${formatNumber(database)}`);
  return processor.theirs === undefined ? own : `${own} / ${formatNumber(processor.theirs)}`;
}

export function printRows(rows: readonly Row[]): void {
  const lines = [columns, ...rows.map(cells)];
  const widths = columns.map((_, at) => Math.max(...lines.map((line) => (line[at] as string).length)));
  for (const line of lines) console.log(line.map((cell, at) => cell.padEnd(widths[at] as number)).join('  '));
}
