import { z } from 'zod';
import { DateTime, optional, Timestamp } from './common-fields.ts';
import { grantFields } from './grant.ts';
import { Permission } from './permission.ts';
import { Rule } from './rule.ts';

export const SessionCreated = z
  .object({
    session_key: z
      .string()
      .describe('For the browser that made the Session, and nobody else. Shown this once.'),
    nonce: z.string().describe('For the backend: authorizes the Session, once.'),
    expires_at: Timestamp.describe('When it ends, authorized or not.'),
  })
  .meta({ id: 'SessionCreated' });

export const SessionAuthorize = z
  .strictObject({
    nonce: z.string().min(1).describe('From the reply to creating the Session.'),
    ...grantFields,
    expires_at: optional(DateTime).describe(
      'When the Session ends, sooner or later than it would by itself: no later than the longest lifetime after its creation, nor than its Application.',
    ),
  })
  .meta({ id: 'SessionAuthorize' });
export type SessionAuthorize = z.infer<typeof SessionAuthorize>;

export const SessionState = z
  .enum(['waiting', 'authorized'])
  .describe('`waiting`: nobody has authorized it, so it can do nothing. `authorized`: its nonce is spent.');
export type SessionState = z.infer<typeof SessionState>;

/** A Session as lists show it: never with its key or its nonce. */
export const Session = z
  .object({
    id: z.uuid().describe('Its own, by which the audit log names it and by which it is ended.'),
    tenant_id: z.uuid().describe('The tenant that it belongs to.'),
    application_id: z.uuid().describe('The public Application whose key made it.'),
    state: SessionState,
    permissions: z.array(Permission).describe('What it may do; nothing while it waits.'),
    rules: z.array(Rule).describe('What it may do with which data, and how much of it it sees.'),
    created_at: Timestamp.describe('When it was made.'),
    authorized_at: Timestamp.optional().describe('When it was authorized; absent while it waits.'),
    authorized_by: z.uuid().optional().describe('The Application that authorized it; absent while it waits.'),
    ceiling: z
      .boolean()
      .describe('Whether it can never do more than the key that authorized it can do at that moment.'),
    expires_at: Timestamp.describe('From this moment on it is gone.'),
  })
  .meta({ id: 'Session' });
export type Session = z.infer<typeof Session>;

/** When a new Session ends: after the given time, or with its Application if that is sooner. */
export function sessionEnd(now: number, ttl: number, applicationEnd: number | undefined): number {
  return Math.min(now + ttl, applicationEnd ?? Number.POSITIVE_INFINITY);
}
