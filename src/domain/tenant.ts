import { z } from 'zod';
import { Timestamp } from './common-fields.ts';

/** The tenant of the caller. A disabled tenant is never returned, since its keys are rejected. */
export const Tenant = z
  .object({
    id: z.uuid().describe('Unique identifier of the tenant.'),
    name: z.string().describe('Display name.'),
    created_at: Timestamp.describe('When it was created.'),
    applications: z
      .int()
      .min(0)
      .optional()
      .describe('Number of applications. Absent if there are too many to count.'),
  })
  .meta({ id: 'Tenant' });
