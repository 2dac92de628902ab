import { z } from 'zod';
import { LogEntry, LogGap, logFilter, results } from '../../domain/audit.ts';
import { Count, Id, Timestamp, timestamp, Uuid } from '../../domain/common-fields.ts';
import { fail } from '../../domain/error.ts';
import { maxIntervals } from '../../domain/intervals.ts';
import { canonicalContainer } from '../../domain/rule.ts';
import type { DenialCounts, LogCounts as StoredCounts } from '../../store/store.ts';
import { pageFields, pageOf, pageText, paginationOf } from '../pipeline/pagination.ts';
import { readEndpoint, reply } from '../pipeline/route.ts';
import { example } from '../reference/examples.ts';

const After = z
  .union([Id, pageFields.start.unwrap()], { error: 'must be the id of an entry, or a `next` value' })
  .optional()
  .meta({
    type: 'string',
    description:
      'The id of an entry, or the `next` value of an earlier response with `after`. Returns the entries that were written after it, oldest first and without gaps. Send `next` as `after`, not as `start`.',
  });

const LogPage = pageOf(LogEntry)
  .extend({
    gaps: z
      .array(LogGap)
      .optional()
      .describe(
        'Periods in which entries that match the filters may be missing. Absent without such periods, and with `start` or `after`.',
      ),
  })
  .meta({ id: 'LogEntryPage' });

export const listLogs = readEndpoint({
  name: 'listLogs',
  tag: 'Logs',
  summary: 'List audit log entries',
  description:
    'Returns audit log entries in the order in which they were written, newest first; with `after`, only sealed entries, oldest first: entries are sealed within seconds. Changes and disclosures are listed once they are committed. Denials are aggregated and follow within seconds. All filters use an index and can be combined. A request examines a limited number of entries, so a filtered page can be short or empty: continue while the response has `next`. If entries that match the filters may be missing, the first page says so in `gaps`.',
  query: z
    .strictObject({
      size: pageFields.size,
      start: pageFields.start,
      after: After,
      id: Id.optional().describe('Only the entry with this id.'),
      ...logFilter,
    })
    .refine(({ id, after }) => id === undefined || after === undefined, {
      path: ['after'],
      error: 'cannot be combined with id',
    })
    .refine(({ start, after }) => start === undefined || after === undefined, {
      path: ['after'],
      error: 'cannot be combined with start',
    }),
  replies: { 200: reply('A page of audit log entries.', LogPage, example.logPage) },
  handle: async (call, { store, longWork, memory }) => {
    const { principal, query } = call;
    const { size, start, after, ...filter } = query;
    const window = { limit: size, before: start, after, reserve: memory.reserverFor(call) };
    const { entries, next, gaps = [] } = await store.audit.list(principal.tenantId, filter, window);
    const pagination = paginationOf(size, undefined, { next });
    const page = { pagination, ...(gaps.length > 0 && { gaps }), data: entries };
    return { status: 200, body: await longWork.run(principal, pageText(page)) };
  },
});

const { token, container, actor, operation, result, subject, purpose, person, destination, from, to } =
  logFilter;

const resultCounts = {
  success: Count.describe('Entries with the result `success`.'),
  denied: Count.describe('Entries with the result `denied`.'),
  failed: Count.describe('Entries with the result `failed`.'),
};

/** Maximum number of applications in `denials`. */
const maxDenied = 20;

const Denials = z
  .object({
    total: Count.describe('Denied requests. An aggregated entry counts with its `count`.'),
    counted_from: Timestamp.optional().describe(
      'Entries before this time were not read, because there are too many. Absent if all were read.',
    ),
    data: z
      .array(z.int().min(0))
      .max(maxIntervals)
      .describe('Denied requests in each interval, in the order of the intervals.'),
    applications: z
      .array(
        z.object({
          id: Uuid.describe('The application.'),
          denials: z.int().min(1).describe('Denied requests of the application and its sessions.'),
        }),
      )
      .max(maxDenied)
      .describe(`The ${maxDenied} applications with the most denied requests, most first.`),
  })
  .meta({ id: 'DenialCounts' });

const LogCounts = z
  .object({
    from: Timestamp.describe('Start of the first interval.'),
    to: Timestamp.describe('End of the period: `to` of the query, or now. The last interval may end later.'),
    interval_seconds: z.int().min(60).describe('Length of an interval in seconds.'),
    counted_from: Timestamp.optional().describe(
      'Entries before this time were not counted, because there are too many. Absent if all were counted.',
    ),
    gaps: z
      .array(LogGap)
      .optional()
      .describe(
        'Periods in which entries that match the filters may be missing, so that they are not counted. Absent without such periods.',
      ),
    totals: z.object(resultCounts).describe('The sum of all intervals.'),
    denials: Denials.optional().describe('Only with `denials=true`.'),
    data: z
      .array(z.object({ from: Timestamp.describe('Start of the interval.'), ...resultCounts }))
      .max(maxIntervals)
      .describe('The intervals, oldest first, without gaps.'),
  })
  .meta({ id: 'LogCounts' });

export const countLogs = readEndpoint({
  name: 'countLogs',
  mayTakeLong: true,
  tag: 'Logs',
  summary: 'Count audit log entries',
  description: `Counts the entries that \`GET /logs\` lists with the same filters, by result, for at most ${maxIntervals} intervals of equal length. Without \`from\`, the period starts at the first entry; without \`to\`, it ends now. An aggregated entry counts once; \`denials\` counts its events. At most the last two million entries, or those of the last 100,000 segments, are counted. If more than 10,000 entries are not sealed yet and older ones of them may match, only the newest 10,000 are counted. If entries that match the filters may be missing, \`gaps\` says so.`,
  query: z
    .strictObject({
      token,
      container: container.refine((path) => path === undefined || canonicalContainer(path) !== '/', {
        error: 'cannot be / here: leave it out to count all entries',
      }),
      actor,
      operation,
      result,
      subject,
      purpose,
      person,
      destination,
      from,
      to,
      denials: z
        .literal(['true', 'false'])
        .optional()
        .describe('`true` to count denied requests, too, and the applications that sent them.'),
    })
    .refine(({ from, to }) => from === undefined || to === undefined || from < to, {
      path: ['to'],
      error: 'must be after from',
    }),
  replies: { 200: reply('The number of entries by result and time.', LogCounts, example.logCounts) },
  handle: async (call, { store, longWork, memory }) => {
    const { principal, query } = call;
    const { tenantId, now } = principal;
    const { denials, ...filter } = query;
    if (query.to === undefined && query.from !== undefined && query.from >= now)
      throw fail('validation_failed', { errors: { from: ['must be in the past'] } });
    const pace = { run: longWork.for(principal), reserve: memory.reserverFor(call) };
    const counts = await store.audit.count(tenantId, filter, now, denials === 'true', pace);
    return { status: 200, body: countsBody(counts) };
  },
});

function countsBody({ start, length, end, counts, countedFrom, denials, gaps }: StoredCounts) {
  const totals = { success: 0, denied: 0, failed: 0 };
  for (const each of counts) for (const name of results) totals[name] += each[name];
  return {
    from: timestamp(start),
    to: timestamp(end),
    interval_seconds: length / 1000,
    ...(countedFrom !== undefined && { counted_from: timestamp(countedFrom) }),
    ...(gaps.length > 0 && { gaps }),
    totals,
    ...(denials && { denials: denialsBody(denials) }),
    data: counts.map((each, index) => ({ from: timestamp(start + index * length), ...each })),
  };
}

function denialsBody({ counts, applications, countedFrom }: DenialCounts) {
  return {
    total: counts.reduce((sum, count) => sum + count, 0),
    ...(countedFrom !== undefined && { counted_from: timestamp(countedFrom) }),
    data: counts,
    applications: applications.slice(0, maxDenied),
  };
}
