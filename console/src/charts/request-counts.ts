/** The counts of requests, and their response times, as bars. */
import type { RequestCounts } from '../../../sdk/src/sallyport.ts';
import { formatNumber } from '../frame/format.ts';
import type { Bar, Series } from './bar-chart.tsx';

export const requestSeries: readonly Series[] = [{ label: 'requests', color: 'success' }];

export const responseTimeSeries: readonly Series[] = [
  { label: 'p50', color: 'p50' },
  { label: 'p99', color: 'p99' },
];

type Counts = RequestCounts['totals'];

export function requestBars(counts: RequestCounts): Bar[] {
  return barsOf(counts, ({ requests }) => [requests]);
}

export function responseTimeBars(counts: RequestCounts): Bar[] {
  return barsOf(counts, responseTimes);
}

/** Both are 0 without requests. */
export function responseTimes({ p50_ms = 0, p99_ms = 0 }: Counts): [p50: number, p99: number] {
  return [p50_ms, p99_ms];
}

export function formatMilliseconds(value: number): string {
  return value === 0 ? '–' : `${formatNumber(value)} ms`;
}

function barsOf(
  { data, interval_seconds: seconds }: RequestCounts,
  valuesOf: (counts: Counts) => number[],
): Bar[] {
  return data.map((counts) => {
    const start = Date.parse(counts.from);
    return { from: start, to: start + seconds * 1000, values: valuesOf(counts) };
  });
}
