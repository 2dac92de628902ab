/** Grants: the permissions and rules of an application or session. Which of them are allowed depends on the owner. */
import { z } from 'zod';
import { optional, optionalList, originalIndex } from './common-fields.ts';
import type { Errors } from './error.ts';
import { Mask } from './mask.ts';
import { hasTrait, Permissions } from './permission.ts';
import { type Rule, Rules } from './rule.ts';
import { SearchTemplates } from './search.ts';
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

/** Validation errors of the grants for this type of owner. Empty if they are valid. */
export function grantErrors(owner: Owner, grants: Grants): Errors {
  const errors: Errors = {};
  if (grants.permissions.length + grants.rules.length === 0) {
    errors.permissions = ['must not be empty unless rules are given'];
  }
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
  grants.rules.forEach((rule, index) => {
    checkPermissions(rule.permissions, `${pathOf(index)}.permissions`);
  });
  grants.rules.forEach((rule, index) => {
    const error = scopeError(owner, rule);
    if (error) errors[`${pathOf(index)}.${error.field}`] = [error.message];
    for (const { path, message } of defaultFaults(rule, grants.rules))
      errors[[pathOf(index), 'defaults', ...path].join('.')] = [message];
  });
  return errors;
}

const Defaults = z.strictObject({ mask: optional(Mask), search: optional(SearchTemplates) });

/** Of two rules with the same priority, the order would otherwise decide which defaults apply. */
function defaultFaults({ defaults, priority }: Rule, rules: readonly Rule[]): readonly Fault[] {
  if (!defaults) return [];
  const others = rules.filter(
    (rule) => rule.priority === priority && rule.permissions.includes('token:create'),
  );
  if (others.some((rule) => JSON.stringify(rule.defaults) !== JSON.stringify(defaults)))
    return [{ path: [], message: 'must be the same in all rules of this priority that grant token:create' }];
  const checked = check(Defaults, defaults);
  return 'faults' in checked ? checked.faults : [];
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
    if (!conditions) return { field: 'conditions', message: `is required in a rule of a ${owner}` };
    return undefined;
  }
  if (conditions)
    return { field: 'conditions', message: 'is only for sessions and delegations: use container instead' };
  if (owner === 'management' || container) return undefined;
  return { field: 'container', message: `is required in a rule of a ${owner} application` };
}
