/** The counts of the audit log as bars. */
import type { LogCounts } from '../../../sdk/src/sallyport.ts';
import { describeGaps } from '../activity/gaps.tsx';
import { formatDate } from '../frame/format.ts';
import type { Bar, Series } from './bar-chart.tsx';

/** Failed entries are rare: in a tenant's log, only requests in quarantine for a resource that does not exist. */
export function resultSeries({ totals }: LogCounts): Series[] {
  return [
    { label: 'successful entries', color: 'success' },
    { label: 'denied entries', color: 'denied' },
    ...(totals.failed > 0 ? [{ label: 'failed entries', color: 'failed' }] : []),
  ];
}

/** Everywhere in the console, a denial is a denied request: an aggregated entry counts with its number of events. */
export const denialSeries: readonly Series[] = [{ label: 'denials', color: 'denied' }];

/** The values of `resultSeries`. */
export function resultBars(counts: LogCounts): Bar[] {
  const hasFailed = counts.totals.failed > 0;
  return barsOf(counts, ({ success, denied, failed }) => [success, denied, ...(hasFailed ? [failed] : [])]);
}

/** Successful entries and denials. */
export function successAndDenialBars(counts: LogCounts): Bar[] {
  return barsOf(counts, ({ success }, index) => [success, counts.denials?.data[index] ?? 0]);
}

export function denialBars(counts: LogCounts): Bar[] {
  return barsOf(counts, (_, index) => [counts.denials?.data[index] ?? 0]);
}

function barsOf(
  { data, interval_seconds: seconds }: LogCounts,
  valuesOf: (counts: LogCounts['totals'], index: number) => number[],
): Bar[] {
  return data.map((counts, index) => {
    const start = Date.parse(counts.from);
    return { from: start, to: start + seconds * 1000, values: valuesOf(counts, index) };
  });
}

/** The fields of counts that say what the shown numbers do not include. */
type Omitted = {
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
