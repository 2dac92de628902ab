/** Statements on the keys of an application. Callers must lock the application first. */

import { createHash } from 'node:crypto';
import type { Queries } from '../db/db.ts';
import { numberIn } from '../db/sql.ts';
import { list, Param, raw, sql } from '../db/statement.ts';
import { bytes, optional, shown, shownTime, table, text, time, uuid } from '../db/table.ts';
import { type Digest, keyDigest, type Minted, newId } from '../domain/key.ts';
import { longestSession } from '../domain/session.ts';
import type { TrustedIssuer, Workload } from '../domain/trusted-issuer.ts';
import type { Change, Keys, NewIssuedKey } from './store.ts';

export const keyTable = table('application_keys', {
  id: shown(uuid),
  tenant_id: uuid,
  application_id: uuid,
  digest: bytes,
  ending: shown(text),
  created_by: optional(shown(uuid)),
  created_at: shownTime,
  last_used_at: optional(shownTime),
  expires_at: optional(shownTime),
  issuer: optional(text),
  subject: optional(text),
  trust: optional(text),
  jkt: optional(text),
  daily_requests: optional(text),
  person: optional(text),
  sid: optional(text),
  ends_at: optional(time),
});
export type KeyRow = Parameters<typeof keyTable.view>[0];

/** How many keys of the application have not expired. Those from `POST /oauth/token` do not count. */
export async function countKeys(tx: Queries, tenant: string, application: string): Promise<number> {
  const keys = sql`select count(*) as value from application_keys k
    where k.tenant_id = ${tenant} and k.application_id = ${application} and k.trust is null
      and (k.expires_at is null or k.expires_at > :now)`;
  return numberIn(tx, keys);
}

/** Sets the expiry of all keys that do not expire earlier. */
export async function expireKeys(
  tx: Queries,
  tenant: string,
  application: string,
  expiresAt: number,
): Promise<void> {
  const end = new Param(expiresAt);
  await tx.run(sql`update application_keys
     set expires_at = case when expires_at < ${end} then expires_at else ${end} end,
      ends_at = case when ends_at > ${end} then ${end} else ends_at end
    where tenant_id = ${tenant} and application_id = ${application}
      and (expires_at is null or expires_at > ${end} or ends_at > ${end})`);
}

export async function insertKey(
  tx: Queries,
  tenant: string,
  application: string,
  { digest, ending }: Minted,
  { at, by }: { at: Change['at']; by: Change['by'] | undefined },
  expiresAt?: number,
): Promise<KeyRow> {
  const id = newId(at);
  const created_by = by ?? null;
  const expires_at = expiresAt ?? null;
  const row = { id, ending, created_by, created_at: at, expires_at };
  await tx.run(keyTable.insert({ ...row, tenant_id: tenant, application_id: application, digest }));
  return { ...row, last_used_at: null };
}

/** Identifies an entry of `trusted_issuers` by its content. */
function trustOf(issuer: TrustedIssuer): string {
  const claims = Object.entries(issuer.claims).sort(([a], [b]) => (a < b ? -1 : 1));
  const { audience, once, lifetime, jwks_uri, sign_in_priority } = issuer;
  const fields = [issuer.issuer, audience, claims, once, lifetime, jwks_uri];
  const content = JSON.stringify(sign_in_priority === undefined ? fields : [...fields, sign_in_priority]);
  return createHash('sha256').update(content).digest('hex').slice(0, 32);
}

/** Identifies an entry of `trusted_issuers` among those of all applications. */
export function trustDigest(application: string, trust: string): Digest {
  return keyDigest(`trust ${application} ${trust}`);
}

/**
 * Deletes the keys that were issued for an entry of `trusted_issuers` that no longer exists or was changed, and ends the
 * sessions that such keys authorized. Sessions of keys that have expired before are found by the entry; those that are
 * being authorized now, by the key.
 */
export async function endUntrusted(
  tx: Queries,
  tenant: string,
  application: string,
  before: readonly TrustedIssuer[],
  after: readonly TrustedIssuer[] = [],
): Promise<void> {
  const kept = after.map(trustOf);
  const ended = before.map(trustOf).filter((trust) => !kept.includes(trust));
  if (ended.length === 0) return;
  const deleted = await tx.returning<{ digest: Digest }>(sql`
    delete from application_keys where tenant_id = ${tenant}
       and application_id = ${application} and trust in ${list(ended)} returning digest`);
  const digests = [
    ...ended.map((trust) => trustDigest(application, trust)),
    ...deleted.map(({ digest }) => digest),
  ];
  // One by one: with `insert … select`, Citus would wait while any shard moves.
  await Promise.all(digests.map((digest) => tx.run(insertLeaked(tenant, digest))));
}

const insertLeaked = (tenant: string, digest: Digest) => sql`
  insert into leaked_keys (tenant_id, digest, expires_at)
  values (${tenant}, ${digest}, :now + ${raw(String(longestSession))})
  on conflict (tenant_id, digest) do update set expires_at = excluded.expires_at`;

/** The keys from `POST /oauth/token` that an application can have at a time. */
const maxIssuedKeys = 1000;

export async function hasMaxIssuedKeys(tx: Queries, tenant: string, application: string): Promise<boolean> {
  const issued = sql`select count(*) as value from (select 1 from application_keys k where k.tenant_id = ${tenant}
    and k.application_id = ${application} and k.trust is not null and k.expires_at > :now
    limit ${maxIssuedKeys}) as issued`;
  return (await numberIn(tx, issued)) >= maxIssuedKeys;
}

/** The sessions in the console that a person can have in an application at a time. */
const maxPersonSessions = 10;

/** Ends the oldest sessions of a person in the console, so that one more is allowed. Returns how many. */
export function endOldestSessions(
  tx: Queries,
  tenant: string,
  application: string,
  { issuer, subject }: Workload,
) {
  return tx.run(sql`delete from application_keys
    where tenant_id = ${tenant} and application_id = ${application} and id in (
     select k.id from application_keys k
     where k.tenant_id = ${tenant} and k.application_id = ${application} and k.issuer = ${issuer.issuer}
       and k.subject = ${subject} and k.person is not null and k.expires_at > :now
     order by k.id desc limit ${maxIssuedKeys} offset ${maxPersonSessions - 1})`);
}

/** Milliseconds for which a JWT is remembered after it has expired: more than a request takes. */
const usedJwtMargin = 3_600_000;

/** Returns false if the JWT was used before. Of concurrent transactions with the same JWT, one gets true. */
export async function spendJwt(
  tx: Queries,
  tenant: string,
  { issuer, jti, expiresAt }: Pick<Workload, 'jti' | 'expiresAt'> & { issuer: Pick<TrustedIssuer, 'issuer'> },
): Promise<boolean> {
  if (jti === undefined) return true;
  const digest: Digest = keyDigest(JSON.stringify([issuer.issuer, jti]));
  const spending = sql`insert into used_jwts (tenant_id, digest, expires_at)
    values (${tenant}, ${digest}, ${expiresAt + usedJwtMargin}) on conflict do nothing`;
  return (await tx.run(spending)) > 0;
}

export async function insertIssuedKey(
  tx: Queries,
  tenant: string,
  application: string,
  { key, workload, jkt, at, expiresAt, signIn }: NewIssuedKey,
): Promise<string> {
  const id = newId(at);
  const { issuer, subject } = workload;
  await tx.run(
    keyTable.insert({
      ...{ tenant_id: tenant, application_id: application, id, digest: key.digest, ending: key.ending },
      ...{
        created_at: at,
        expires_at: expiresAt,
        issuer: issuer.issuer,
        subject,
        trust: trustOf(issuer),
        jkt,
      },
      ...(signIn && { person: JSON.stringify(signIn.person), sid: signIn.sid, ends_at: signIn.endsAt }),
    }),
  );
  return id;
}

/** Extends a session in the console up to `ends_at`. Changes nothing if it has ended. */
export async function renewKey(
  tx: Pick<Queries, 'run'>,
  ...[tenant, application, id, expiresAt]: Parameters<Keys['renew']>
): Promise<void> {
  await tx.run(sql`update application_keys
     set expires_at = case when ends_at < ${expiresAt} then ends_at else ${expiresAt} end
    where tenant_id = ${tenant} and application_id = ${application} and id = ${id} and ends_at is not null
    and expires_at > :now`);
}
