/** The access of an application at earlier times, from its current state and the audit entries since then. */
import type { Application } from '../application.ts';
import type { Difference, LogEntry } from '../audit.ts';
import { type Grants, grantFields, noGrants } from '../grant.ts';
import { compilePolicy, type Policy } from '../policy.ts';
import { quarantined } from '../quarantine.ts';
import { currentRules } from '../rule.ts';

/** The fields of an application that determine its access. */
export interface ApplicationState extends Grants {
  readonly name: string;
  readonly created_at: string;
  readonly expires_at?: string | undefined;
  readonly quarantined_at?: string | undefined;
}

/** Written when an expired application is removed, with its last state. */
export const expireOperation = 'application.expire';

/** The operations that change the access of an application. */
export const accessOperations = [
  'application.create',
  'application.update',
  'application.quarantine',
  'application.release',
  'application.delete',
  expireOperation,
] as const;

const stateFields = ['name', 'permissions', 'rules', 'created_at', 'expires_at', 'quarantined_at'] as const;

/** The fields of a new application, as its audit entry records them. */
export function createdState(application: Application): Difference {
  return recordedState(application, 'to');
}

/** The last state of an application, as the audit entry about its removal records it. */
export function removedState(application: ApplicationState): Difference {
  return recordedState(application, 'from');
}

function recordedState(state: ApplicationState, side: 'from' | 'to'): Difference {
  const present = stateFields.filter((field) => state[field] !== undefined);
  return Object.fromEntries(present.map((field) => [field, { [side]: state[field] }])) as Difference;
}

/** The state before an entry. Undefined if neither the entry nor `after`, the state after it, tells the old values. */
export function stateBefore(
  after: ApplicationState | undefined,
  entry: LogEntry,
): ApplicationState | undefined {
  const { operation, difference = {} } = entry;
  if (operation === 'application.create') return after;
  if (operation === 'application.delete' || operation === expireOperation) return stateIn(difference);
  if (!after) return undefined;
  const before: Record<string, unknown> = { ...after };
  for (const field of stateFields) {
    const changed = difference[field];
    if (changed) before[field] = changed.from;
  }
  return checked(before);
}

function stateIn(difference: Difference): ApplicationState | undefined {
  return checked(Object.fromEntries(stateFields.map((field) => [field, difference[field]?.from])));
}

/** Returns undefined if a field is missing or invalid. */
function checked(state: Record<string, unknown>): ApplicationState | undefined {
  const { name, created_at, expires_at, quarantined_at } = state;
  const [permissions, rules] = [state.permissions, state.rules].map((list) => Array.isArray(list) && list);
  if (!permissions || !rules || typeof name !== 'string' || typeof created_at !== 'string') return undefined;
  const grants = {
    permissions: grantFields.permissions.safeParse(permissions).data,
    rules: grantFields.rules.safeParse(rules).data,
  };
  if (!grants.permissions || !grants.rules) return undefined;
  return {
    name,
    created_at,
    permissions: grants.permissions,
    rules: grants.rules,
    ...(typeof expires_at === 'string' && { expires_at }),
    ...(typeof quarantined_at === 'string' && { quarantined_at }),
  };
}

/** The policy at `time`, from the state at that time. Before the creation and after the expiry, it grants nothing. */
export function policyAt(state: ApplicationState, time: number): Policy {
  const { created_at, expires_at } = state;
  const exists =
    Date.parse(created_at) <= time && (expires_at === undefined || Date.parse(expires_at) > time);
  if (!exists) return compilePolicy(noGrants);
  const current = { ...state, rules: currentRules(state.rules, time) };
  return compilePolicy(state.quarantined_at === undefined ? current : quarantined(current));
}

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
