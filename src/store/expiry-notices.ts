/** Writes an audit entry 7 days and 1 day before an application expires, or before one of its keys expires earlier. */

import type { EntryWriter } from '../audit/log.ts';
import { byOperator, expiringOperation } from '../domain/audit.ts';
import { timestamp } from '../domain/common-fields.ts';
import type { Db, DbTime, Queries } from './engine/db.ts';
import { everyTenant } from './engine/sql.ts';
import type { NewEntry } from './store.ts';

/** In ascending order: the notice for 1 day also replaces a missing notice for 7 days, so that only one is written. */
const noticeDays = [1, 7];
const day = 86_400_000;

interface ExpiringRow {
  readonly tenant_id: string;
  readonly id: string;
  /** Null if the application itself expires. */
  readonly key_id: string | null;
  readonly ending: string | null;
  readonly expires_at: DbTime;
  readonly now: DbTime;
}

/**
 * A lifetime that is shorter than the notice period gets no notice. If the expiry time is changed, another notice is
 * written.
 */
const isDue = (alias: string) => `${alias}.expires_at > :now and ${alias}.expires_at <= :now + $1
  and ${alias}.expires_at - $1 >= ${alias}.created_at and t.deleted_at is null`;

const applicationsWithoutNotice = everyTenant(`
  select a.tenant_id, a.id, null as key_id, null as ending, a.expires_at, :now as now
  from applications a join tenants t on t.id = a.tenant_id
  where ${isDue('a')} and not exists (
    select 1 from expiry_notices n where n.tenant_id = a.tenant_id and n.application_id = a.id
      and n.expires_at = a.expires_at and n.days <= $2)
  order by a.expires_at limit $3`);

/** Keys that expire before their application. */
const keysWithoutNotice = everyTenant(`
  select k.tenant_id, k.application_id as id, k.id as key_id, k.ending, k.expires_at, :now as now
  from application_keys k join tenants t on t.id = k.tenant_id
  join applications a on a.tenant_id = k.tenant_id and a.id = k.application_id
  where ${isDue('k')} and (a.expires_at is null or a.expires_at > k.expires_at) and not exists (
    select 1 from key_expiry_notices n where n.tenant_id = k.tenant_id and n.application_id = k.application_id
      and n.key_id = k.id and n.expires_at = k.expires_at and n.days <= $2)
  order by k.expires_at limit $3`);

/**
 * Writes at most `limit` entries for each notice period, for applications and for keys. Returns the total. Any node may
 * call this at any time: each entry is written once, in the transaction that records the notice.
 */
export async function writeExpiryNotices(db: Db, writeEntries: EntryWriter, limit: number): Promise<number> {
  let written = 0;
  for (const days of noticeDays)
    for (const withoutNotice of [applicationsWithoutNotice, keysWithoutNotice]) {
      const due = await db.all<ExpiringRow>(withoutNotice, [days * day, days, limit]);
      if (due.length === 0) continue;
      written += await db.transaction(async (tx) => {
        const entries: NewEntry[] = [];
        for (const row of due) if (await recordNotice(tx, row, days)) entries.push(entryOf(row));
        if (entries.length > 0) await writeEntries(tx, entries);
        return entries.length;
      });
    }
  return written;
}

/** Returns false if the notice is recorded already, or if the key no longer exists. */
async function recordNotice(tx: Queries, row: ExpiringRow, days: number): Promise<boolean> {
  const { tenant_id: tenant, id, key_id: key, expires_at } = row;
  const expiresAt = Number(expires_at);
  const recorded =
    key === null
      ? await tx.run(
          `insert into expiry_notices (tenant_id, application_id, expires_at, days) values ($1, $2, $3, $4)
           on conflict do nothing`,
          [tenant, id, expiresAt, days],
        )
      : await tx.run(
          `insert into key_expiry_notices (tenant_id, application_id, key_id, expires_at, days)
           select tenant_id, application_id, id, $4, $5 from application_keys
           where tenant_id = $1 and application_id = $2 and id = $3 on conflict do nothing`,
          [tenant, id, key, expiresAt, days],
        );
  return recorded > 0;
}

function entryOf({ tenant_id: tenantId, id, key_id, ending, expires_at, now }: ExpiringRow): NewEntry {
  return {
    ...byOperator,
    tenantId,
    at: Number(now),
    operation: expiringOperation,
    entity: { kind: 'application', id },
    difference: {
      ...(key_id !== null && { keys: { from: { id: key_id, ending } } }),
      expires_at: { to: timestamp(Number(expires_at)) },
    },
  };
}
