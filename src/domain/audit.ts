/** Entries of the audit log. */
import { z } from 'zod';
import { DateTime, Flag, Id, line, Text, Timestamp, Uuid } from './common-fields.ts';
import { DecidingRule, MissingGrant } from './explain.ts';
import type { Resource } from './policy.ts';
import { Container, canonicalContainer, Transform } from './rule.ts';

export const results = ['success', 'denied', 'failed'] as const;

/** Which reads of token data the log records: all, only those of plaintext (`reveal`), or none. */
export const auditedReads = ['all', 'reveal', 'off'] as const;
export type AuditedReads = (typeof auditedReads)[number];

/** The row of the `settings` table that stores `SALLYPORT_AUDIT_READS`. */
export const readsSetting = 'audit_reads';

export const unrecordedTransforms: Record<AuditedReads, readonly Transform[]> = {
  all: [],
  reveal: ['redact', 'mask'],
  off: ['redact', 'mask', 'reveal'],
};

/** Written when a database is restored from a backup. */
export const restoreOperation = 'database.restore';

/** Records the ends of the tenants' chains in the system chain: tenant id → NUMBER:HASH, in `difference`. */
export const headsOperation = 'audit.heads';

/** The outcome of a use of tokens. The entry `token.use` was written before the request was sent. */
export const outcomeOperation = 'token.use.outcome';

/** Written some days before an application or key expires, with the expiry in `difference`. */
export const expiringOperation = 'key.expiring';

/** The person who signed in to the console. Their identity provider said all of it. */
export const Person = z
  .object({
    subject: Text.describe('Id of the person at their identity provider (`sub`).'),
    name: Text.optional().describe('Name at that time.'),
    email: Text.optional().describe('Email address at that time.'),
  })
  .meta({ id: 'Person' });
export type Person = z.infer<typeof Person>;

/** Names are not unique, so the email address or the subject follows. */
export function personName({ subject, name, email = subject }: Person): string {
  return name === undefined ? email : `${name} <${email}>`;
}

const Actor = z.object({
  kind: z
    .enum(['application', 'session', 'delegation', 'operator', 'anonymous', 'unknown'])
    .describe('Type of the actor. `unknown`: the entry was altered in the database and cannot be read.'),
  id: Uuid.optional().describe('Id of the application, session or delegation.'),
  application_id: Uuid.optional().describe(
    'The application, or the application of the session or delegation.',
  ),
  authorized_by: Uuid.optional().describe(
    'Sessions and delegations only: the application that authorized it.',
  ),
  subject: Text.optional().describe(
    'The subject of the session or delegation, or the workload that got the key for a JWT (its `sub`). Absent if unknown.',
  ),
  issuer: Text.optional().describe(
    'Keys from `POST /oauth/token`, and people who signed in to the console: the issuer of their JWT.',
  ),
  person: Person.optional().describe(
    'The person who signed in to the console as the application. Absent for keys.',
  ),
});

/** The tokens or other resources that a request read, changed, or was denied access to. */
const EntryResource = z
  .object({
    ids: z.array(z.string()).optional().describe('Ids of the resources.'),
    container: Text.optional().describe(
      'Their container. If they are in several, the deepest container that includes all of them.',
    ),
    omitted: z
      .int()
      .optional()
      .describe(
        'Aggregated entries only: how many more ids were counted and are not in `ids`. An id that was repeated can count several times. Absent if none.',
      ),
  })
  .meta({ id: 'LogResource' });

const EntryDecision = z
  .object({
    transform: Transform.optional().describe('How the data was returned. Absent if denied.'),
    rule: DecidingRule.optional().describe('The rule that decided, if a rule did.'),
    reason: Text.optional().describe('Denials only: the reason, as a sentence.'),
    missing: MissingGrant.optional().describe(
      'Denials only: the smallest grant that would have allowed the request.',
    ),
  })
  .meta({ id: 'LogDecision' });

/** The part of an entry that is stored as JSON. */
export const Entry = z.object({
  actor: Actor.describe('Who made the request.'),
  operation: Text.describe('The operation, such as `application.update`.'),
  entity: z
    .object({
      kind: Text.describe('Type of the resource.'),
      id: Text.describe('Id of the resource.'),
    })
    .optional()
    .describe('The resource that the operation was about.'),
  resource: EntryResource.optional().describe('The data that the request read, changed or was denied.'),
  decision: EntryDecision.optional().describe('The access decision at the time of the request.'),
  search: z
    .object({
      names: z
        .array(z.string())
        .describe('The names whose values were compared. The values are not recorded.'),
      hits: z.int().describe('The number of tokens in the response.'),
    })
    .optional()
    .describe('Searches only: what was searched for.'),
  use: z
    .object({
      destination: Text.describe('Id of the destination.'),
      name: Text.describe('Name of the destination at that time.'),
      method: Text.describe('Method of the request.'),
      path: Text.describe('Path pattern of the request.'),
      status: z.int().optional().describe('Outcomes only: the status of the reply. Absent without a reply.'),
    })
    .optional()
    .describe('Uses of tokens only: where the data was sent.'),
  purpose: Text.optional().describe('Why the request was made, from the `SVC-PURPOSE` header.'),
  result: z
    .enum(results)
    .describe(
      '`success`: the operation was performed. `denied`: the key was valid, but not allowed to. `failed`: the key was not valid; such entries belong to no tenant. With a tenant and the reason `not_found`: an application or session in quarantine requested a resource that does not exist.',
    ),
  reason: Text.optional().describe('The error code, if the operation did not succeed.'),
  from: z
    .object({
      ip: Text.optional().describe('IP address.'),
      user_agent: Text.optional().describe('`User-Agent` header.'),
    })
    .describe('Where the request came from, if known.'),
  request_id: Text.optional().describe('Id of the request.'),
  trace_id: Text.optional().describe('Id of the trace, from the `traceparent` header.'),
  difference: z
    .record(z.string(), z.object({ from: z.json().optional(), to: z.json().optional() }))
    .optional()
    .describe(
      'Updates only: the changed fields with the old and new values. Encrypted data is listed without values.',
    ),
  count: z
    .int()
    .optional()
    .describe('Number of equal events that this entry aggregates. Absent if it is one.'),
  overflow: Flag.optional().describe(
    'Whether the entry counts events of different sessions, addresses or containers, because the application had too many different ones in this minute. Absent if not.',
  ),
  reported_by: Uuid.optional().describe(
    'The application that asked about the credential, if the entry is a decision that it recorded with `record`, or a DPoP proof that was refused there.',
  ),
});
export type Entry = z.infer<typeof Entry>;
export type EntryResource = NonNullable<Entry['resource']>;
export type EntryDecision = NonNullable<Entry['decision']>;

/** Records `SALLYPORT_AUDIT_READS` at the start of the service, when it has changed. */
export const readsOperation = 'audit.reads';

/** Reason of an entry whose JSON was altered in the database. Only its other columns are returned. */
export const unreadable = 'unreadable';

/** For entries that the service or the command line writes without an API request. */
export const byOperator = { actor: { kind: 'operator' as const }, result: 'success' as const, from: {} };

export const LogEntry = z
  .object({
    id: Uuid.describe('Unique identifier of the entry.'),
    tenant_id: Uuid.optional().describe('The tenant that the entry belongs to.'),
    at: Timestamp.describe('When it happened.'),
    ...Entry.shape,
  })
  .meta({ id: 'LogEntry' });
export type LogEntry = z.infer<typeof LogEntry>;

export const LogGap = z
  .object({
    reason: z
      .enum(['archived', 'reads_not_recorded'])
      .describe(
        '`archived`: entries were moved to an archive or to other systems. `reads_not_recorded`: `SALLYPORT_AUDIT_READS` excluded reads from the log.',
      ),
    transforms: z
      .array(Transform)
      .optional()
      .describe('`reads_not_recorded` only: reads with these transforms are missing.'),
    from: Timestamp.optional().describe('When the gap begins. Absent if it begins with the log.'),
    to: Timestamp.optional().describe('When the gap ends. Absent if it has not ended.'),
  })
  .meta({ id: 'LogGap' });
export type LogGap = z.infer<typeof LogGap>;

export const logFilter = {
  token: line(1, 200).optional().describe('Only entries about the token with this id.'),
  container: Container.optional().describe('Only entries about data in this container or below it.'),
  actor: Id.optional().describe('Only entries of this application and its sessions, or of this session.'),
  entity: line(1, 200).optional().describe('Only entries about the resource with this id.'),
  operation: line(1, 100).optional().describe('Only this operation, such as `application.update`.'),
  result: z.enum(results).optional().describe('Only entries with this result.'),
  transform: Transform.optional().describe('Only entries about data that was returned with this transform.'),
  request_id: line(1, 128).optional().describe('Only entries of the request with this id.'),
  subject: line(1, 255)
    .optional()
    .describe('Only entries of sessions or workloads of this subject, such as `user:42`.'),
  purpose: line(1, 200).optional().describe('Only entries of requests with this purpose, exactly as stated.'),
  person: line(1, 320)
    .optional()
    .describe(
      'Only entries of the person with exactly this `subject` or `email` at that time. Case matters.',
    ),
  changes: z
    .literal(['true', 'false'])
    .optional()
    .describe('`true` for successful changes only: no reads, no uses of tokens or keys, and no denials.'),
  destination: Id.optional().describe('Only entries about uses of tokens at the destination with this id.'),
  from: DateTime.optional().describe('Only entries at or after this time.'),
  to: DateTime.optional().describe('Only entries before this time.'),
};
export type LogFilter = z.output<z.ZodObject<typeof logFilter>>;

/** The resources of an entry, with the deepest container that includes all of them. */
export function resourceOf(resources: readonly Resource[]): EntryResource {
  const result: { ids?: string[]; container?: string } = {};
  for (const { id, container } of resources) {
    if (id !== undefined) {
      if (result.ids) result.ids.push(id);
      else result.ids = [id];
    }
    if (container !== undefined)
      result.container = commonContainer(result.container, canonicalContainer(container));
  }
  return result;
}

/** The deepest container that includes both, in canonical form. */
export function commonContainer(a: string | undefined, b: string): string {
  if (a === undefined || a === b) return b;
  let end = 1;
  for (let at = 0; at < a.length && a[at] === b[at]; at++) if (a[at] === '/') end = at + 1;
  return a.slice(0, end);
}

export type Difference = NonNullable<Entry['difference']>;

/** The changed fields among `fields`, with old and new values. */
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
