import { z } from 'zod';
import { DateTime, Flag, Name, optional, Text, Timestamp, Uuid } from './common-fields.ts';
import { type Grants, grantFields } from './grant.ts';
import { Permission } from './permission.ts';
import { canonicalContainer, Rule } from './rule.ts';
import { intersect, scopeOf } from './scope.ts';

/** The longest lifetime that the configuration can allow, in milliseconds. */
export const longestSession = 31_536_000_000;

export const SessionCreated = z
  .object({
    session_key: Text.describe(
      'Key of the session, for the browser that created it. It is returned only here.',
    ),
    nonce: Text.describe('Send it to your backend, which uses it to authorize the session. It works once.'),
    expires_at: Timestamp.describe('When the session expires, authorized or not.'),
    bound: z
      .literal(true)
      .optional()
      .describe(
        'Present if the session is bound: every request with its key needs a DPoP proof made with the same private key.',
      ),
  })
  .meta({ id: 'SessionCreated' });

export const SessionAuthorize = z
  .strictObject({
    nonce: z.string().min(1).describe('The `nonce` from the response of `POST /sessions`.'),
    ...grantFields,
    subject: optional(Name).describe(
      'The subject that the session is for, such as `user:42`. It is in every audit entry of the session, and all sessions of a subject can be ended with one request.',
    ),
    expires_at: optional(DateTime).describe(
      'When the session expires. May be earlier or later than the default, up to the maximum lifetime and the expiry of its application.',
    ),
  })
  .meta({ id: 'SessionAuthorize' });
export type SessionAuthorize = z.infer<typeof SessionAuthorize>;

export const SessionState = z
  .enum(['pending', 'active'])
  .describe('`pending`: not authorized yet, so it has no access. `active`: authorized.');
export type SessionState = z.infer<typeof SessionState>;

/** How many requests of a delegation can be allowed. */
const maxUses = 1_000_000;

export const DelegationCreate = z
  .strictObject({
    ...grantFields,
    subject: optional(Name).describe(
      'The subject that the delegation is for, such as `user:42`. It is in every audit entry of the delegation, and all delegations and sessions of a subject can be ended with one request.',
    ),
    expires_at: optional(DateTime).describe(
      'When the delegation expires. By default after the default lifetime of a session. At most the maximum lifetime of a session from now.',
    ),
    max_uses: optional(z.int().min(1).max(maxUses)).describe(
      'How many requests can succeed. Afterwards the key is invalid. Unlimited by default.',
    ),
  })
  .meta({ id: 'DelegationCreate' });

export const DelegationCreated = z
  .object({
    id: Uuid.describe('Unique identifier of the delegation.'),
    key: Text.describe('Key of the delegation, for the job or agent. It is returned only here.'),
    expires_at: Timestamp.describe(
      'When it ends: its own expiry, or that of the issuing application or key, if earlier.',
    ),
  })
  .meta({ id: 'DelegationCreated' });

export const SessionKind = z
  .enum(['session', 'delegation'])
  .describe('`session`: created by a browser. `delegation`: issued by a backend for a job or an agent.');

/** A session or delegation in responses, without its key and nonce. */
export const Session = z
  .object({
    id: Uuid.describe('Unique identifier of the session or delegation.'),
    tenant_id: Uuid.describe('The tenant that the session belongs to.'),
    application_id: Uuid.describe(
      'The application whose key created it: for a session, a public application.',
    ),
    kind: SessionKind,
    state: SessionState,
    subject: Text.optional().describe('The subject that it is for. Absent if its authorizer did not say.'),
    permissions: z
      .array(Permission)
      .describe('Permissions without a rule. Empty until the session is authorized.'),
    rules: z.array(Rule).describe('Access rules. Empty until the session is authorized.'),
    created_at: Timestamp.describe('When it was created.'),
    authorized_at: Timestamp.optional().describe('When it was authorized. Absent until then.'),
    authorized_by: Uuid.optional().describe('The application that authorized it. Absent until then.'),
    ceiling: Flag.describe(
      'Whether the session is limited to the current access of the key that authorized it.',
    ),
    bound: Flag.describe('Whether the session is bound: every request with its key needs a DPoP proof.'),
    max_uses: z.int().optional().describe('How many of its requests can succeed. Absent if unlimited.'),
    uses: z.int().optional().describe('How many of them it has made. Absent if they are unlimited.'),
    expires_at: Timestamp.describe(
      'When it ends: its own expiry, or that of its application or, with a ceiling, of its authorizer, if earlier.',
    ),
    quarantined_at: Timestamp.optional().describe(
      'Since when it is in quarantine: it can change nothing, and it reads tokens without their data. Absent if it is not; its application, or the one that authorized it, may be.',
    ),
  })
  .meta({ id: 'Session' });
export type Session = z.infer<typeof Session>;

/**
 * Whether a grant of the session applies in the container or below it. Permissions without a rule apply everywhere.
 * Does not consider the ceiling.
 */
export function appliesIn({ permissions, rules }: Grants, container: string): boolean {
  if (permissions.length > 0) return true;
  const wanted = { container: { value: canonicalContainer(container), exact: false } };
  return rules.some(({ conditions = [] }) => {
    const scope = scopeOf(
      conditions.map((each) =>
        each.attribute === 'container' ? { ...each, value: canonicalContainer(each.value) } : each,
      ),
    );
    return scope !== undefined && intersect(scope, wanted) !== undefined;
  });
}
