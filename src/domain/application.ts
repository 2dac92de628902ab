import { z } from 'zod';
import { DateTime, Id, Name, optional, Timestamp, timestamp } from './common-fields.ts';
import type { Errors } from './error.ts';
import { grantFields } from './grant.ts';
import { Origins } from './origin.ts';
import { Permission } from './permission.ts';
import { Rule } from './rule.ts';

export const ApplicationType = z
  .enum(['private', 'public', 'management'])
  .describe(
    '`private`: for backends, where a key can be kept secret. `public`: for browsers and mobile apps. `management`: for managing the service itself.',
  );
export type ApplicationType = z.infer<typeof ApplicationType>;

/** An Application as every response shows it: never with its key. */
export const Application = z
  .object({
    id: z.uuid().describe('Its own, for as long as it lives.'),
    tenant_id: z.uuid().describe('The tenant that it belongs to.'),
    name: z.string().describe('What people call it.'),
    type: ApplicationType,
    permissions: z.array(Permission).describe('What its key may do.'),
    rules: z
      .array(Rule)
      .describe('What its key may do in which container, and how much of the data it sees.'),
    allowed_origins: z
      .array(z.string())
      .optional()
      .describe('The origins whose pages may use its key in a browser; absent if all may.'),
    created_by: z.uuid().optional().describe('The Application that created it.'),
    created_at: Timestamp.describe('When it was created.'),
    modified_by: z.uuid().optional().describe('The Application that last changed it; absent until then.'),
    modified_at: Timestamp.optional().describe('When it was last changed; absent until then.'),
    expires_at: Timestamp.optional().describe('From this moment on it is gone; absent if it stays.'),
    last_used_at: Timestamp.optional().describe(
      'When a key or a Session of it was last let in. Written once a minute; absent if never.',
    ),
  })
  .meta({ id: 'Application' });
export type Application = z.infer<typeof Application>;

/** Only the replies of create and regenerate have this shape. */
export const ApplicationWithKey = Application.extend({
  key: z.string().describe('Shown this once: only a digest of it is kept.'),
}).meta({ id: 'ApplicationWithKey' });

/** How many keys an Application may have at once: the one in use, its successor, and one to spare. */
export const maxKeys = 3;

export const ApplicationKey = z
  .object({
    id: z.uuid().describe('Of the key, by which it is deleted.'),
    ending: z.string().describe('Its last four characters, by which people tell keys apart.'),
    created_by: z.uuid().optional().describe('The Application that made it, as far as that is known.'),
    created_at: Timestamp.describe('When it was made.'),
    last_used_at: Timestamp.optional().describe(
      'When it was last let in. Written once a minute; absent if never.',
    ),
  })
  .meta({ id: 'ApplicationKey' });
export type ApplicationKey = z.infer<typeof ApplicationKey>;

/** Only the reply that makes one has this shape. */
export const ApplicationKeyCreated = ApplicationKey.extend({
  key: z.string().describe('Shown this once: only a digest of it is kept.'),
}).meta({ id: 'ApplicationKeyCreated' });

export const ApplicationCreate = z
  .strictObject({
    name: Name.describe('What people call it. No control or bidirectional control characters.'),
    type: ApplicationType,
    ...grantFields,
    allowed_origins: optional(Origins).describe(
      'For a public Application: the origins whose pages may use its key, and the keys of its Sessions, in a browser. Absent or empty, all may.',
    ),
    expires_at: optional(DateTime).describe('From this moment on it is gone. Must be in the future.'),
  })
  .meta({ id: 'ApplicationCreate' });
export type ApplicationCreate = z.infer<typeof ApplicationCreate>;

/** Taken whatever it holds, since it is compared with what is stored. */
function readOnly(kind: { format?: string; enum?: readonly string[] }) {
  return optional(z.unknown().meta({ type: 'string', ...kind })).meta({
    readOnly: true,
    description: 'Cannot be changed, but may be sent back as it was fetched.',
  });
}
const ReadOnlyId = readOnly({ format: 'uuid' });
const ReadOnlyMoment = readOnly({ format: 'date-time' });

export const ApplicationUpdate = z
  .strictObject({
    name: Name.describe('What people call it. No control or bidirectional control characters.'),
    ...grantFields,
    allowed_origins: optional(Origins).describe(
      'For a public Application: the origins whose pages may use its key, and the keys of its Sessions, in a browser. Absent, they stay as they are; empty, all may.',
    ),
    id: ReadOnlyId,
    tenant_id: ReadOnlyId,
    type: readOnly({ enum: ApplicationType.options }),
    created_by: ReadOnlyId,
    created_at: ReadOnlyMoment,
    modified_by: ReadOnlyId,
    modified_at: ReadOnlyMoment,
    expires_at: ReadOnlyMoment,
    last_used_at: ReadOnlyMoment.describe('Moves by itself, so whatever is sent back is ignored.'),
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
    return value !== undefined && shown(field, value) !== current[field];
  });
  return Object.fromEntries(
    differing.map((field) => [field, ['cannot be changed: leave it out, or send it as it is']]),
  );
}

/** As a response would show it, if it is an id or a moment. */
function shown(field: string, sent: unknown): unknown {
  if (!field.endsWith('_at')) return Id.safeParse(sent).data ?? sent;
  const moment = DateTime.safeParse(sent).data;
  return moment === undefined ? sent : timestamp(moment);
}
