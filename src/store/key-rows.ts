/** Statements on the keys of an application. Callers must lock the application first. */
import { type Minted, newId } from '../domain/key.ts';
import type { DbTime, Queries } from './engine/db.ts';
import type { Change } from './store.ts';

export interface KeyRow {
  id: string;
  ending: string;
  created_by: string | null;
  created_at: DbTime;
  last_used_at: DbTime | null;
  expires_at: DbTime | null;
}

/** How many keys of the application have not expired. */
export async function countKeys(tx: Queries, tenant: string, application: string): Promise<number> {
  const sql = `select count(*) as count from application_keys k
    where k.tenant_id = $1 and k.application_id = $2 and (k.expires_at is null or k.expires_at > :now)`;
  return Number((await tx.get<{ count: DbTime }>(sql, [tenant, application]))?.count);
}

/** Sets the expiry of all keys that do not expire earlier. */
export async function expireKeys(
  tx: Queries,
  tenant: string,
  application: string,
  expiresAt: number,
): Promise<void> {
  await tx.run(
    `update application_keys set expires_at = $3 where tenant_id = $1 and application_id = $2
       and (expires_at is null or expires_at > $3)`,
    [tenant, application, expiresAt],
  );
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
  await tx.run(
    `insert into application_keys (tenant_id, application_id, id, digest, ending, created_by, created_at, expires_at)
     values ($1, $2, $3, $4, $5, $6, $7, $8)`,
    [tenant, application, id, digest, ending, created_by, at, expires_at],
  );
  return { id, ending, created_by, created_at: at, last_used_at: null, expires_at };
}
