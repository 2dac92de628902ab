import { z } from 'zod';
import { Timestamp } from '../../domain/common-fields.ts';
import { fail } from '../../domain/error.ts';
import { compilePolicy } from '../../domain/policy.ts';
import { maxUses, UnusedGrant, Use, unusedGrants } from '../../domain/usage.ts';
import { readEndpoint } from '../pipeline/route.ts';
import { example } from '../reference/examples.ts';
import { params } from './applications.ts';

const ApplicationUsage = z
  .object({
    last_used_at: Timestamp.optional().describe('When it was last used at all; absent if never.'),
    uses: z
      .array(Use)
      .max(maxUses)
      .describe(
        `What its grants were used for, the latest first. At most ${maxUses}: if there are more, containers are merged into their parents, then the least recently used permissions are dropped.`,
      ),
    unused: z
      .array(UnusedGrant)
      .describe('Grants, as they are now, of which no use is on record: they may not be needed.'),
  })
  .meta({ id: 'ApplicationUsage' });

export const getUsage = readEndpoint({
  name: 'getUsage',
  tag: 'Applications',
  summary: 'See what an Application makes use of',
  description:
    'Which of its permissions were last used when and in which container, and which never. Written once a minute. What a Session does counts for its authorizer if it can do no more than that one, and for nobody otherwise; an allowed decision counts for the credential that it is about.',
  params,
  replies: {
    200: { description: 'What is on record.', schema: ApplicationUsage, example: example.usage },
  },
  failures: ['not_found'],
  handle: async ({ principal, params }, { store }) => {
    const application = await store.applications.get(principal.tenantId, params.id);
    if (!application) throw fail('not_found');
    const uses = await store.usage.list(principal.tenantId, params.id);
    const { last_used_at } = application;
    const unused = unusedGrants(compilePolicy(application), uses);
    return { status: 200, body: { ...(last_used_at !== undefined && { last_used_at }), uses, unused } };
  },
});
