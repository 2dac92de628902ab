/** Divides a period into intervals of equal, round length. */
const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;
const lengths = [minute, 5 * minute, 15 * minute, hour, 3 * hour, 6 * hour, day, 7 * day, 30 * day];
const year = 365 * day;
/** Earlier times have another format. */
const yearZero = Date.parse('0000-01-01T00:00:00Z');

export const maxIntervals = 60;

export interface Intervals {
  /** Start of the first interval: `from`, or earlier. */
  readonly start: number;
  readonly length: number;
  readonly count: number;
}

/**
 * Returns at most `maxIntervals` of at least `minLength`. They start at multiples of their length in UTC. `to` must be
 * after `from`.
 */
export function intervalsBetween(from: number, to: number, minLength = minute): Intervals {
  const divide = (length: number) => {
    const start = Math.max(yearZero, Math.floor(from / length) * length);
    return { start, length, count: Math.ceil((to - start) / length) };
  };
  const fitting = lengths.find((length) => length >= minLength && divide(length).count <= maxIntervals);
  return divide(fitting ?? Math.ceil((to - from) / (maxIntervals - 1) / year) * year);
}
