import type { EntryWriter } from '../audit/log.ts';
import type { Db, DbTime, Executor, Queries } from '../db/db.ts';
import type { Keyring } from '../db/keys/keyring.ts';
import { databaseTime, everyTenant } from '../db/sql.ts';
import { type Clause, clause, lookup, raw, sql } from '../db/statement.ts';
import type { ApplicationKey } from '../domain/application.ts';
import { type Digest, nilTenant, type ParsedKey } from '../domain/key.ts';
import { longestSession } from '../domain/session.ts';
import {
  type ApplicationRow,
  applicationColumns,
  lockApplication,
  notExpired,
  type ReadAt,
  toApplication,
} from './applications.ts';
import {
  countKeys,
  endOldestSessions,
  expireKeys,
  hasMaxIssuedKeys,
  insertIssuedKey,
  insertKey,
  type KeyRow,
  keyTable,
  renewKey,
  spendJwt,
} from './key-rows.ts';
import { kindOf } from './sessions.ts';
import type { Keys, NewEntry, RevokedKey, Store, WorkloadTarget } from './store.ts';
import type { TenantTags } from './tenants.ts';

/** Keys from `POST /oauth/token` can be many, and are left out. */
const isListed = raw('k.trust is null');

export function applicationKeys(db: Executor): Keys {
  return {
    list: async (tenant, application) => {
      const rows = await db.all<KeyRow>(sql`
        select k.id, k.ending, k.created_by, k.created_at, k.last_used_at,
           case when a.expires_at is null or k.expires_at <= a.expires_at then k.expires_at end as expires_at
         from application_keys k
         join applications a on a.tenant_id = k.tenant_id and a.id = k.application_id
         where k.tenant_id = ${tenant} and k.application_id = ${application} and ${isListed} and ${notExpired('k')} and ${notExpired('a')}
         order by k.id desc`);
      return rows.map(toKey);
    },

    create: (tenant, application, change, make, { expiresAt, oldKeysExpireAt } = {}) =>
      db.transaction(async (tx) => {
        const owner = await lockApplication(tx, tenant, application);
        if (!owner) return undefined;
        const key = make(owner, await countKeys(tx, tenant, application));
        if (oldKeysExpireAt !== undefined) await expireKeys(tx, tenant, application, oldKeysExpireAt);
        return { created: toKey(await insertKey(tx, tenant, application, key, change, expiresAt)), key };
      }),

    issue: (tenant, application, make) =>
      db.transaction(async (tx) => {
        const owner = await lockApplication(tx, tenant, application);
        const issued = owner && make(owner);
        if (!issued) return { outcome: 'refused' };
        if (await hasMaxIssuedKeys(tx, tenant, application)) return { outcome: 'too_many' };
        if (!(await spendJwt(tx, tenant, issued.workload))) return { outcome: 'used' };
        const { signIn, workload } = issued;
        const ended = signIn ? await endOldestSessions(tx, tenant, application, workload) : 0;
        return {
          outcome: 'issued',
          issued,
          ended,
          id: await insertIssuedKey(tx, tenant, application, issued),
        };
      }),

    renew: (...renewed) => renewKey(db, ...renewed),

    delete: (tenant, application, id, check) =>
      db.transaction(async (tx) => {
        const owner = await lockApplication(tx, tenant, application);
        if (!owner) return undefined;
        check(owner);
        const [row] = await tx.returning<KeyRow>(sql`
          delete from application_keys as k where k.tenant_id = ${tenant} and k.application_id = ${application}
            and ${notExpired('k')} and id = ${id} returning ${raw(keyTable.shown.join(', '))}`);
        return row && toKey(row);
      }),
  };
}

const toKey: (row: KeyRow) => ApplicationKey = keyTable.view;

interface RevokedRow {
  readonly tenant_id: string;
  readonly application_id: string;
  readonly id: string;
  readonly ending: string;
}

interface SessionRow {
  readonly tenant_id: string;
  readonly id: string;
  readonly application_id: string;
  readonly authorized_by: string | null;
}

/**
 * Ends the sessions that the key authorized without being their ceiling. Sessions whose ceiling it is end when the key
 * is deleted.
 */
async function endUnlimitedSessions(tx: Queries, tenant: string, digest: Digest) {
  const found = clause`from application_keys k
    where k.tenant_id = ${tenant} and k.digest = ${digest} and ${notExpired('k')}`;
  const insert = (rows: Clause) =>
    tx.run(sql`insert into leaked_keys (tenant_id, digest, expires_at) ${rows} on conflict do nothing`);
  const end = raw(`:now + ${longestSession}`);
  if (tx.isEmbedded || tx.writesTogether) await insert(clause`select k.tenant_id, k.digest, ${end} ${found}`);
  else if (await tx.get(sql`select 1 as one ${found}`))
    await insert(clause`values (${tenant}, ${digest}, ${end})`);
}

const deleteKey = (tenant: string, digest: Digest) =>
  sql`delete from application_keys as k where k.tenant_id = ${tenant} and k.digest = ${digest} and ${notExpired('k')}
    returning tenant_id, application_id, id, ending`;

const deleteSession = (tenant: string, digest: Digest) =>
  sql`delete from sessions as s where s.tenant_id = ${tenant} and s.key_digest = ${digest} and s.expires_at > :now
    returning tenant_id, id, application_id, authorized_by`;

/** See `Store.revokeKey`. All statements run for every key, so that an unknown key takes as long as a known one. */
export function keyRevoker(
  db: Db,
  tags: TenantTags,
  { chainKeys, dataKey }: Pick<Keyring, 'chainKeys' | 'dataKey'>,
  writeChanges: EntryWriter,
) {
  return async (
    { tag, digest }: Pick<ParsedKey, 'tag' | 'digest'>,
    entryOf: (revoked: RevokedKey | undefined, at: number) => NewEntry,
  ): Promise<void> => {
    await chainKeys();
    const tenant = (await tags.find(tag)) ?? nilTenant;
    // `writeChanges` needs its row.
    if (tenant !== nilTenant) await dataKey(tenant);
    await db.change(
      async (tx) => {
        const now = await databaseTime(tx);
        await endUnlimitedSessions(tx, tenant, digest);
        const [key] = await tx.returning<RevokedRow>(deleteKey(tenant, digest));
        const [session] = await tx.returning<SessionRow>(deleteSession(tenant, digest));
        await tx.defer(writeChanges, entryOf(toRevoked(key, session), now));
      },
      digest.toHex(),
      tenant,
      true,
    );
  };
}

function toRevoked(key: RevokedRow | undefined, session: SessionRow | undefined): RevokedKey | undefined {
  if (key) {
    const { tenant_id: tenantId, application_id: applicationId, id, ending } = key;
    return { tenantId, applicationId, key: { id, ending } };
  }
  return session && { tenantId: session.tenant_id, sessionId: session.id, kind: kindOf(session) };
}

interface TargetRow extends ApplicationRow, ReadAt {
  tag: string;
  max_lifetime: DbTime | null;
}

const targetById = lookup<TargetRow>(
  'uuid',
  (key, tenant, table) => clause`
    select a.id as key, t.tag, t.max_lifetime, ${applicationColumns('a')}
    from ${table('applications')} a join ${table('tenants')} t on t.id = a.tenant_id and t.disabled_at is null
    where a.id = ${key} and a.tenant_id = ${tenant} and ${notExpired('a')}`,
);

const selectSignInTargets = (tenant: string) => sql`
  select t.tag, t.max_lifetime, ${applicationColumns('a')}
  from applications a join tenants t on t.id = a.tenant_id and t.disabled_at is null
  where a.tenant_id = ${tenant} and a.type = 'management' and a.trusted_issuers is not null and ${notExpired('a')}
  order by a.id`;

const selectTags = 'select tag from tenants where disabled_at is null order by id limit 2';

/** See `Store.findSignInTargets`. */
export function signInTargets(db: Db, tags: TenantTags): Store['findSignInTargets'] {
  return async (given) => {
    const [first, second] = given === undefined ? await db.all<{ tag: string }>(selectTags) : [];
    const tag = given ?? (second === undefined ? first?.tag : undefined);
    const tenant = tag === undefined ? undefined : await tags.find(tag);
    return tenant === undefined
      ? undefined
      : { tenant, targets: (await db.all<TargetRow>(selectSignInTargets(tenant))).map(toTarget) };
  };
}

/** See `Store.findPersonSessions`. */
export function personSessions(db: Db): Store['findPersonSessions'] {
  return async ({ before, issuer, subject, sid }) => {
    // A session that began without a sid ends with its subject.
    const isPerson =
      sid === undefined
        ? clause`subject = ${subject}`
        : subject === undefined
          ? clause`sid = ${sid}`
          : clause`subject = ${subject} and (sid = ${sid} or sid is null)`;
    const rows = await db.all<Omit<RevokedRow, 'ending'>>(sql`
      select tenant_id, application_id, id from application_keys
        where issuer = ${issuer} and created_at < ${before} and person is not null and ${isPerson} ${everyTenant}`);
    return rows.map(({ tenant_id, application_id, id }) => ({
      tenantId: tenant_id,
      applicationId: application_id,
      keyId: id,
    }));
  };
}

/** See `Store.spendLogout`. Logout tokens are of no tenant: the first one remembers them. */
export function logoutTokens(db: Db): Store['spendLogout'] {
  return async ({ issuer, ...token }) => {
    const first = await db.get<{ id: string }>('select id from tenants order by id limit 1');
    return !first || spendJwt(db, first.id, { issuer: { issuer }, ...token });
  };
}

/** See `Store.findWorkloadTarget`. Runs the same statements for every tag and id. */
export function workloadTargets(db: Db, tags: TenantTags): Store['findWorkloadTarget'] {
  return async (tag, id) => {
    const tenant = (await tags.find(tag)) ?? nilTenant;
    const row = await db.lookup(targetById, id, tenant);
    return row && toTarget(row);
  };
}

function toTarget(row: TargetRow): WorkloadTarget {
  return {
    tenantTag: row.tag,
    application: toApplication(row),
    maxLifetime: row.max_lifetime === null ? undefined : Number(row.max_lifetime),
    now: Number(row.now),
  };
}
