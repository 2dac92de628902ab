/** Lists the applications and keys of all tenants that expire soon. */
import { timestamp } from '../domain/common-fields.ts';
import type { Db, DbTime } from '../store/engine/db.ts';

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
const expiring = `
  ${columns}, null as key_id, null as ending, a.expires_at
  from applications a ${ownTenant} where ${isSoon('a')}
  union all
  ${columns}, k.id as key_id, k.ending, k.expires_at
  from application_keys k join applications a on a.tenant_id = k.tenant_id and a.id = k.application_id
  ${ownTenant} where ${isSoon('k')}
  order by expires_at, tenant_id, application_id, key_id limit $2`;

/** Lists at most `limit` that expire within `within` milliseconds, earliest first. */
export async function listExpiring(db: Db, within: number, limit: number): Promise<Expiring[]> {
  const rows = await db.all<Row>(expiring, [within, limit]);
  return rows.map(({ key_id: id, ending, expires_at, ...row }) => ({
    ...row,
    ...(id !== null && ending !== null && { key: { id, ending } }),
    expires_at: timestamp(Number(expires_at)),
  }));
}
