/** Finds revoked access in audit entries, so that restoring a backup does not bring it back. */
import { type Application, accessFields } from '../application.ts';
import type { Difference, Entry } from '../audit.ts';

/** The fields of an audit entry that `revocations` needs. */
export interface AuditRow {
  readonly tenant_id: string | null;
  readonly operation: string;
  readonly entity_id: string | null;
  readonly result: string;
  readonly entry: string;
}

export type ApplicationAccess = Pick<Application, (typeof accessFields)[number]>;

export interface Revocation {
  readonly tenant: string;
  readonly application: string;
  readonly deleted: boolean;
  /** Ids of the revoked keys. `all` after the keys were regenerated, or a new key set an expiry for the old ones. */
  readonly keys: 'all' | readonly string[];
  /** The final value of each changed field. */
  readonly access: Partial<ApplicationAccess>;
  /** Whether the application is in quarantine after the last entry. */
  readonly quarantined: boolean;
}

export interface Revocations {
  readonly applications: readonly Revocation[];
  /** How tenants are closed after the last entry, by id. */
  readonly tenants: ReadonlyMap<string, Closed>;
}

/** `moved`: to another installation, or a move has begun. */
export type Closed = 'disabled' | 'deleted' | 'moved';

type Reducer = (before: Revocation, difference: Difference) => Revocation;

function revokeOne(before: Revocation, { keys }: Difference): Revocation {
  const id = (keys?.from as { id: string } | undefined)?.id;
  return id === undefined || before.keys === 'all' ? before : { ...before, keys: [...before.keys, id] };
}

const applicationReducers: Record<string, Reducer> = {
  'application.delete': (before) => ({ ...before, deleted: true }),
  'application.quarantine': (before) => ({ ...before, quarantined: true }),
  'application.release': (before) => ({ ...before, quarantined: false }),
  'application.regenerate': (before) => ({ ...before, keys: 'all' }),
  // The old keys count as revoked, because their overlap may have ended since then.
  'application.key.create': (before, { old_keys_expire_at: overlap }) =>
    overlap ? { ...before, keys: 'all' } : before,
  'application.key.delete': revokeOne,
  'key.revoke': revokeOne,
  'application.update': (before, difference) => ({
    ...before,
    access: { ...before.access, ...accessIn(difference) },
  }),
};

const tenantStates: Record<string, Closed | undefined> = {
  'tenant.disable': 'disabled',
  'tenant.enable': undefined,
  'tenant.delete': 'deleted',
  'tenant.move': 'moved',
  'tenant.move_cancel': undefined,
  'tenant.receive': undefined,
};

export function changesAccess({ operation, result }: AuditRow): boolean {
  return (
    result === 'success' &&
    (Object.hasOwn(applicationReducers, operation) || Object.hasOwn(tenantStates, operation))
  );
}

export function revocations(rows: readonly AuditRow[]): Revocations {
  const applications = new Map<string, Revocation>();
  const tenants = new Map<string, Closed>();
  for (const { tenant_id: tenant, entity_id: entity, operation, entry } of rows.filter(changesAccess)) {
    if (tenant === null || entity === null) continue;
    const reduce = applicationReducers[operation];
    if (reduce) {
      const initial = {
        tenant,
        application: entity,
        deleted: false,
        keys: [],
        access: {},
        quarantined: false,
      };
      const before = applications.get(`${tenant} ${entity}`) ?? initial;
      applications.set(`${tenant} ${entity}`, reduce(before, (JSON.parse(entry) as Entry).difference ?? {}));
      continue;
    }
    const state = tenantStates[operation];
    const isMove = /^tenant\.(move|receive)/.test(operation);
    // A tenant that was disabled before stays disabled when a move begins, is canceled, or brings it back.
    if (isMove && (tenants.get(tenant) ?? 'moved') !== 'moved') continue;
    if (state) tenants.set(tenant, state);
    else tenants.delete(tenant);
  }
  return { applications: [...applications.values()], tenants };
}

export function applicationAccess(application: Application): ApplicationAccess {
  const present = accessFields.filter((field) => application[field] !== undefined);
  return Object.fromEntries(present.map((field) => [field, application[field]])) as ApplicationAccess;
}

function accessIn(difference: Difference): Partial<ApplicationAccess> {
  return Object.fromEntries(
    accessFields.flatMap((field) => {
      const change = difference[field];
      return change ? [[field, change.to]] : [];
    }),
  );
}

/**
 * Whether the access in a restored backup, `now`, is wider than the access that the audit log recorded later, `then`.
 * Adding a rule can reduce access, and so can removing one, so any difference in rules counts.
 */
export function isNarrower(now: ApplicationAccess, then: Partial<ApplicationAccess>): boolean {
  const { permissions, rules } = then;
  if (rules && JSON.stringify(rules) !== JSON.stringify(now.rules)) return true;
  if (permissions && now.permissions.some((name) => !permissions.includes(name))) return true;
  if (then.require_bound_sessions && !now.require_bound_sessions) return true;
  if (then.expires_at && !(now.expires_at && now.expires_at <= then.expires_at)) return true;
  if ('trusted_issuers' in then && trustsMore(now.trusted_issuers, then.trusted_issuers)) return true;
  return (
    isWider(now.allowed_origins, then.allowed_origins) || isWider(now.allowed_networks, then.allowed_networks)
  );
}

/** Whether `now` contains an entry that `then` does not. An absent list contains everything. */
function isWider(now: readonly string[] | undefined, then: readonly string[] | undefined): boolean {
  return then !== undefined && now?.every((entry) => then.includes(entry)) !== true;
}

/** Whether `now` contains an issuer that `then` does not. An absent list contains none. */
function trustsMore(
  now: ApplicationAccess['trusted_issuers'] = [],
  then: ApplicationAccess['trusted_issuers'] = [],
): boolean {
  const trusted = new Set(then.map((issuer) => JSON.stringify(issuer)));
  return now.some((issuer) => !trusted.has(JSON.stringify(issuer)));
}
