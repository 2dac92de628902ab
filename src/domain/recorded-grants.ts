/** Grants as audit entries record them, in `difference`. */
import type { Difference } from './audit.ts';
import { type Grants, grantFields } from './grant.ts';

/** The old or new grants of an entry that records both completely. Undefined if they are missing or were altered. */
export function recordedGrants(difference: Difference | undefined, side: 'from' | 'to'): Grants | undefined {
  if (!difference) return undefined;
  const permissions = grantFields.permissions.safeParse(difference.permissions?.[side]).data;
  const rules = grantFields.rules.safeParse(difference.rules?.[side]).data;
  return permissions && rules && { permissions, rules };
}
