import { fail } from '../../domain/error.ts';
import { Tenant } from '../../domain/tenant.ts';
import { readEndpoint } from '../pipeline/route.ts';
import { example } from '../reference/examples.ts';

export const getTenant = readEndpoint({
  name: 'getTenant',
  tag: 'Tenants',
  summary: 'Get the tenant of your key',
  replies: { 200: { description: 'The tenant.', schema: Tenant, example: example.tenant } },
  handle: async ({ principal: { tenantId } }, { store }) => {
    const [tenant, applications] = await Promise.all([
      store.tenants.get(tenantId),
      store.applications.count(tenantId),
    ]);
    if (!tenant) throw fail('unauthenticated');
    const { id, name, created_at } = tenant;
    return {
      status: 200,
      body: { id, name, created_at, ...(applications !== undefined && { applications }) },
    };
  },
});
