/** Short descriptions of grants for lists. */
import type { AccessRule } from '../../../sdk/src/sallyport.ts';

export interface Grants {
  readonly permissions: readonly string[];
  readonly rules: readonly AccessRule[];
}

/** `token:create`, `token:read` → `token create, read`. */
export function groupByFamily(permissions: readonly string[]): string[] {
  const families = Map.groupBy(permissions, (name) => name.slice(0, name.indexOf(':')));
  return [...families].map(
    ([family, names]) => `${family} ${names.map((name) => name.slice(family.length + 1)).join(', ')}`,
  );
}

export function summarizePermissions(permissions: readonly string[], all: number): string {
  return permissions.length >= all ? 'all built-in permissions' : groupByFamily(permissions).join(' · ');
}

export function summarizeGrants({ permissions, rules }: Grants, all: number): string {
  const ruleTexts = rules.map(({ transform, container = 'all containers' }) => `${transform} ${container}`);
  return [...ruleTexts, summarizePermissions(permissions, all)].filter(Boolean).join(' · ');
}
