/** What the audit log says of one event: who did what, on what, from where, and what came of it. */
import { z } from 'zod';
import { DateTime, Id, line, Timestamp } from './common-fields.ts';

export const results = ['success', 'denied', 'failed'] as const;

/** Written when a database was put back to an earlier state. */
export const restoreOperation = 'database.restore';

const Actor = z.object({
  kind: z
    .enum(['application', 'session', 'operator', 'anonymous', 'unknown'])
    .describe('What kind of actor. unknown: the entry was changed in the database, and cannot be read.'),
  id: z.uuid().optional().describe('Of the Application or the Session.'),
  application_id: z
    .uuid()
    .optional()
    .describe('The Application itself, or the one that the Session belongs to.'),
});

/** The part that is kept as JSON. */
export const Entry = z.object({
  actor: Actor.describe('Who.'),
  operation: z.string().describe('What, such as application.update.'),
  entity: z
    .object({ kind: z.string().describe('What kind of thing.'), id: z.string().describe('Its id.') })
    .optional()
    .describe('On what.'),
  result: z
    .enum(results)
    .describe(
      'denied: the key was valid but not allowed. failed: there was no valid key, and so no tenant whose log would show it.',
    ),
  reason: z.string().optional().describe('The code of the problem, for what did not succeed.'),
  from: z
    .object({
      ip: z.string().optional().describe('The address.'),
      user_agent: z.string().optional().describe('What the client called itself.'),
    })
    .describe('From where, as far as it is known.'),
  request_id: z.string().optional().describe('Of the request.'),
  trace_id: z.string().optional().describe('Of the trace that the request said it is part of.'),
  difference: z
    .record(z.string(), z.object({ from: z.json().optional(), to: z.json().optional() }))
    .optional()
    .describe('For an update: every field that changed. Of data that is sealed, only that it changed.'),
  count: z.int().optional().describe('How many of the same kind this entry stands for, if more than one.'),
});
export type Entry = z.infer<typeof Entry>;

/** The reason of an entry that somebody has changed in the database: of it, only what stands beside it is shown. */
export const unreadable = 'unreadable';

/** What was done on the machine, past the API. */
export const byOperator = { actor: { kind: 'operator' as const }, result: 'success' as const, from: {} };

export const LogEntry = z
  .object({
    id: z.uuid().describe('Of the entry.'),
    tenant_id: z.uuid().optional().describe('Whose it is.'),
    at: Timestamp.describe('When.'),
    ...Entry.shape,
  })
  .meta({ id: 'LogEntry' });
export type LogEntry = z.infer<typeof LogEntry>;

/** What a look at the log may be narrowed to. */
export const logFilter = {
  actor: Id.optional().describe('Only what this Application or Session did.'),
  entity: line(1, 200).optional().describe('Only what was done to the thing with this id.'),
  operation: line(1, 100).optional().describe('Only this operation, such as application.update.'),
  result: z.enum(results).optional().describe('Only what came out like this.'),
  from: DateTime.optional().describe('Only from this moment on.'),
  to: DateTime.optional().describe('Only before this moment.'),
};

export type Difference = NonNullable<Entry['difference']>;

/** The fields that differ, among those named. */
export function difference<T extends object>(
  from: T,
  to: T,
  fields: readonly (keyof T & string)[],
): Difference {
  const changed = fields.filter((field) => JSON.stringify(from[field]) !== JSON.stringify(to[field]));
  return Object.fromEntries(
    changed.map((field) => [field, { from: from[field], to: to[field] }]),
  ) as Difference;
}
