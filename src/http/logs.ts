import { z } from 'zod';
import { LogEntry, results } from '../domain/audit.ts';
import { Id, Moment } from '../domain/field.ts';
import { example } from './examples.ts';
import { pageFields, pageOf, paginateByCursor } from './page.ts';
import { readRoute } from './route.ts';

const ListQuery = z.strictObject({
  size: pageFields.size,
  start: pageFields.start,
  actor: Id.optional().describe('Only what this Application or Session did.'),
  entity: z.string().min(1).max(200).optional().describe('Only what was done to the thing with this id.'),
  operation: z
    .string()
    .min(1)
    .max(100)
    .optional()
    .describe('Only this operation, such as application.update.'),
  result: z.enum(results).optional().describe('Only what came out like this.'),
  from: Moment.optional().describe('Only from this moment on.'),
  to: Moment.optional().describe('Only before this moment.'),
});

export const listLogs = readRoute({
  method: 'GET',
  path: '/logs',
  name: 'listLogs',
  tag: 'Logs',
  summary: 'Read the audit log',
  description:
    'Newest first, by cursor. Every change is there from the moment that it was answered; refusals follow within seconds, those of one kind together.',
  permission: 'log:read',
  query: ListQuery,
  replies: { 200: { description: 'One page of it.', schema: pageOf(LogEntry), example: example.logPage } },
  handle: async ({ principal, query: { size, start, ...filter } }, { store }) => ({
    status: 200,
    body: await paginateByCursor(size, start, (window) =>
      store.audit.list(principal.tenantId, filter, window),
    ),
  }),
});
