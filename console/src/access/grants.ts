/** Helpers for editing and describing grants. */
import type { AccessRule, AccessRuleCondition, Application, Permission } from '../../../sdk/src/sallyport.ts';
import { destinationName } from '../destinations/stored.ts';
import { formatDate } from '../frame/format.ts';

export type Owner = 'private' | 'public' | 'management' | 'session';

export interface Grants {
  readonly permissions: readonly string[];
  readonly rules: readonly AccessRule[];
}

export const noGrants: Grants = { permissions: [], rules: [] };

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

/** Why this owner cannot hold the permission, or why the signed-in key cannot grant it. Undefined if it can. */
export function whyNotGrantable(
  { name, browser, management }: Permission,
  owner: Owner,
  held: (permission: string) => boolean,
): string | undefined {
  if (!browser && owner === 'public') return 'Not for public applications.';
  if (!browser && owner === 'session') return 'Not for sessions.';
  if (management && !held(name)) return 'Your key must hold it to grant it.';
  return undefined;
}

interface MissingGrant {
  readonly permission: string;
  readonly container?: string;
  readonly transform?: AccessRule['transform'];
}

/** The grants with the smallest addition that allows what was denied. */
export function withGrant({ permissions, rules }: Grants, missing: MissingGrant): Grants {
  const { permission, container, transform = 'redact' } = missing;
  if (container === undefined) return { permissions: [...permissions, permission], rules };
  const isSame = (rule: AccessRule) => rule.container === container && rule.permissions.includes(permission);
  if (rules.some(isSame))
    return { permissions, rules: rules.map((rule) => (isSame(rule) ? { ...rule, transform } : rule)) };
  const rule = { ...newRule('private', rules), container, transform, permissions: [permission] };
  return { permissions, rules: [...rules, rule] };
}

const permissionPattern = /^[a-z][a-z0-9_-]*(:[a-z][a-z0-9_-]*)+$/;

export function familyOf(permission: string): string {
  return permission.slice(0, permission.indexOf(':'));
}

/** Whether the text is a permission outside of the built-in families. */
export function isCustomPermission(text: string, known: readonly Permission[]): boolean {
  return permissionPattern.test(text) && !known.some(({ name }) => familyOf(name) === familyOf(text));
}

export function ruleTitle(rule: AccessRule): string {
  if (rule.container !== undefined) return rule.container;
  if (!rule.conditions) return 'all containers';
  return rule.conditions
    .map(({ attribute, operator, value }) =>
      attribute === 'container'
        ? `${operator === 'equals' ? 'exactly ' : ''}${value}`
        : `id ${operator === 'equals' ? '=' : 'starts with'} ${value}`,
    )
    .join(' and ');
}

export interface Difference {
  readonly kind: 'added' | 'removed' | 'changed';
  readonly text: string;
}

export function describeRule(rule: AccessRule): string {
  const purpose = rule.require_purpose ? ' with purpose' : '';
  const defaults = rule.defaults ? `, defaults ${JSON.stringify(rule.defaults)}` : '';
  const end = rule.expires_at ? `, ends ${formatDate(rule.expires_at)}` : '';
  const places = rule.destinations ? ` at ${rule.destinations.map(destinationName).join(', ')}` : '';
  return `${rule.priority}. ${rule.transform}${purpose} in ${ruleTitle(rule)}${places}: ${rule.permissions.join(', ')}${defaults}${end}${rule.description ? ` (${rule.description})` : ''}`;
}

type TrustedIssuer = NonNullable<Application['trusted_issuers']>[number];

export function describeIssuer({ issuer, audience, claims, ...rest }: TrustedIssuer): string {
  const pairs = (fields: object) =>
    Object.entries(fields)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, value]) => `${name} = ${value}`);
  return [`${issuer} for ${audience} if ${pairs(claims).join(' and ')}`, ...pairs(rest)].join(', ');
}

function listDifferences(before: readonly string[], after: readonly string[], what: string): Difference[] {
  const removed = before.filter((line) => !after.includes(line));
  const added = after.filter((line) => !before.includes(line));
  return [
    ...removed.map((text) => ({ kind: 'removed' as const, text: `${what} ${text}` })),
    ...added.map((text) => ({ kind: 'added' as const, text: `${what} ${text}` })),
  ];
}

export interface ApplicationFields extends Grants {
  readonly name: string;
  readonly allowed_origins?: readonly string[] | undefined;
  readonly allowed_networks?: readonly string[] | undefined;
  readonly trusted_issuers?: readonly TrustedIssuer[] | undefined;
  readonly require_bound_sessions?: boolean | undefined;
  readonly expires_at?: string | undefined;
}

function formatExpiry(at: string | undefined): string {
  return at === undefined ? 'never' : formatDate(at);
}

export function differences(before: ApplicationFields, after: ApplicationFields): Difference[] {
  return [
    ...(before.name === after.name
      ? []
      : [{ kind: 'changed' as const, text: `name “${before.name}” → “${after.name}”` }]),
    ...(before.expires_at === after.expires_at
      ? []
      : [
          {
            kind: 'changed' as const,
            text: `expiry ${formatExpiry(before.expires_at)} → ${formatExpiry(after.expires_at)}`,
          },
        ]),
    ...(Boolean(before.require_bound_sessions) === Boolean(after.require_bound_sessions)
      ? []
      : [
          {
            kind: after.require_bound_sessions ? ('added' as const) : ('removed' as const),
            text: 'requirement for bound sessions',
          },
        ]),
    ...listDifferences(before.permissions, after.permissions, 'permission'),
    ...listDifferences(before.rules.map(describeRule), after.rules.map(describeRule), 'rule'),
    ...listDifferences(before.allowed_origins ?? [], after.allowed_origins ?? [], 'origin'),
    ...listDifferences(before.allowed_networks ?? [], after.allowed_networks ?? [], 'network'),
    ...listDifferences(
      (before.trusted_issuers ?? []).map(describeIssuer),
      (after.trusted_issuers ?? []).map(describeIssuer),
      'trusted issuer',
    ),
  ];
}
