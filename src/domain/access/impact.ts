/** The impact of updating an application: the fields of the response. */
import { z } from 'zod';
import { auditedReads } from '../audit.ts';
import { Count, Flag, Text, Timestamp, Uuid } from '../common-fields.ts';
import type { Policy } from '../policy.ts';
import { AccessChange } from './change.ts';

const complete = Flag.describe('False if only a part was examined: the counts are then lower bounds.');
const change = { from: AccessChange.shape.from, to: AccessChange.shape.to };

export const maxChanges = 200;
export const maxListedSessions = 20;

const SessionImpact = z.object({
  id: Uuid.describe('The id of the session.'),
  application: z
    .object({ id: Uuid.describe('Its id.'), name: Text.describe('Its name.') })
    .describe('The application of the session.'),
  ...AccessChange.shape,
});

export const Impact = z
  .object({
    dry_run: z.literal(true).describe('Always `true`: the update was not made.'),
    quarantined: z
      .literal(true)
      .optional()
      .describe(
        'The application is in quarantine. The impact is that after its release. Absent if it is not.',
      ),
    changes: z
      .array(AccessChange)
      .max(maxChanges)
      .describe('How the access of the application changes, by permission and container.'),
    changes_complete: Flag.describe(`False if there are more than ${maxChanges} changes.`),
    sessions: z
      .object({
        count: Count.describe('How many sessions have other access than before.'),
        complete,
        data: z
          .array(SessionImpact)
          .max(maxListedSessions)
          .describe('Sessions with the largest change of each, newest first.'),
      })
      .describe('Active sessions whose ceiling is a key of the application.'),
    tokens: z
      .object({
        complete,
        data: z
          .array(
            z.object({
              permission: Text.describe('The permission.'),
              container: Text.describe('The container of the change.'),
              ...change,
              count: Count.describe('How many tokens are in it, without those of other changes.'),
            }),
          )
          .describe('The number of tokens by change, largest first.'),
      })
      .describe('Stored tokens for which the access of the application changes.'),
    reads: z
      .object({
        since: Timestamp.describe('Entries of the audit log since this time are examined.'),
        recorded: z
          .enum(auditedReads)
          .describe('Which reads the audit log records: `SALLYPORT_AUDIT_READS` of the service.'),
        complete: Flag.describe(
          'False if only a part of the entries was examined: the counts are then lower bounds. Entries that are not written yet are not part of it: reads of masked or redacted data are written up to a minute later.',
        ),
        undecided: Count.describe(
          'Reads of sessions or tokens about which too little is recorded, such as deleted tokens that may have had `max_uses`, and tokens beyond those that an entry names.',
        ),
        data: z
          .array(
            z.object({
              permission: Text.describe('The permission that was used.'),
              ...change,
              count: Count.describe('How many recorded uses change.'),
              applications: Count.describe('How many applications they are from.'),
            }),
          )
          .describe('The number of uses by change, largest first.'),
      })
      .describe(
        'Recorded uses, decided again with the current and with the new rules. A use that returned less than the current rules allow counts as one that asked for less with `transform`.',
      ),
  })
  .meta({ id: 'Impact' });
export type Impact = z.infer<typeof Impact>;

/** An application with its policy before and after an update. */
export interface Update {
  readonly tenantId: string;
  readonly applicationId: string;
  readonly before: Policy;
  readonly after: Policy;
}
