import { z } from 'zod';
import { Count, Text, Timestamp, Uuid } from '../../domain/common-fields.ts';
import { fail } from '../../domain/error.ts';
import { readEndpoint, reply } from '../pipeline/route.ts';
import { example } from '../reference/examples.ts';

/** The tenant of the caller. It is never disabled, because the keys of a disabled tenant are invalid. */
const Tenant = z
  .object({
    id: Uuid.describe('Unique identifier of the tenant.'),
    tag: Text.describe(
      'The six characters after the kind in every key of the tenant, such as `slp_pvt_k3ZrT9…`. Never changes. A proxy can route requests by it.',
    ),
    name: Text.describe('Display name.'),
    created_at: Timestamp.describe('When it was created.'),
    applications: Count.optional().describe('Number of applications. Absent if there are too many to count.'),
    max_lifetime: z
      .int()
      .min(1)
      .optional()
      .describe(
        'Maximum lifetime of its applications and keys, in seconds: no `expires_at` in a request may be later than that. Absent if unlimited.',
      ),
    purposes: z
      .array(z.string())
      .optional()
      .describe(
        'The purposes that `SVC-PURPOSE` may state, each optionally followed by a space or colon and a reference. Absent if every purpose is accepted.',
      ),
  })
  .meta({ id: 'Tenant' });

export const getTenant = readEndpoint({
  name: 'getTenant',
  tag: 'Tenants',
  summary: 'Get the tenant of your key',
  replies: { 200: reply('The tenant.', Tenant, example.tenant) },
  handle: async ({ principal: { tenantId } }, { store }) => {
    const [tenant, applications] = await Promise.all([
      store.tenants.get(tenantId),
      store.applications.count(tenantId),
    ]);
    if (!tenant) throw fail('unauthenticated');
    const { id, tag, name, created_at, max_lifetime, purposes } = tenant;
    return { status: 200, body: { id, tag, name, created_at, applications, max_lifetime, purposes } };
  },
});
