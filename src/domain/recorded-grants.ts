/** Grants as audit entries record them, in `difference`. */
import type { Difference } from './audit.ts';
import { type Grants, grantFields } from './grant.ts';

/**
 * The grants before (`from`) or after (`to`) a change. A field that is not in the difference is an empty list. Undefined
 * without a difference, or if permissions or rules are invalid.
 */
export function recordedGrants(difference: Difference | undefined, side: 'from' | 'to'): Grants | undefined {
  if (!difference) return undefined;
  const permissions = grantFields.permissions.safeParse(difference.permissions?.[side]).data;
  const rules = grantFields.rules.safeParse(difference.rules?.[side]).data;
  return permissions && rules && { permissions, rules };
}
