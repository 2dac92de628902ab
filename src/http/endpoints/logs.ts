import { z } from 'zod';
import { LogEntry, logFilter } from '../../domain/audit.ts';
import { pageFields, pageOf, paginationOf } from '../pipeline/pagination.ts';
import { readEndpoint, reply } from '../pipeline/route.ts';
import { example } from '../reference/examples.ts';

export const listLogs = readEndpoint({
  name: 'listLogs',
  tag: 'Logs',
  summary: 'List audit log entries',
  description:
    'Returns audit log entries, newest first. Changes are listed once they are committed. Denials are aggregated and follow within seconds. A request examines a limited number of entries, so a filtered page can be short or empty: continue while the response has `next`.',
  query: z.strictObject({ size: pageFields.size, start: pageFields.start, ...logFilter }),
  replies: { 200: reply('A page of audit log entries.', pageOf(LogEntry), example.logPage) },
  handle: async ({ principal, query: { size, start, ...filter } }, { store }) => {
    const { entries, next } = await store.audit.list(principal.tenantId, filter, {
      limit: size,
      before: start,
    });
    return { status: 200, body: { pagination: paginationOf(size, undefined, { next }), data: entries } };
  },
});
