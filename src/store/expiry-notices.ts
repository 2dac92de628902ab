/** Writes an audit entry 7 days and 1 day before an application expires, and with it all of its keys. */

import { byOperator, expiringOperation } from '../domain/audit.ts';
import type { Awaitable } from '../domain/awaitable.ts';
import { timestamp } from '../domain/common-fields.ts';
import type { ChainKeys } from './audit/hash-chain.ts';
import { insertEntries } from './audit/write.ts';
import type { Db, DbTime } from './engine/db.ts';

/** Ascending: an application that expires within a day gets no second notice for the week. */
const noticeDays = [1, 7];
const day = 86_400_000;

interface ExpiringRow {
  readonly tenant_id: string;
  readonly id: string;
  readonly expires_at: DbTime;
  readonly now: DbTime;
}

/** Applications that live for less than the notice are not announced. A later expiry time is announced again. */
const withoutNotice = `select a.tenant_id, a.id, a.expires_at, :now as now
  from applications a join tenants t on t.id = a.tenant_id
  where a.expires_at > :now and a.expires_at <= :now + $1 and a.expires_at - $1 >= a.created_at
    and t.deleted_at is null and not exists (
      select 1 from expiry_notices n where n.tenant_id = a.tenant_id and n.application_id = a.id
        and n.expires_at = a.expires_at and n.days <= $2)
  order by a.expires_at limit $3`;

/**
 * Writes at most `limit` entries of each kind and returns how many. Any node may call it at any time: each entry is written
 * once, in the transaction that records the notice.
 */
export async function writeExpiryNotices(
  db: Db,
  chainKeys: () => Awaitable<ChainKeys>,
  limit: number,
): Promise<number> {
  let written = 0;
  for (const days of noticeDays) {
    const due = await db.all<ExpiringRow>(withoutNotice, [days * day, days, limit]);
    if (due.length === 0) continue;
    const keys = await chainKeys();
    written += await db.transaction(async (tx) => {
      const entries = [];
      for (const { tenant_id: tenantId, id, expires_at, now } of due) {
        const expiresAt = Number(expires_at);
        const recorded = await tx.run(
          `insert into expiry_notices (tenant_id, application_id, expires_at, days) values ($1, $2, $3, $4)
           on conflict do nothing`,
          [tenantId, id, expiresAt, days],
        );
        if (recorded === 0) continue;
        const entity = { kind: 'application', id };
        const difference = { expires_at: { to: timestamp(expiresAt) } };
        entries.push({
          ...byOperator,
          tenantId,
          at: Number(now),
          operation: expiringOperation,
          entity,
          difference,
        });
      }
      if (entries.length > 0) await insertEntries(tx, db.dialect, keys, entries);
      return entries.length;
    });
  }
  return written;
}
