/** Grants while they are being written. */
import type { AccessRule, AccessRuleCondition, Permission } from '../../../sdk/src/sallyport.ts';

export type Owner = 'private' | 'public' | 'management' | 'session';

export interface Grants {
  readonly permissions: readonly string[];
  readonly rules: readonly AccessRule[];
}

export const nothing: Grants = { permissions: [], rules: [] };

export function newRule(owner: Owner, rules: readonly AccessRule[]): AccessRule {
  const priority = Math.max(0, ...rules.map((rule) => rule.priority)) + 1;
  const rule = { priority, transform: 'mask', permissions: ['token:read'] } as const;
  if (owner === 'session')
    return { ...rule, permissions: [...rule.permissions], conditions: [newCondition()] };
  return { ...rule, permissions: [...rule.permissions], container: '/general/' };
}

export function newCondition(): AccessRuleCondition {
  return { attribute: 'container', operator: 'starts_with', value: '/general/' };
}

/** Why this owner may not hold it, or this key not hand it on; nothing if it may. */
export function obstacle(
  { name, browser, management }: Permission,
  owner: Owner,
  held: (permission: string) => boolean | undefined,
): string | undefined {
  if (!browser && owner === 'public') return 'not for a key that lives in a browser';
  if (!browser && owner === 'session') return 'not for a Session';
  if (management && held(name) === false) return 'only who holds it can hand it on';
  return undefined;
}

export function ruleTitle(rule: AccessRule): string {
  if (rule.container !== undefined) return rule.container;
  if (!rule.conditions) return 'everywhere';
  return rule.conditions
    .map(({ attribute, operator, value }) =>
      attribute === 'container'
        ? `${operator === 'equals' ? 'exactly ' : ''}${value}`
        : `id ${operator === 'equals' ? '=' : 'begins with'} ${value}`,
    )
    .join(' and ');
}

export interface Difference {
  readonly kind: 'added' | 'removed' | 'changed';
  readonly text: string;
}

export function describeRule(rule: AccessRule): string {
  return `${rule.priority}. ${rule.transform} in ${ruleTitle(rule)}: ${rule.permissions.join(', ')}${rule.description ? ` (${rule.description})` : ''}`;
}

/** What of one list is not in the other, as lines. */
function lines(before: readonly string[], after: readonly string[], what: string): Difference[] {
  const removed = before.filter((line) => !after.includes(line));
  const added = after.filter((line) => !before.includes(line));
  return [
    ...removed.map((text) => ({ kind: 'removed' as const, text: `${what} ${text}` })),
    ...added.map((text) => ({ kind: 'added' as const, text: `${what} ${text}` })),
  ];
}

export interface Described extends Grants {
  readonly name: string;
  readonly allowed_origins?: readonly string[] | undefined;
}

export function differences(before: Described, after: Described): Difference[] {
  return [
    ...(before.name === after.name
      ? []
      : [{ kind: 'changed' as const, text: `name “${before.name}” → “${after.name}”` }]),
    ...lines(before.permissions, after.permissions, 'permission'),
    ...lines(before.rules.map(describeRule), after.rules.map(describeRule), 'rule'),
    ...lines(before.allowed_origins ?? [], after.allowed_origins ?? [], 'origin'),
  ];
}
