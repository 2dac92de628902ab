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

const transforms = ['reveal', 'mask', 'redact'] as const;

export interface Read {
  readonly transform: (typeof transforms)[number];
  /** Undefined for all containers. */
  readonly container: string | undefined;
}

/** Where the grants allow reads of tokens, riskiest first. Leaves out rules that a rule before them replaces. */
export function readsOf({ permissions, rules }: Grants): Read[] {
  const reading = rules.filter((rule) => rule.permissions.includes('token:read'));
  const strictness = (rule: AccessRule) => transforms.indexOf(rule.transform);
  const decides = (a: AccessRule, b: AccessRule) =>
    a.priority < b.priority || (a.priority === b.priority && strictness(a) > strictness(b));
  const path = ({ container = '/' }: AccessRule) => container.toLowerCase();
  const effective = reading.filter(
    (rule) => !reading.some((other) => decides(other, rule) && path(rule).startsWith(path(other))),
  );
  const reads: Read[] = effective.map(({ transform, container }) => ({ transform, container }));
  const isEverywhere = reading.some((rule) => path(rule) === '/');
  if (permissions.includes('token:read') && !isEverywhere)
    reads.push({ transform: 'mask', container: undefined });
  return reads.sort((a, b) => transforms.indexOf(a.transform) - transforms.indexOf(b.transform));
}

export function summarizeGrants({ permissions, rules }: Grants, all: number): string {
  const ruleTexts = rules.map(({ transform, container = 'all containers' }) => `${transform} ${container}`);
  return [...ruleTexts, summarizePermissions(permissions, all)].filter(Boolean).join(' · ');
}
