/** What the audit log tells of access that was taken away, in the order of the log. */
import type { Application } from './application.ts';
import type { Difference, Entry } from './audit.ts';

/** As much of an audit row as it takes. */
export interface Told {
  readonly id: string;
  readonly tenant_id: string | null;
  readonly operation: string;
  readonly entity_id: string | null;
  readonly result: string;
  readonly entry: string;
}

/** What an Application may do, and from where. */
export type Access = Pick<Application, 'permissions' | 'rules' | 'allowed_origins'>;

/** What became of one Application. */
export interface Revocation {
  readonly tenant: string;
  readonly application: string;
  readonly deleted: boolean;
  /** The keys that were taken away; all of them, if it got a new one. */
  readonly keys: 'all' | readonly string[];
  /** What of its access was changed, as it was in the end. */
  readonly access: Partial<Access>;
}

export interface Revocations {
  readonly applications: readonly Revocation[];
  /** Those that were closed in the end, by id. */
  readonly tenants: ReadonlyMap<string, 'disabled' | 'deleted'>;
}

type Step<T> = (before: T, difference: Difference) => T;

const ofApplication: Record<string, Step<Revocation>> = {
  'application.delete': (before) => ({ ...before, deleted: true }),
  'application.regenerate': (before) => ({ ...before, keys: 'all' }),
  'application.key.delete': (before, { keys }) => {
    const gone = (keys?.from as { id: string } | undefined)?.id;
    return gone === undefined || before.keys === 'all' ? before : { ...before, keys: [...before.keys, gone] };
  },
  'application.update': (before, difference) => ({
    ...before,
    access: { ...before.access, ...accessIn(difference) },
  }),
};

const ofTenant: Record<string, 'disabled' | 'deleted' | undefined> = {
  'tenant.disable': 'disabled',
  'tenant.enable': undefined,
  'tenant.delete': 'deleted',
};

export function changesAccess({ operation, result }: Told): boolean {
  return (
    result === 'success' && (Object.hasOwn(ofApplication, operation) || Object.hasOwn(ofTenant, operation))
  );
}

export function revocations(rows: readonly Told[]): Revocations {
  const applications = new Map<string, Revocation>();
  const tenants = new Map<string, 'disabled' | 'deleted'>();
  for (const { tenant_id: tenant, entity_id: entity, operation, entry } of rows.filter(changesAccess)) {
    if (tenant === null || entity === null) continue;
    const step = ofApplication[operation];
    if (step) {
      const fresh = { tenant, application: entity, deleted: false, keys: [], access: {} };
      const before = applications.get(`${tenant} ${entity}`) ?? fresh;
      applications.set(`${tenant} ${entity}`, step(before, (JSON.parse(entry) as Entry).difference ?? {}));
      continue;
    }
    const closed = ofTenant[operation];
    if (closed) tenants.set(tenant, closed);
    else tenants.delete(tenant);
  }
  return { applications: [...applications.values()], tenants };
}

const fields = ['permissions', 'rules', 'allowed_origins'] as const;

function accessIn(difference: Difference): Partial<Access> {
  return Object.fromEntries(
    fields.flatMap((field) => {
      const change = difference[field];
      return change ? [[field, change.to]] : [];
    }),
  );
}

/**
 * Whether somebody with this access could do something that was taken away. One rule more can take away as much
 * as one rule less, so rules count as soon as they differ.
 */
export function isNarrower(now: Access, then: Partial<Access>): boolean {
  const { permissions, rules, allowed_origins: origins } = then;
  if (rules && JSON.stringify(rules) !== JSON.stringify(now.rules)) return true;
  if (permissions && now.permissions.some((name) => !permissions.includes(name))) return true;
  if (!origins) return false;
  return now.allowed_origins?.every((origin) => origins.includes(origin)) !== true;
}
