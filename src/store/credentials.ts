import type { DbTime, Executor, Local } from '../db/db.ts';
import { clause, type Lookup, lookup } from '../db/statement.ts';
import type { Person } from '../domain/audit.ts';
import { type Awaitable, then } from '../domain/awaitable.ts';
import { type Digest, nilTenant } from '../domain/key.ts';
import { networkMatcher } from '../domain/network.ts';
import { compilePolicy } from '../domain/policy.ts';
import type { Principal } from '../domain/principal.ts';
import { endsOfRules } from '../domain/rule.ts';
import {
  type ApplicationRow,
  applicationColumns,
  notExpired,
  type ReadAt,
  toApplication,
  toEffectiveGrants,
  toGrants,
  toOrigins,
} from './applications.ts';
import { trustDigest } from './key-rows.ts';
import { isValid, kindOf, ofCeiling, ownerAndAuthorizer } from './sessions.ts';
import type { Credentials } from './store.ts';
import type { TenantTags } from './tenants.ts';

interface KeyRow extends ApplicationRow, ReadAt {
  key_id: string;
  key_expires_at: DbTime | null;
  issuer: string | null;
  subject: string | null;
  trust: string | null;
  person: string | null;
  ends_at: DbTime | null;
  jkt: string | null;
  tag: string;
  max_lifetime: DbTime | null;
  purposes: string | null;
}

interface SessionRow {
  now: DbTime;
  tenant_id: string;
  tag: string;
  application_id: string;
  id: string;
  authorized_by: string | null;
  max_uses: number | null;
  subject: string | null;
  permissions: string;
  rules: string;
  jkt: string | null;
  allowed_origins: string | null;
  allowed_networks: string | null;
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
  purposes: string | null;
}

const byApplicationKey = lookup<KeyRow>(
  'bytea',
  (key, tenant, table) => clause`
    select k.digest as key, k.id as key_id, k.expires_at as key_expires_at, k.issuer,
    k.subject, k.trust, k.person, k.ends_at, k.jkt, t.tag, t.max_lifetime,
    t.purposes,
    ${applicationColumns('a')}
    from ${table('application_keys')} k
    join ${table('applications')} a on a.tenant_id = k.tenant_id and a.id = k.application_id
    join ${table('tenants')} t on t.id = k.tenant_id
    where k.tenant_id = ${tenant} and k.digest = ${key}
      and t.disabled_at is null and ${notExpired('k')} and ${notExpired('a')}`,
);

const bySessionKey = lookup<SessionRow>(
  'bytea',
  (key, tenant, table) => clause`
    select s.key_digest as key, :now as now, s.tenant_id, s.application_id, s.id, s.authorized_by, s.permissions,
    s.rules, s.max_uses, s.jkt, s.subject, a.allowed_origins, a.allowed_networks, s.quarantined_at as session_quarantined_at, a.quarantined_at,
    c.quarantined_at as authorizer_quarantined_at, ${ofCeiling('permissions')} as ceiling_permissions,
    ${ofCeiling('rules')} as ceiling_rules, k.application_id as ceiling_application_id, k.id as ceiling_key_id,
    s.expires_at, a.expires_at as application_expires_at, ${ofCeiling('expires_at')} as ceiling_expires_at,
    k.expires_at as ceiling_key_expires_at, t.tag, t.max_lifetime, t.purposes
    from ${table('sessions')} s ${ownerAndAuthorizer(tenant, table)} join ${table('tenants')} t on t.id = s.tenant_id
    where s.tenant_id = ${tenant} and s.key_digest = ${key} and t.disabled_at is null and ${isValid(tenant, table)}`,
);

type Source = Pick<Executor, 'lookup'> & { readonly local?: Local | undefined };

/**
 * Every refused key costs one query for its tag and one lookup, so that the time does not tell whether the tag exists.
 * Returns a function, for the database and for its transactions.
 */
export function credentials(tags: TenantTags): (db: Source) => Credentials {
  const findKey = cached(byApplicationKey, fromKey);
  const findSession = cached(bySessionKey, fromSession);
  return (db) => ({
    isLocal: db.local !== undefined,
    find: ({ kind, tag, digest }) => {
      if (kind === 'non') return undefined;
      const find = kind === 'ses' || kind === 'dlg' ? findSession : findKey;
      const tenant = tags.known(tag);
      if (tenant === undefined) return then(tags.find(tag), (found) => find(db, found ?? nilTenant, digest));
      return then(find(db, tenant, digest), (found) => found ?? then(tags.find(tag), () => undefined));
    },
  });
}

export function fromKey(row: KeyRow, digest: Digest): CachedCredential {
  const application = toApplication(row);
  const grants = toEffectiveGrants(row);
  const principal: Principal = {
    kind: 'application',
    tenantId: row.tenant_id,
    tenantTag: row.tag,
    applicationId: row.id,
    application,
    ...(row.issuer !== null && issuedFor(row)),
    jkt: row.jkt ?? undefined,
    policy: compilePolicy(grants),
    authority: { applicationId: row.id, keyId: row.key_id },
    origins: application.allowed_origins,
    isAllowedFrom: application.allowed_networks && networkMatcher(application.allowed_networks),
    maxLifetime: maxLifetimeOf(row),
    purposes: purposesOf(row),
    digest,
    now: Number(row.now),
  };
  const text = row.permissions.length + row.rules.length;
  return {
    principal,
    until: earliest(row.expires_at, row.key_expires_at, endsOfRules(grants.rules).first),
    text,
  };
}

/** The workload or the person that got the key. */
function issuedFor({ id, issuer, subject, trust, person, key_expires_at, ends_at }: KeyRow) {
  const entry = { issuer: issuer ?? undefined, trust: trustDigest(id, trust ?? '') };
  if (person === null) return { ...entry, subject: subject ?? undefined };
  return {
    ...entry,
    person: { subject: subject ?? '', ...(JSON.parse(person) as Omit<Person, 'subject'>) },
    session: { expiresAt: Number(key_expires_at), endsAt: Number(ends_at) },
  };
}

export function fromSession(row: SessionRow, digest: Digest): CachedCredential {
  const { ceiling_permissions: permissions, ceiling_rules: rules } = row;
  const { ceiling_application_id: applicationId, ceiling_key_id: keyId } = row;
  const kind = kindOf(row);
  const networks: string[] | null = JSON.parse(row.allowed_networks ?? 'null');
  const ceiling =
    permissions === null || rules === null ? undefined : toGrants({ permissions, rules, now: row.now });
  const principal: Principal = {
    kind,
    tenantId: row.tenant_id,
    tenantTag: row.tag,
    applicationId: row.application_id,
    sessionId: row.id,
    authorizedBy: row.authorized_by ?? undefined,
    subject: row.subject ?? undefined,
    jkt: row.jkt ?? undefined,
    isLimited: row.max_uses !== null,
    policy: compilePolicy(toEffectiveGrants({ ...row, kind })),
    origins: toOrigins(row),
    isAllowedFrom: networks ? networkMatcher(networks) : undefined,
    maxLifetime: maxLifetimeOf(row),
    purposes: purposesOf(row),
    ceiling: ceiling && compilePolicy(ceiling),
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
    endsOfRules(ceiling?.rules ?? []).first,
  );
  return { principal, until, text };
}

function maxLifetimeOf({ max_lifetime }: { max_lifetime: DbTime | null }): number | undefined {
  return max_lifetime === null ? undefined : Number(max_lifetime);
}

function purposesOf({ purposes }: { purposes: string | null }): string[] | undefined {
  return purposes === null ? undefined : JSON.parse(purposes);
}

function earliest(...times: (DbTime | null)[]): number {
  return Math.min(...times.map((time) => (time === null ? Number.POSITIVE_INFINITY : Number(time))));
}

interface CachedCredential {
  readonly principal: Principal;
  /** When the credential expires or the first of its rules ends, unless a later commit changes that. */
  readonly until: number;
  /** Length of the stored grants in characters, which counts towards `maxText`. */
  readonly text: number;
}

interface Entry<R> extends CachedCredential {
  readonly row: R;
  /** Undefined if a commit was in progress at the lookup, and on PostgreSQL. */
  readonly generation: number | undefined;
}

/** The limits of a cache. An entry takes several times as much memory as its text. */
const maxEntries = 10_000;
const maxText = 16_000_000;

/**
 * Caches credentials by the digest of the key.
 *
 * On SQLite, a credential is read from the database only if a process has committed since it was last read. A change by
 * any Sallyport process applies to every request sent after the response to the change:
 * 1. Every process numbers its commits while it holds SQLite's write lock: it sets the shared counter `begun` to n before
 *    commit n, and `ended` to n after it. It sends the response to the change after that.
 * 2. An entry belongs to the generation that was read before its lookup. A generation exists only if `begun` and `ended`
 *    were equal then, so the lookup saw every commit up to that number.
 * 3. An entry is used only if `begun` is still the same. A commit sets `begun` before it becomes visible, so no commit
 *    has become visible since.
 * 4. If a process dies between the two writes, the counters differ, and every request reads the database until the next
 *    commit. The same happens if a process sets `ended` after the next writer has set `begun`.
 * 5. Expiry and the end of a rule need no commit. Each entry has the time of the first of them, and the clock is read for
 *    every request.
 *
 * Commits of programs that do not use the counter, such as the sqlite3 shell, are detected by `pragma data_version`. The
 * same holds for a process that uses another counter file because the first one was deleted. The pragma is read at most
 * once per millisecond, so these commits apply after a millisecond. To read it for every request would take 2 µs, 14 %
 * of `GET /applications/key`.
 *
 * On PostgreSQL, every request reads the row. An entry is reused if the row is unchanged, which saves parsing and
 * compiling the grants: 20 % of `GET /applications/key`. The same is done on SQLite after a commit.
 *
 * Returns a function that finds the principal of a key by its tenant and digest. It returns undefined if the key is
 * invalid. The digest covers the tag of the tenant, so an entry is named by the digest alone.
 */
function cached<R extends { readonly now: DbTime }>(
  byKey: Lookup<R>,
  toCredential: (row: R, digest: Digest) => CachedCredential,
): (db: Source, tenant: string, digest: Digest) => Awaitable<Principal | undefined> {
  const entries = new Map<string, Entry<R>>();
  let totalText = 0;

  /** Drops all entries when a new one exceeds a limit. */
  function save(name: string, entry: Entry<R>): void {
    totalText -= entries.get(name)?.text ?? 0;
    entries.delete(name);
    if (entries.size >= maxEntries || totalText + entry.text > maxText) {
      entries.clear();
      totalText = 0;
    }
    entries.set(name, entry);
    totalText += entry.text;
  }

  return ({ local, lookup }, tenant, digest) => {
    const name = digest.toString('latin1');
    const generation = local?.generation();
    const entry = entries.get(name);
    if (local && entry && generation !== undefined && entry.generation === generation) {
      const now = local.now();
      if (now < entry.until) return { ...entry.principal, now };
    }
    return then(lookup(byKey, digest, tenant), (row) => {
      if (!row) return undefined;
      const known = entries.get(name);
      // On PostgreSQL, concurrent requests with the same key share one lookup, and so the same row object.
      if (known?.row === row) return { ...known.principal, now: Number(row.now) };
      const isKnown = known && isSame(known.row, row) && Number(row.now) < known.until;
      const { principal, until, text } = isKnown ? known : toCredential(row, digest);
      save(name, { principal, until, text, row, generation });
      return { ...principal, now: Number(row.now) };
    });
  };
}

/** Compares two versions of a row. Ignores `now`, the time of the lookup, and `key`. */
export function isSame<R extends object>(one: R, other: R): boolean {
  for (const field in one)
    if (field !== 'now' && field !== 'key' && !isEqual(one[field], other[field])) return false;
  return true;
}

function isEqual(one: unknown, other: unknown): boolean {
  if (one === other || !(one instanceof Uint8Array)) return one === other;
  return other instanceof Uint8Array && Buffer.compare(one, other) === 0;
}
