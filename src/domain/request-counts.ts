/** Counts of authenticated requests, and percentiles of their durations. */

/** Milliseconds per stored interval. */
export const storedInterval = 300_000;

/** Upper limits of the duration buckets in milliseconds. A last bucket counts the requests above them. */
export const durationLimits = [0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000];

export function bucketOf(milliseconds: number): number {
  const bucket = durationLimits.findIndex((limit) => milliseconds <= limit);
  return bucket === -1 ? durationLimits.length : bucket;
}

export interface IntervalCounts {
  /** Requests with the status 403. */
  readonly denied: number;
  /** All requests, by the bucket of their duration. */
  readonly durations: readonly number[];
}

export function totalOf({ durations }: Pick<IntervalCounts, 'durations'>): number {
  return durations.reduce((sum, count) => sum + count, 0);
}

/**
 * The upper limit of the bucket in which this share of the requests is reached. The last bucket has none: the highest
 * limit stands for it. Returns undefined without requests.
 */
export function percentileOf(counts: Pick<IntervalCounts, 'durations'>, share: number): number | undefined {
  const needed = share * totalOf(counts);
  let reached = 0;
  for (const [bucket, count] of counts.durations.entries()) {
    reached += count;
    if (count > 0 && reached >= needed) return durationLimits[bucket] ?? durationLimits.at(-1);
  }
  return undefined;
}
