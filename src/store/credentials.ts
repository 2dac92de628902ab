import { type Awaitable, then } from '../domain/awaitable.ts';
import type { Digest, Kind } from '../domain/key.ts';
import { compilePolicy, type Policy } from '../domain/policy.ts';
import type { Principal } from '../domain/principal.ts';
import {
  type ApplicationRow,
  alive,
  applicationColumns,
  toApplication,
  toGrants,
  toOrigins,
} from './applications.ts';
import { BoundedCache } from './bounded-cache.ts';
import { CredentialCache, type FoundCredential } from './credential-cache.ts';
import type { Db, DbTime } from './engine/db.ts';
import { withAuthorizer, works } from './sessions.ts';
import type { Credentials } from './store.ts';

interface KeyRow extends ApplicationRow {
  key_id: string;
  now: DbTime;
}

interface SessionRow {
  now: DbTime;
  tenant_id: string;
  application_id: string;
  id: string;
  permissions: string;
  rules: string;
  allowed_origins: string | null;
  ceiling_permissions: string | null;
  ceiling_rules: string | null;
  authorizer_id: string | null;
  authorizer_key_id: string | null;
  expires_at: DbTime;
  application_expires_at: DbTime | null;
  authorizer_expires_at: DbTime | null;
}

const byApplicationKey = `
  select k.digest as key, :now as now, k.id as key_id, ${applicationColumns('a')}
  from application_keys k join applications a on a.tenant_id = k.tenant_id and a.id = k.application_id
  join tenants t on t.id = k.tenant_id and t.disabled_at is null
  where k.digest = :key and ${alive('a')}`;

const bySessionKey = `
  select s.key_digest as key, :now as now, s.tenant_id, s.application_id, s.id, s.permissions, s.rules,
    a.allowed_origins, c.permissions as ceiling_permissions, c.rules as ceiling_rules, c.id as authorizer_id,
    k.id as authorizer_key_id,
    s.expires_at, a.expires_at as application_expires_at, c.expires_at as authorizer_expires_at
  from ${withAuthorizer}
  join tenants t on t.id = s.tenant_id and t.disabled_at is null
  where s.key_digest = :key and ${works}`;

export function credentials(db: Db): Credentials {
  const memory = db.local && new CredentialCache(db.local);
  const [byKey, bySession] = [new RowCache(fromKey), new RowCache(fromSession)];

  function lookUp(kind: Kind, digest: Digest, name: string): Awaitable<Principal | undefined> {
    return kind === 'ses'
      ? then(db.lookup<SessionRow>(bySessionKey, digest), (row) =>
          keep(name, bySession.of(name, row, digest)),
        )
      : then(db.lookup<KeyRow>(byApplicationKey, digest), (row) => keep(name, byKey.of(name, row, digest)));
  }

  function keep(name: string, found: FoundCredential | undefined): Principal | undefined {
    if (found) memory?.set(name, found);
    return found?.principal;
  }

  return {
    find: (kind, digest) => {
      if (kind === 'non') return undefined;
      const name = digest.toString('latin1');
      const remembered = memory?.get(name);
      return remembered === undefined ? lookUp(kind, digest, name) : (remembered ?? undefined);
    },
  };
}

/**
 * What a row was made into, kept for as long as the database answers with the very same row: only the work of
 * making it again is saved, never the question.
 */
class RowCache<R extends { now: DbTime }> {
  readonly #known = new BoundedCache<{ row: R; found: FoundCredential }>(2000);
  readonly #make: (row: R, digest: Digest) => FoundCredential;

  constructor(make: (row: R, digest: Digest) => FoundCredential) {
    this.#make = make;
  }

  of(name: string, row: R | undefined, digest: Digest): FoundCredential | undefined {
    if (!row) return undefined;
    const known = this.#known.get(name);
    if (known && isSame(known.row, row)) {
      const { principal, until, text } = known.found;
      known.row = row;
      return { principal: { ...principal, now: Number(row.now) }, until, text };
    }
    const found = this.#make(row, digest);
    this.#known.set(name, { row, found }, found.text);
    return found;
  }
}

/** But for the moment at which they were read, and the key by which both were found. */
function isSame<R extends object>(one: R, other: R): boolean {
  if (one === other) return true;
  for (const field in one)
    if (field !== 'now' && field !== 'key' && one[field] !== other[field]) return false;
  return true;
}

function fromKey(row: KeyRow, digest: Digest): FoundCredential {
  const application = toApplication(row);
  const principal: Principal = {
    kind: 'application',
    tenantId: row.tenant_id,
    applicationId: row.id,
    application,
    policy: policyOf(row.permissions, row.rules),
    authority: { applicationId: row.id, keyId: row.key_id },
    origins: application.allowed_origins,
    digest,
    now: Number(row.now),
  };
  const text = row.permissions.length + row.rules.length;
  return { principal, until: soonest(row.expires_at), text };
}

function fromSession(row: SessionRow, digest: Digest): FoundCredential {
  const { ceiling_permissions: permissions, ceiling_rules: rules } = row;
  const { authorizer_id: applicationId, authorizer_key_id: keyId } = row;
  const principal: Principal = {
    kind: 'session',
    tenantId: row.tenant_id,
    applicationId: row.application_id,
    sessionId: row.id,
    policy: policyOf(row.permissions, row.rules),
    origins: toOrigins(row),
    ceiling: permissions === null || rules === null ? undefined : policyOf(permissions, rules),
    authority: applicationId === null || keyId === null ? undefined : { applicationId, keyId },
    digest,
    now: Number(row.now),
  };
  const text = row.permissions.length + row.rules.length + (permissions?.length ?? 0) + (rules?.length ?? 0);
  const until = soonest(row.expires_at, row.application_expires_at, row.authorizer_expires_at);
  return { principal, until, text };
}

function soonest(...moments: (DbTime | null)[]): number {
  return Math.min(...moments.map((moment) => (moment === null ? Number.POSITIVE_INFINITY : Number(moment))));
}

const known = new BoundedCache<Policy>(10_000);

/** The same text always means the same policy, so remembering it can never be stale. */
function policyOf(permissions: string, rules: string): Policy {
  const text = `${permissions}\n${rules}`;
  const remembered = known.get(text);
  if (remembered) return remembered;
  const policy = compilePolicy(toGrants({ permissions, rules }));
  known.set(text, policy, text.length);
  return policy;
}
