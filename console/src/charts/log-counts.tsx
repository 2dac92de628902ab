/** The counts of the audit log as bars. */
import type { LogCounts } from '../../../sdk/src/sallyport.ts';
import { describeGaps } from '../activity/gaps.tsx';
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

/** The fields of counts that say what the shown numbers do not include. */
export type Omitted = {
  readonly [Field in 'counted_from' | 'denials' | 'gaps']?: LogCounts[Field] | undefined;
};

export function describeOmitted({ counted_from: entriesFrom, denials, gaps = [] }: Omitted): string[] {
  const tooMany = [['entries', entriesFrom] as const, ['denials', denials?.counted_from] as const];
  const left = tooMany.flatMap(([what, from]) =>
    from === undefined ? [] : [`Too many ${what} to count: those before ${formatDate(from)} are left out.`],
  );
  return [...left, ...describeGaps(gaps)];
}

export function NotCounted(counts: Omitted) {
  return describeOmitted(counts).map((text) => (
    <p key={text} className="fine">
      {text}
    </p>
  ));
}
