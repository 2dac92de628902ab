import { z } from 'zod';
import { Timestamp } from './common-fields.ts';

/** A tenant as those within it see it: whoever can ask is not disabled. */
export const Tenant = z
  .object({
    id: z.uuid().describe('Its own, for as long as it lives.'),
    name: z.string().describe('What its operator calls it.'),
    created_at: Timestamp.describe('When it was created.'),
    applications: z
      .int()
      .min(0)
      .optional()
      .describe('How many Applications it has. Absent if there are too many to count.'),
  })
  .meta({ id: 'Tenant' });
