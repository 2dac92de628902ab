/** What the audit log tells of access that was taken away, in the order of the log. */
import type { Entry } from './audit.ts';
import type { Grants } from './grant.ts';

/** As much of an audit row as it takes. */
export interface Told {
  readonly id: string;
  readonly tenant_id: string | null;
  readonly operation: string;
  readonly entity_id: string | null;
  readonly result: string;
  readonly entry: string;
}

/** What became of one Application. */
export interface Revocation {
  readonly tenant: string;
  readonly application: string;
  readonly deleted: boolean;
  /** The keys that were taken away; all of them, if it got a new one. */
  readonly keys: 'all' | readonly string[];
  /** What of its grants was changed, as it was in the end. */
  readonly grants: Partial<Grants>;
}

const takingAway = [
  'application.delete',
  'application.regenerate',
  'application.key.delete',
  'application.update',
];

export function takesAway({ operation, result }: Told): boolean {
  return result === 'success' && takingAway.includes(operation);
}

export function revocations(rows: readonly Told[]): Revocation[] {
  const all = new Map<string, Revocation>();
  for (const row of rows.filter(takesAway)) {
    const { tenant_id: tenant, entity_id: application } = row;
    if (tenant === null || application === null) continue;
    const name = `${tenant} ${application}`;
    const before = all.get(name) ?? { tenant, application, deleted: false, keys: [], grants: {} };
    all.set(name, after(before, row.operation, JSON.parse(row.entry) as Entry));
  }
  return [...all.values()];
}

function after(before: Revocation, operation: string, { difference = {} }: Entry): Revocation {
  if (operation === 'application.delete') return { ...before, deleted: true };
  if (operation === 'application.regenerate') return { ...before, keys: 'all' };
  if (operation === 'application.update')
    return { ...before, grants: { ...before.grants, ...granted(difference) } };
  const key = (difference.keys?.from as { id: string } | undefined)?.id;
  return key === undefined || before.keys === 'all' ? before : { ...before, keys: [...before.keys, key] };
}

function granted({ permissions, rules }: NonNullable<Entry['difference']>): Partial<Grants> {
  return {
    ...(permissions && { permissions: permissions.to as Grants['permissions'] }),
    ...(rules && { rules: rules.to as Grants['rules'] }),
  };
}

/**
 * Whether somebody with these grants could do something that was taken away. One rule more can take away as much
 * as one rule less, so rules count as soon as they differ.
 */
export function isNarrower(now: Grants, then: Partial<Grants>): boolean {
  const { permissions, rules } = then;
  if (rules && JSON.stringify(rules) !== JSON.stringify(now.rules)) return true;
  return permissions !== undefined && now.permissions.some((name) => !permissions.includes(name));
}
