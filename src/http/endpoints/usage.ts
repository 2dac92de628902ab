import { z } from 'zod';
import { Timestamp } from '../../domain/common-fields.ts';
import { orNotFound } from '../../domain/error.ts';
import { compilePolicy } from '../../domain/policy.ts';
import { KeyUsage, keptDays, maxUses, UnusedGrant, Use, unusedGrants } from '../../domain/usage.ts';
import { readEndpoint, reply } from '../pipeline/route.ts';
import { example } from '../reference/examples.ts';
import { params } from './applications.ts';

const ApplicationUsage = z
  .object({
    last_used_at: Timestamp.optional().describe('When the application was last used. Absent if never.'),
    uses: z
      .array(Use)
      .max(maxUses)
      .describe(
        `When and where each permission was last used, latest first. At most ${maxUses} entries: beyond that, containers are merged into their parents, then the least recently used permissions are dropped.`,
      ),
    unused: z.array(UnusedGrant).describe('Current grants without a recorded use. They may be unnecessary.'),
    keys: z.array(KeyUsage).describe('The requests with each key by day, newest key first.'),
  })
  .meta({ id: 'ApplicationUsage' });

export const getUsage = readEndpoint({
  name: 'getUsage',
  tag: 'Applications',
  summary: 'Get the usage of an application',
  description: `Returns when each permission of an application was last used, in which container, and which grants were never used, and how many requests were made with each key on each of the last ${keptDays} days. Uses are written once a minute. Requests of a session count for the application whose key is its ceiling, and otherwise for no application. An allowed decision counts for the credential in question.`,
  params,
  replies: { 200: reply('The recorded usage.', ApplicationUsage, example.usage) },
  failures: ['not_found'],
  handle: async ({ principal, params }, { store, longWork }) => {
    const application = orNotFound(await store.applications.get(principal.tenantId, params.id));
    const uses = await store.usage.list(principal.tenantId, params.id);
    const keys = await store.usage.keys(principal.tenantId, params.id, principal.now);
    const { last_used_at } = application;
    const steps = unusedGrants(compilePolicy(application), uses);
    const unused = await longWork.run(principal, steps);
    return { status: 200, body: { ...(last_used_at !== undefined && { last_used_at }), uses, unused, keys } };
  },
});
