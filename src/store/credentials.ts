import { then } from '../domain/awaitable.ts';
import { type Digest, nilTenant } from '../domain/key.ts';
import { networkMatcher } from '../domain/network.ts';
import { compilePolicy } from '../domain/policy.ts';
import type { Principal } from '../domain/principal.ts';
import {
  type ApplicationRow,
  applicationColumns,
  notExpired,
  toApplication,
  toEffectiveGrants,
  toGrants,
  toOrigins,
} from './applications.ts';
import { type CachedCredential, cached } from './credential-cache.ts';
import type { Db, DbTime } from './engine/db.ts';
import { isValid, ofCeiling, withAuthorizer } from './sessions.ts';
import type { Credentials } from './store.ts';
import type { TenantTags } from './tenants.ts';

interface KeyRow extends ApplicationRow {
  key_id: string;
  key_expires_at: DbTime | null;
  tag: string;
  max_lifetime: DbTime | null;
  now: DbTime;
}

interface SessionRow {
  now: DbTime;
  tenant_id: string;
  tag: string;
  application_id: string;
  id: string;
  authorized_by: string | null;
  subject: string | null;
  permissions: string;
  rules: string;
  jkt: string | null;
  allowed_origins: string | null;
  quarantined_at: DbTime | null;
  session_quarantined_at: DbTime | null;
  authorizer_quarantined_at: DbTime | null;
  ceiling_permissions: string | null;
  ceiling_rules: string | null;
  ceiling_application_id: string | null;
  ceiling_key_id: string | null;
  expires_at: DbTime;
  application_expires_at: DbTime | null;
  ceiling_expires_at: DbTime | null;
  ceiling_key_expires_at: DbTime | null;
  max_lifetime: DbTime | null;
}

const byApplicationKey = `
  select k.digest as key, :now as now, k.id as key_id, k.expires_at as key_expires_at, t.tag, t.max_lifetime,
    ${applicationColumns('a')}
  from application_keys k join applications a on a.tenant_id = k.tenant_id and a.id = k.application_id
  join tenants t on t.id = k.tenant_id and t.disabled_at is null
  where k.tenant_id = $2 and k.digest = :key and ${notExpired('k')} and ${notExpired('a')}`;

const bySessionKey = `
  select s.key_digest as key, :now as now, s.tenant_id, s.application_id, s.id, s.authorized_by, s.permissions,
    s.rules, s.jkt, s.subject, a.allowed_origins, s.quarantined_at as session_quarantined_at, a.quarantined_at,
    c.quarantined_at as authorizer_quarantined_at, ${ofCeiling('permissions')} as ceiling_permissions,
    ${ofCeiling('rules')} as ceiling_rules, k.application_id as ceiling_application_id, k.id as ceiling_key_id,
    s.expires_at, a.expires_at as application_expires_at, ${ofCeiling('expires_at')} as ceiling_expires_at,
    k.expires_at as ceiling_key_expires_at, t.tag, t.max_lifetime
  from ${withAuthorizer}
  join tenants t on t.id = s.tenant_id and t.disabled_at is null
  where s.tenant_id = $2 and s.key_digest = :key and ${isValid}`;

/**
 * Every refused key costs one query for its tag and one lookup, so that the time does not tell whether the tag exists.
 */
export function credentials(db: Db, tags: TenantTags): Credentials {
  const findKey = cached(
    db.local,
    (tenant, key) => db.lookup<KeyRow>(byApplicationKey, key, [tenant]),
    fromKey,
  );
  const findSession = cached(
    db.local,
    (tenant, key) => db.lookup<SessionRow>(bySessionKey, key, [tenant]),
    fromSession,
  );
  return {
    isLocal: db.local !== undefined,
    find: ({ kind, tag, digest }) => {
      if (kind === 'non') return undefined;
      const find = kind === 'ses' ? findSession : findKey;
      const tenant = tags.known(tag);
      if (tenant === undefined) return then(tags.find(tag), (found) => find(found ?? nilTenant, digest));
      return then(find(tenant, digest), (principal) => principal ?? then(tags.find(tag), () => undefined));
    },
  };
}

function fromKey(row: KeyRow, digest: Digest): CachedCredential {
  const application = toApplication(row);
  const principal: Principal = {
    kind: 'application',
    tenantId: row.tenant_id,
    tenantTag: row.tag,
    applicationId: row.id,
    application,
    policy: compilePolicy(toEffectiveGrants(row)),
    authority: { applicationId: row.id, keyId: row.key_id },
    origins: application.allowed_origins,
    isAllowedFrom: application.allowed_networks && networkMatcher(application.allowed_networks),
    maxLifetime: maxLifetimeOf(row),
    digest,
    now: Number(row.now),
  };
  const text = row.permissions.length + row.rules.length;
  return { principal, until: earliest(row.expires_at, row.key_expires_at), text };
}

function fromSession(row: SessionRow, digest: Digest): CachedCredential {
  const { ceiling_permissions: permissions, ceiling_rules: rules } = row;
  const { ceiling_application_id: applicationId, ceiling_key_id: keyId } = row;
  const principal: Principal = {
    kind: 'session',
    tenantId: row.tenant_id,
    tenantTag: row.tag,
    applicationId: row.application_id,
    sessionId: row.id,
    authorizedBy: row.authorized_by ?? undefined,
    subject: row.subject ?? undefined,
    jkt: row.jkt ?? undefined,
    policy: compilePolicy(toEffectiveGrants(row)),
    origins: toOrigins(row),
    maxLifetime: maxLifetimeOf(row),
    ceiling:
      permissions === null || rules === null ? undefined : compilePolicy(toGrants({ permissions, rules })),
    authority: applicationId === null || keyId === null ? undefined : { applicationId, keyId },
    digest,
    now: Number(row.now),
  };
  const text = row.permissions.length + row.rules.length + (permissions?.length ?? 0) + (rules?.length ?? 0);
  const until = earliest(
    row.expires_at,
    row.application_expires_at,
    row.ceiling_expires_at,
    row.ceiling_key_expires_at,
  );
  return { principal, until, text };
}

function maxLifetimeOf({ max_lifetime }: { max_lifetime: DbTime | null }): number | undefined {
  return max_lifetime === null ? undefined : Number(max_lifetime);
}

function earliest(...times: (DbTime | null)[]): number {
  return Math.min(...times.map((time) => (time === null ? Number.POSITIVE_INFINITY : Number(time))));
}
