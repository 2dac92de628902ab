/**
 * A second, deliberately simple implementation of the access rules, to compare with src/domain/policy.ts.
 * It is written from the specification alone and must not share code with that file.
 */

export type NaiveRule = {
  priority: number;
  container?: string | undefined;
  conditions?:
    | { attribute: 'id' | 'container'; operator: 'equals' | 'starts_with'; value: string }[]
    | undefined;
  transform: 'redact' | 'mask' | 'reveal';
  require_purpose?: boolean | undefined;
  permissions: string[];
  destinations?: string[] | undefined;
};
export type NaiveGrants = { permissions: string[]; rules: NaiveRule[] };
export type NaiveResource = {
  id?: string | undefined;
  container?: string | undefined;
  destination?: string | undefined;
  /** Of a stored token whose uses are limited. */
  max_uses?: number | null | undefined;
};

/** Stands for the plain permissions where rules are named by index. */
export const plainPermissions = 'permissions';

export type NaiveVerdict =
  | { allowed: false }
  | {
      allowed: true;
      transform: NaiveRule['transform'];
      /** The rules that may be reported as deciding. Several if they have the same priority, transform and purpose. */
      deciders: (number | typeof plainPermissions)[];
    };

export function naiveDecide(
  grants: NaiveGrants,
  permission: string,
  resource: NaiveResource,
  purpose?: string,
): NaiveVerdict {
  const rules = grants.rules.map((rule, index) => ({
    ...rule,
    index: index as number | typeof plainPermissions,
  }));
  const last: (typeof rules)[number] = {
    priority: Infinity,
    transform: 'mask',
    permissions: grants.permissions,
    index: plainPermissions,
  };
  const candidates = [...rules, last]
    .filter((rule) => rule.permissions.includes(permission))
    .filter((rule) => ruleMatches(rule, permission, resource));
  if (candidates.length === 0) return { allowed: false };

  const lowest = Math.min(...candidates.map((rule) => rule.priority));
  const first = candidates.filter((rule) => rule.priority === lowest);
  const order = ['redact', 'mask', 'reveal with purpose', 'reveal'];
  const kindOf = (rule: NaiveRule) =>
    rule.transform === 'reveal' && rule.require_purpose ? 'reveal with purpose' : rule.transform;
  const strictestKind = order.find((kind) => first.some((rule) => kindOf(rule) === kind))!;
  const deciders = first.filter((rule) => kindOf(rule) === strictestKind).map((rule) => rule.index);
  const isRevealed =
    strictestKind === 'reveal' || (strictestKind === 'reveal with purpose' && purpose !== undefined);
  const hasMaxUses =
    permission.split(':')[0] === 'token' && resource.max_uses !== undefined && resource.max_uses !== null;
  const shown = strictestKind === 'redact' ? 'redact' : isRevealed && !hasMaxUses ? 'reveal' : 'mask';
  return { allowed: true, transform: shown, deciders };
}

/** Grants and ceiling must both allow the permission. The stricter transform applies. */
export function naiveDecideUnder(
  grants: NaiveGrants,
  ceiling: NaiveGrants | undefined,
  permission: string,
  resource: NaiveResource,
  purpose?: string,
): { allowed: false } | { allowed: true; transform: NaiveRule['transform'] } {
  const own = naiveDecide(grants, permission, resource, purpose);
  if (!own.allowed) return { allowed: false };
  if (ceiling === undefined) return { allowed: true, transform: own.transform };
  const above = naiveDecide(ceiling, permission, resource, purpose);
  if (!above.allowed) return { allowed: false };
  return { allowed: true, transform: strictest([own.transform, above.transform]) };
}

/** Whether rules apply by container and id: true for tokens and for users' own resource types. */
export function isDataPermission(permission: string): boolean {
  const family = permission.split(':')[0]!;
  return !['application', 'session', 'destination', 'decision', 'log', 'tenant'].includes(family);
}

/** Whether the rule's container and conditions match the resource. */
export function ruleMatches(
  rule: Pick<NaiveRule, 'container' | 'conditions' | 'destinations'>,
  permission: string,
  resource: NaiveResource,
): boolean {
  if (permission === 'token:use' && !rule.destinations?.some((one) => one === resource.destination))
    return false;
  if (!isDataPermission(permission)) return true;
  const inContainer = rule.container === undefined || covers(rule.container, resource.container);
  const conditions = rule.conditions ?? [];
  return inContainer && conditions.filter((condition) => !holds(condition, resource)).length === 0;
}

function holds(
  { attribute, operator, value }: NonNullable<NaiveRule['conditions']>[number],
  resource: NaiveResource,
): boolean {
  const { id, container } = resource;
  if (attribute === 'id') {
    if (id === undefined) return false;
    return operator === 'equals' ? id === value : id.slice(0, value.length) === value;
  }
  if (operator === 'starts_with') return covers(value, container);
  return container !== undefined && covers(value, container) && covers(container, value);
}

/** The root covers every resource, even one without a container. Any other container covers its own subtree. */
function covers(outer: string, inner: string | undefined): boolean {
  const above = segments(outer);
  if (above.length === 0) return true;
  if (inner === undefined) return false;
  const below = segments(inner);
  return above.every((segment, depth) => below[depth] === segment);
}

function segments(container: string): string[] {
  return container
    .toLowerCase()
    .split('/')
    .filter((segment) => segment !== '');
}

function strictest(transforms: NaiveRule['transform'][]): NaiveRule['transform'] {
  if (transforms.includes('redact')) return 'redact';
  return transforms.includes('mask') ? 'mask' : 'reveal';
}
