/** What commands of the operator ask about the rows of all tenants. */
import { timestamp } from '../domain/common-fields.ts';
import { notExpired } from './applications.ts';
import type { Db, DbTime } from './engine/db.ts';
import { everyTenant } from './engine/sql.ts';

export interface Expiring {
  readonly tenant_id: string;
  readonly tenant: string;
  readonly application_id: string;
  readonly application: string;
  /** Absent if the application itself expires, together with its keys. */
  readonly key?: { readonly id: string; readonly ending: string };
  readonly expires_at: string;
}

interface Row {
  readonly tenant_id: string;
  readonly tenant: string;
  readonly application_id: string;
  readonly application: string;
  readonly key_id: string | null;
  readonly ending: string | null;
  readonly expires_at: DbTime;
}

const isSoon = (alias: string) => `${alias}.expires_at > :now and ${alias}.expires_at <= :now + $1`;

const columns = 'select t.id as tenant_id, t.name as tenant, a.id as application_id, a.name as application';
const ownTenant = 'join tenants t on t.id = a.tenant_id and t.deleted_at is null';

/** Selects the rows that the metrics `sallyport_applications_expiring` and `sallyport_keys_expiring` count. */
const expiring = everyTenant(`
  ${columns}, null as key_id, null as ending, a.expires_at
  from applications a ${ownTenant} where ${isSoon('a')}
  union all
  ${columns}, k.id as key_id, k.ending, k.expires_at
  from application_keys k join applications a on a.tenant_id = k.tenant_id and a.id = k.application_id
  ${ownTenant} where ${isSoon('k')}
  order by expires_at, tenant_id, application_id, key_id limit $2`);

/** Lists at most `limit` that expire within `within` milliseconds, earliest first. */
export async function listExpiring(db: Db, within: number, limit: number): Promise<Expiring[]> {
  const rows = await db.all<Row>(expiring, [within, limit]);
  return rows.map(({ key_id: id, ending, expires_at, ...row }) => ({
    ...row,
    ...(id !== null && ending !== null && { key: { id, ending } }),
    expires_at: timestamp(Number(expires_at)),
  }));
}

/** An application or key that exceeds the maximum lifetime of its tenant. */
export interface TooLong {
  readonly id: string;
  readonly name: string;
  /** The last characters of the key. Null if the application itself exceeds the maximum lifetime. */
  readonly ending: string | null;
}

const valid = `from tenants t join applications a on a.tenant_id = t.id and ${notExpired('a')}`;
const isLimited = 't.max_lifetime is not null and t.deleted_at is null';

const applicationsTooLong = everyTenant(`select a.id, a.name, null as ending ${valid}
  where ${isLimited} and (a.expires_at is null or a.expires_at > :now + t.max_lifetime)
  order by a.id limit $1`);

/** Checks the expiry of the application, too, because a key expires with its application. */
const keysTooLong = everyTenant(`select a.id, a.name, k.ending ${valid}
  join application_keys k on k.tenant_id = a.tenant_id and k.application_id = a.id and ${notExpired('k')}
  where ${isLimited}
    and (k.expires_at is null or k.expires_at > k.created_at + t.max_lifetime)
    and (a.expires_at is null or a.expires_at > k.created_at + t.max_lifetime)
  order by a.id, k.id limit $1`);

/** Lists at most `limit` applications and as many keys. */
export async function listTooLong(db: Db, limit: number): Promise<TooLong[]> {
  return [
    ...(await db.all<TooLong>(applicationsTooLong, [limit])),
    ...(await db.all<TooLong>(keysTooLong, [limit])),
  ];
}

const requiringApplication = everyTenant(`select a.id, a.name from applications a
  where a.require_bound_sessions = 1 and ${notExpired('a')} order by a.id limit 1`);

const boundSession = everyTenant(
  'select id from sessions where jkt is not null and expires_at > :now limit 1',
);

/** An application that requires bound sessions, or `true` if there is none, but a bound session exists. */
export async function findBoundSessions(db: Db): Promise<{ id: string; name: string } | boolean> {
  const application = await db.get<{ id: string; name: string }>(requiringApplication);
  return application ?? (await db.get(boundSession)) !== undefined;
}

/** The application with the most bytes stored. */
export async function findLargestApplication(db: Db): Promise<{ id: string; bytes: number } | undefined> {
  const row = await db.get<{ id: string; bytes: DbTime }>(
    everyTenant(`select application_id as id, sum(bytes) as bytes from application_storage
      group by tenant_id, application_id order by 2 desc limit 1`),
  );
  return row && { id: row.id, bytes: Number(row.bytes) };
}
