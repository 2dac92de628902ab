/** Grants as audit entries record them, in `difference`. */
import type { Difference } from './audit.ts';
import { type Grants, grantFields } from './grant.ts';

/** The grants before (`from`) or after (`to`) a change. Undefined if permissions or rules are missing or invalid. */
export function recordedGrants(difference: Difference | undefined, side: 'from' | 'to'): Grants | undefined {
  if (!difference) return undefined;
  const permissions = grantFields.permissions.safeParse(difference.permissions?.[side]).data;
  const rules = grantFields.rules.safeParse(difference.rules?.[side]).data;
  return permissions && rules && { permissions, rules };
}
