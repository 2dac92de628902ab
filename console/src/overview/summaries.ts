/** Summaries for the overview. */
import type { Application } from '../../../sdk/src/sallyport.ts';

const day = 86_400_000;
export const horizons: readonly (readonly [label: string, days: number])[] = [
  ['Expired', 0],
  ['Next 24 hours', 1],
  ['Next 7 days', 7],
  ['Next 30 days', 30],
  ['Later', Number.POSITIVE_INFINITY],
];

/** Later than every expiry. */
export const never = '9999-12-31T23:59:59Z';

/** The end of each horizon. */
export function horizonEnds(now: number): string[] {
  return horizons.map(([, days]) =>
    Number.isFinite(days) ? new Date(now + days * day).toISOString() : never,
  );
}

/** How many expire within each horizon, from how many expire before its end. Undefined if one of them is unknown. */
export function countsWithin(totals: readonly (number | undefined)[]): number[] | undefined {
  if (totals.includes(undefined)) return undefined;
  // Applications may change between the requests.
  return totals.map((total = 0, index) => Math.max(0, total - (totals[index - 1] ?? 0)));
}

export interface Expiries {
  /** How many applications expire within each horizon. Each is counted only in the first horizon that includes it. */
  readonly counts: readonly number[];
  /** The applications that expire first. */
  readonly next: readonly Application[];
}

export function expiriesOf(applications: readonly Application[], now: number, limit: number): Expiries {
  const expiring = applications.filter(({ expires_at }) => expires_at !== undefined);
  const timeOf = ({ expires_at = '' }: Application) => Date.parse(expires_at);
  const counts = horizons.map(() => 0);
  for (const application of expiring) {
    const index = horizons.findIndex(([, days]) => timeOf(application) - now <= days * day);
    counts[index] = (counts[index] ?? 0) + 1;
  }
  const next = expiring.filter((each) => timeOf(each) > now).sort((a, b) => timeOf(a) - timeOf(b));
  return { counts, next: next.slice(0, limit) };
}
