/** The counts of the audit log as bars. */
import type { LogCounts } from '../../../sdk/src/sallyport.ts';
import type { Bar, Series } from './bar-chart.tsx';

/**
 * Omits `failed`. In a tenant's log, only requests in quarantine for a resource that does not exist have this result.
 */
export const resultSeries: readonly Series[] = [
  { label: 'succeeded', color: 'success' },
  { label: 'denied', color: 'denied' },
];

export function barsOf({ data, interval_seconds: seconds }: LogCounts): Bar[] {
  return data.map(({ from, success, denied }) => {
    const start = Date.parse(from);
    return { from: start, to: start + seconds * 1000, values: [success, denied] };
  });
}
