/** The counts of the audit log as bars. */
import type { DenialCounts, LogCounts } from '../../../sdk/src/sallyport.ts';
import { formatDate } from '../frame/format.ts';
import type { Bar, Series } from './bar-chart.tsx';

/**
 * Omits `failed`. In a tenant's log, only requests in quarantine for a resource that does not exist have this result.
 */
export const resultSeries: readonly Series[] = [
  { label: 'successful entries', color: 'success' },
  { label: 'denied entries', color: 'denied' },
];

/** Everywhere in the console, a denial is a denied request: an aggregated entry counts with its number of events. */
export const denialSeries: readonly Series[] = [{ label: 'denials', color: 'denied' }];

/** Successful entries, and denied entries or denials. */
export function barsOf(
  { data, denials, interval_seconds: seconds }: LogCounts,
  of: 'entries' | 'denials',
): Bar[] {
  return data.map(({ from, success, denied }, index) => {
    const start = Date.parse(from);
    const second = of === 'entries' ? denied : (denials?.data[index] ?? 0);
    return { from: start, to: start + seconds * 1000, values: [success, second] };
  });
}

export function denialBars(counts: LogCounts): Bar[] {
  return barsOf(counts, 'denials').map(({ values, ...bar }) => ({ ...bar, values: values.slice(1) }));
}

export function NotCounted({ denials }: { denials: DenialCounts | undefined }) {
  if (denials?.counted_from === undefined) return null;
  return (
    <p className="fine">
      Too many denials to count: those before {formatDate(denials.counted_from)} are left out.
    </p>
  );
}
