import { z } from 'zod';
import { Count, DateTime, Timestamp, timestamp } from '../../domain/common-fields.ts';
import { fail } from '../../domain/error.ts';
import { maxIntervals } from '../../domain/intervals.ts';
import { durationLimits, type IntervalCounts, percentileOf, totalOf } from '../../domain/request-counts.ts';
import type { RequestCountList } from '../../store/store.ts';
import { readEndpoint, reply } from '../pipeline/route.ts';
import { example } from '../reference/examples.ts';

const maxLimit = Math.max(...durationLimits);

const counts = {
  requests: Count.describe('Authenticated requests.'),
  denied: Count.describe('Those of them with the status 403.'),
  p50_ms: z
    .number()
    .max(maxLimit)
    .optional()
    .describe('Median response time in milliseconds. Absent if `requests` is 0.'),
  p99_ms: z
    .number()
    .max(maxLimit)
    .optional()
    .describe('99th percentile of the response time in milliseconds. Absent if `requests` is 0.'),
};

const RequestCounts = z
  .object({
    from: Timestamp.describe('Start of the first interval.'),
    to: Timestamp.describe('End of the period: `to` of the query, or now. The last interval may end later.'),
    interval_seconds: z.int().min(300).describe('Length of an interval in seconds.'),
    totals: z.object(counts).describe('All intervals together.'),
    data: z
      .array(z.object({ from: Timestamp.describe('Start of the interval.'), ...counts }))
      .max(maxIntervals)
      .describe('The intervals, oldest first, without gaps.'),
  })
  .meta({ id: 'RequestCounts' });

export const countRequests = readEndpoint({
  name: 'countRequests',
  tag: 'Requests',
  summary: 'Count requests',
  description: `Counts the authenticated requests of the tenant, those that were denied, and estimates their response times, for at most ${maxIntervals} intervals of equal length. Without \`from\`, the period starts at the first count; without \`to\`, it ends now. Requests are counted in intervals of five minutes. One that contains \`from\` or \`to\` counts completely, so two adjacent periods count it twice, unless they meet at a multiple of five minutes. Nodes add their counts once a minute. Counts are stored for 30 days. Response times are upper limits of buckets (${durationLimits.join(', ')} ms), so the real ones are shorter or equal. ${maxLimit} ms also stands for longer times. Requests without a valid key belong to no tenant and are not counted.`,
  query: z
    .strictObject({
      from: DateTime.optional().describe('Only intervals that contain this time, or start after it.'),
      to: DateTime.optional().describe('Only intervals that start before this time.'),
    })
    .refine(({ from, to }) => from === undefined || to === undefined || from < to, {
      path: ['to'],
      error: 'must be after from',
    }),
  replies: { 200: reply('The number of requests by time.', RequestCounts, example.requestCounts) },
  handle: async ({ principal: { tenantId, now }, query }, { store }) => {
    if (query.to === undefined && query.from !== undefined && query.from >= now)
      throw fail('validation_failed', { errors: { from: ['must be in the past'] } });
    return { status: 200, body: bodyOf(await store.requestCounts.list(tenantId, query, now)) };
  },
});

function bodyOf({ start, length, end, counts }: RequestCountList) {
  const durations = [...durationLimits, undefined].map((_, bucket) =>
    counts.reduce((sum, each) => sum + (each.durations[bucket] ?? 0), 0),
  );
  const denied = counts.reduce((sum, each) => sum + each.denied, 0);
  return {
    from: timestamp(start),
    to: timestamp(end),
    interval_seconds: length / 1000,
    totals: summaryOf({ denied, durations }),
    data: counts.map((each, index) => ({ from: timestamp(start + index * length), ...summaryOf(each) })),
  };
}

function summaryOf(counts: IntervalCounts) {
  const [p50_ms, p99_ms] = [percentileOf(counts, 0.5), percentileOf(counts, 0.99)];
  return { requests: totalOf(counts), denied: counts.denied, p50_ms, p99_ms };
}
