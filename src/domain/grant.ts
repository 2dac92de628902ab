/** Grants: what an Application or a Session may do, and who may hold what. */
import { z } from 'zod';
import { list } from './common-fields.ts';
import { originalIndex } from './dedupe.ts';
import type { Errors } from './error.ts';
import { isA, Permissions } from './permission.ts';
import { type Rule, Rules } from './rule.ts';

export const grantFields = {
  permissions: list(Permissions).describe('What it may do. Must be non-empty when there are no rules.'),
  rules: list(Rules).describe(
    'What it may do with which data. Must be non-empty when there are no permissions.',
  ),
};

const Grants = z.object(grantFields);
export type Grants = z.infer<typeof Grants>;

export const nothing: Grants = { permissions: [], rules: [] };

export type Owner = 'private' | 'public' | 'management' | 'session';

/** Every permission that the grants name, whatever narrows it. */
export function named(grants: Grants): string[] {
  return [...new Set([grants.permissions, ...grants.rules.map((rule) => rule.permissions)].flat())];
}

/** What is wrong with these grants for this kind of owner; empty when nothing is. */
export function grantErrors(owner: Owner, grants: Grants): Errors {
  const errors: Errors = {};
  if (grants.permissions.length + grants.rules.length === 0) {
    errors.permissions = ['must be non-empty when there are no rules'];
  }
  const holder = owner === 'session' ? 'Session' : 'public Application';
  for (const [path, permission] of placed(grants)) {
    if (!mayHold(owner, permission)) errors[path] = [`${permission} may not be held by a ${holder}`];
  }
  grants.rules.forEach((rule, index) => {
    const wrong = scopeError(owner, rule);
    if (wrong) errors[`rules.${originalIndex(grants.rules, index)}.${wrong.field}`] = [wrong.sentence];
  });
  return errors;
}

/** A key that lives in a browser must not change credentials or hand out access. */
function mayHold(owner: Owner, permission: string): boolean {
  return owner === 'private' || owner === 'management' || isA('browser', permission);
}

function scopeError(owner: Owner, rule: Rule): { field: string; sentence: string } | undefined {
  const [container, conditions] = [rule.container !== undefined, rule.conditions !== undefined];
  if (owner === 'session') {
    if (container) return { field: 'container', sentence: 'is for Applications: give conditions instead' };
    if (!conditions) return { field: 'conditions', sentence: 'is required in a rule of a Session' };
    return undefined;
  }
  if (conditions) return { field: 'conditions', sentence: 'is for Sessions: give a container instead' };
  if (owner === 'management' || container) return undefined;
  return { field: 'container', sentence: `is required in a rule of a ${owner} Application` };
}

function* placed({ permissions, rules }: Grants): Generator<[path: string, permission: string]> {
  yield* placedIn(permissions, 'permissions');
  for (const [index, rule] of rules.entries())
    yield* placedIn(rule.permissions, `rules.${originalIndex(rules, index)}.permissions`);
}

function* placedIn(permissions: string[], at: string): Generator<[path: string, permission: string]> {
  for (const [index, permission] of permissions.entries())
    yield [`${at}.${originalIndex(permissions, index)}`, permission];
}
