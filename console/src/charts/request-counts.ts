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

const storedFor = 30 * 86_400_000;

/** Limits of the counts of a period, as a sentence. Empty without limits. */
export function describeMissing(
  { from, to }: { readonly from: string; readonly to?: string },
  now: number,
  { requests }: Pick<Counts, 'requests'>,
): string {
  const isPast = to !== undefined && Date.parse(to) <= now;
  const sentences = [
    requests === 0 && 'No requests are recorded in this period.',
    requests === 0 && !isPast && 'New ones appear within a minute.',
    now - Date.parse(from) > storedFor && 'Counts are stored for 30 days.',
  ];
  return sentences.filter(Boolean).join(' ');
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
