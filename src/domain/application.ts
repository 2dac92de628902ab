import { z } from 'zod';
import type { Errors } from './error.ts';
import { Id, Moment, Name, optional, parseMoment, Timestamp } from './field.ts';
import { grantFields } from './grant.ts';
import { Permission } from './permission.ts';
import { Rule } from './rule.ts';

export const ApplicationType = z
  .enum(['private', 'public', 'management'])
  .describe(
    'private: for backends, where a key can be kept secret. public: for browsers and mobile apps. management: for managing the service itself.',
  );
export type ApplicationType = z.infer<typeof ApplicationType>;

/** An Application as every response shows it: never with its key. */
export const Application = z
  .object({
    id: z.uuid(),
    tenant_id: z.uuid(),
    name: z.string(),
    type: ApplicationType,
    permissions: z.array(Permission),
    rules: z.array(Rule),
    created_by: z.uuid().optional().describe('The Application that created it.'),
    created_at: Timestamp,
    modified_by: z.uuid().optional().describe('The Application that last changed it.'),
    modified_at: Timestamp.optional(),
    expires_at: Timestamp.optional().describe('From this moment on it is gone.'),
  })
  .meta({ id: 'Application' });
export type Application = z.infer<typeof Application>;

/** Only the replies of create and regenerate have this shape. */
export const ApplicationWithKey = Application.extend({
  key: z.string().describe('Shown this once: only a digest of it is kept.'),
}).meta({ id: 'ApplicationWithKey' });

export const ApplicationCreate = z
  .strictObject({
    name: Name,
    type: ApplicationType,
    ...grantFields,
    expires_at: optional(Moment).describe('From this moment on it is gone. Must be in the future.'),
  })
  .meta({ id: 'ApplicationCreate' });
export type ApplicationCreate = z.infer<typeof ApplicationCreate>;

const readOnly = z.unknown().optional().meta({ readOnly: true, description: 'May be sent back unchanged.' });

export const ApplicationUpdate = z
  .strictObject({
    name: Name,
    ...grantFields,
    id: readOnly,
    tenant_id: readOnly,
    type: readOnly,
    created_by: readOnly,
    created_at: readOnly,
    modified_by: readOnly,
    modified_at: readOnly,
    expires_at: readOnly,
  })
  .meta({ id: 'ApplicationUpdate' });
export type ApplicationUpdate = z.infer<typeof ApplicationUpdate>;

const readOnlyFields = [
  'id',
  'tenant_id',
  'type',
  'created_by',
  'created_at',
  'modified_by',
  'modified_at',
  'expires_at',
] as const satisfies (keyof ApplicationUpdate & keyof Application)[];

/** What was sent back of the read-only fields but differs from what is stored. */
export function readOnlyErrors(current: Application, sent: ApplicationUpdate): Errors {
  const differing = readOnlyFields.filter((field) => {
    const value = sent[field] ?? undefined;
    return value !== undefined && !same(field, value, current[field]);
  });
  return Object.fromEntries(
    differing.map((field) => [field, ['cannot be changed: leave it out, or send it as it is']]),
  );
}

function same(field: string, sent: unknown, current: string | undefined): boolean {
  if (typeof sent !== 'string' || current === undefined) return false;
  if (field.endsWith('_at')) return parseMoment(sent) === Date.parse(current);
  return (Id.safeParse(sent).data ?? sent) === current;
}
