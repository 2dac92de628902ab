import { z } from 'zod';
import { Moment, optional, Timestamp } from './field.ts';
import { grantFields } from './grant.ts';

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
    expires_at: optional(Moment).describe(
      'When the Session ends, sooner or later than it would by itself: no later than the longest lifetime after its creation, nor than its Application.',
    ),
  })
  .meta({ id: 'SessionAuthorize' });
export type SessionAuthorize = z.infer<typeof SessionAuthorize>;

/** When a new Session ends: after the given time, or with its Application if that is sooner. */
export function sessionEnd(now: number, ttl: number, applicationEnd: number | undefined): number {
  return Math.min(now + ttl, applicationEnd ?? Number.POSITIVE_INFINITY);
}
