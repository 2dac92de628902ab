import { z } from 'zod';
import { LogEntry, logFilter } from '../../domain/audit.ts';
import { Id } from '../../domain/common-fields.ts';
import { pageFields, pageOf, paginationOf } from '../pipeline/pagination.ts';
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

export const listLogs = readEndpoint({
  name: 'listLogs',
  tag: 'Logs',
  summary: 'List audit log entries',
  description:
    'Returns audit log entries in the order in which they were written, newest first; with `after`, oldest first. Changes and disclosures are listed once they are committed. Denials are aggregated and follow within seconds. All filters use an index and can be combined. A request examines a limited number of entries, so a filtered page can be short or empty: continue while the response has `next`.',
  query: z
    .strictObject({ size: pageFields.size, start: pageFields.start, after: After, ...logFilter })
    .refine(({ start, after }) => start === undefined || after === undefined, {
      path: ['after'],
      error: 'cannot be combined with start',
    }),
  replies: { 200: reply('A page of audit log entries.', pageOf(LogEntry), example.logPage) },
  handle: async ({ principal, query: { size, start, after, ...filter } }, { store }) => {
    const window = { limit: size, before: start, after };
    const { entries, next } = await store.audit.list(principal.tenantId, filter, window);
    return { status: 200, body: { pagination: paginationOf(size, undefined, { next }), data: entries } };
  },
});
