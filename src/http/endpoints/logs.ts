import { z } from 'zod';
import { LogEntry, logFilter } from '../../domain/audit.ts';
import { defaultSize, pageFields, pageOf, paginationOf } from '../pipeline/pagination.ts';
import { readEndpoint } from '../pipeline/route.ts';
import { example } from '../reference/examples.ts';

const ListQuery = z.strictObject({
  size: pageFields.size,
  start: pageFields.start,
  ...logFilter,
});

export const listLogs = readEndpoint({
  name: 'listLogs',
  tag: 'Logs',
  summary: 'Read the audit log',
  description:
    'Newest first, by cursor. Every change is there from the moment that it was answered; refusals follow within seconds, those of one kind together. A page examines a limited number of entries, so with a filter it may be short or empty: go on while there is a `next`.',
  query: ListQuery,
  replies: { 200: { description: 'One page of it.', schema: pageOf(LogEntry), example: example.logPage } },
  handle: async ({ principal, query: { size = defaultSize, start, ...filter } }, { store }) => {
    const { entries, next } = await store.audit.list(principal.tenantId, filter, {
      limit: size,
      before: start,
    });
    return { status: 200, body: { pagination: paginationOf(size, undefined, { next }), data: entries } };
  },
});
