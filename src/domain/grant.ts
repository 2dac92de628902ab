/** Grants: the permissions and rules of an application or session. Which of them are allowed depends on the owner. */
import { z } from 'zod';
import { hasLength, optional, optionalList, originalIndex } from './common-fields.ts';
import type { Errors } from './error.ts';
import { Mask, templateProblem } from './mask.ts';
import { hasTrait, Permissions } from './permission.ts';
import { endOfRule, type Rule, Rules } from './rule.ts';
import { SearchTemplates } from './search.ts';
import { isObject } from './token.ts';
import { check, type Fault } from './validate.ts';

export const grantFields = {
  permissions: optionalList(Permissions).describe(
    'Permissions without a rule. They apply to every container with the transform `mask`. Required unless `rules` is given.',
  ),
  rules: optionalList(Rules).describe(
    'Access rules: which permissions apply to which tokens, and how much of the data is returned. Required unless `permissions` is given.',
  ),
};

const Grants = z.object(grantFields);
export type Grants = z.infer<typeof Grants>;

export const noGrants: Grants = { permissions: [], rules: [] };

export type Owner = 'private' | 'public' | 'management' | 'session' | 'delegation';

export function permissionsIn(grants: Grants): string[] {
  return [...new Set([grants.permissions, ...grants.rules.map((rule) => rule.permissions)].flat())];
}

/** Until when the grants have the permission, in milliseconds: 0 if they lack it. */
export function grantedUntil({ permissions, rules }: Grants, permission: string): number {
  if (permissions.includes(permission)) return Number.POSITIVE_INFINITY;
  return Math.max(0, ...rules.filter((rule) => rule.permissions.includes(permission)).map(endOfRule));
}

/** Errors of rules in a new application that have ended. */
export function endErrors({ rules }: Grants, now: number): Errors {
  const ended = [...rules.keys()].filter((index) => endOfRule(rules[index] as Rule) <= now);
  const paths = ended.map((index) => `rules.${originalIndex(rules, index)}.expires_at`);
  return Object.fromEntries(paths.map((path) => [path, ['must be in the future']]));
}

/** Validation errors of the grants for this type of owner. Empty if they are valid. */
export function grantErrors(owner: Owner, grants: Grants): Errors {
  const errors: Errors = {};
  if (grants.permissions.length + grants.rules.length === 0)
    errors.permissions = ['must not be empty unless rules are given'];
  const holder = isTemporary(owner) ? owner : 'public application';
  const checkPermissions = (permissions: string[], path: string) => {
    for (const [index, permission] of permissions.entries())
      if (!mayHold(owner, permission))
        errors[`${path}.${originalIndex(permissions, index)}`] = [
          `${permission} cannot be granted to a ${holder}`,
        ];
  };
  const pathOf = (index: number) => `rules.${originalIndex(grants.rules, index)}`;
  checkPermissions(grants.permissions, 'permissions');
  for (const [index, permission] of grants.permissions.entries())
    if (hasTrait(permission, 'destination'))
      errors[`permissions.${originalIndex(grants.permissions, index)}`] ??= [
        `${permission} needs a rule, which names destinations`,
      ];
  grants.rules.forEach((rule, index) => {
    checkPermissions(rule.permissions, `${pathOf(index)}.permissions`);
  });
  const created = defaultsByPriority(grants.rules);
  grants.rules.forEach((rule, index) => {
    const error = scopeError(owner, rule);
    if (error) errors[`${pathOf(index)}.${error.field}`] = [error.message];
    for (const { path, message } of defaultFaults(rule, created))
      errors[[pathOf(index), 'defaults', ...path].join('.')] = [message];
  });
  return errors;
}

/** Limits the time for parsing the templates. */
const maxDefaults = 8192;

const Defaults = z.strictObject({ mask: optional(Mask), search: optional(SearchTemplates) });

function defaultFaults({ defaults, priority }: Rule, created: DefaultsByPriority): readonly Fault[] {
  if (!defaults) return [];
  const checked = check(Defaults, defaults);
  if ('faults' in checked) return checked.faults;
  const texts = [...created.values()].flatMap((some) => [...some]);
  if (!hasLength(texts.join(''), 0, maxDefaults))
    return [
      { path: [], message: `must have at most ${maxDefaults} characters as JSON, in all rules together` },
    ];
  if ((created.get(priority)?.size ?? 0) > 1)
    return [{ path: [], message: 'must be the same in all rules of this priority that grant token:create' }];
  const { mask, search = {} } = checked.data;
  const templates = [
    { path: ['mask'], template: mask },
    ...Object.entries(search).map(([name, template]) => ({ path: ['search', name], template })),
  ];
  return templates.flatMap(({ path, template }) => {
    const message = templateProblem(template);
    return message === undefined ? [] : [{ path, message }];
  });
}

type DefaultsByPriority = ReadonlyMap<number, ReadonlySet<string>>;

/** Of rules with the same priority and different defaults, their order would decide which apply. */
function defaultsByPriority(rules: readonly Rule[]): DefaultsByPriority {
  const creating = rules.filter(({ permissions }) => permissions.includes('token:create'));
  const groups = Map.groupBy(creating, ({ priority }) => priority);
  return new Map(
    Array.from(groups, ([priority, some]) => [
      priority,
      new Set(some.map(({ defaults }) => inOrder(defaults ?? {}))),
    ]),
  );
}

/** JSON with sorted names, so that equal values have the same text. */
function inOrder(value: unknown): string {
  const sorted = (_: string, part: unknown) =>
    isObject(part) ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1))) : part;
  return JSON.stringify(value, sorted);
}

/** Keys in browsers, and keys for jobs and agents, must not change credentials, grant access or read about the whole tenant. */
function mayHold(owner: Owner, permission: string): boolean {
  if (owner === 'private' || owner === 'management' || hasTrait(permission, 'browser')) return true;
  return isTemporary(owner) && hasTrait(permission, 'session');
}

function isTemporary(owner: Owner): boolean {
  return owner === 'session' || owner === 'delegation';
}

function scopeError(owner: Owner, rule: Rule): { field: string; message: string } | undefined {
  const [container, conditions] = [rule.container !== undefined, rule.conditions !== undefined];
  if (isTemporary(owner)) {
    if (container) return { field: 'container', message: 'is only for applications: use conditions instead' };
    if (rule.expires_at !== undefined)
      return { field: 'expires_at', message: `is only for applications: the ${owner} has its own expiry` };
    if (!conditions) return { field: 'conditions', message: `is required in a rule of a ${owner}` };
    return undefined;
  }
  if (conditions)
    return { field: 'conditions', message: 'is only for sessions and delegations: use container instead' };
  if (owner === 'management' || container) return undefined;
  return { field: 'container', message: `is required in a rule of a ${owner} application` };
}
