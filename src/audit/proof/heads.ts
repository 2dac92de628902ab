/**
 * Records the ends of the tenants' chains in entries of the system chain, so that verification detects a truncated
 * chain. `audit_chains` has the end that was recorded last, with a MAC. If the MAC is invalid, the end is recorded
 * again: a changed row cannot stop the recording of a chain.
 */

import type { DbTime, Queries } from '../../db/db.ts';
import type { ChainKeys } from '../../db/keys/keyring.ts';
import { databaseTime } from '../../db/sql.ts';
import { raw, sql } from '../../db/statement.ts';
import { byOperator, headsOperation } from '../../domain/audit.ts';
import type { AuditDb } from '../log/chain.ts';
import { sameBytes, valuesMac } from '../log/entry.ts';
import type { EntryWriter } from '../log/pending.ts';
import { hexOf } from '../log/segment.ts';
import { type NewEntry, systemTenant } from '../records.ts';

/** Chains per entry. */
const maxHeads = 100;
/** Minimum time in milliseconds between two records of the same chain. */
const interval = 60_000;
/** Chains per statement. */
const pageSize = 1000;

interface HeadRow {
  readonly tenant_id: string;
  readonly number: DbTime;
  readonly hash: Uint8Array;
  readonly recorded_number: DbTime;
  readonly recorded_at: DbTime;
  readonly recorded_mac: Uint8Array | null;
}

const columns = 'tenant_id, number, hash, recorded_number, recorded_at, recorded_mac';

/**
 * Records the ends of chains in the system chain, and then marks them as recorded. If this process stops in between, or
 * if another node records the same ends, the log has a second entry with them. `all` includes chains that were recorded
 * less than `interval` ago.
 */
export async function recordHeads({ db, keys }: AuditDb, write: EntryWriter, all: boolean): Promise<void> {
  const chainKeys = await keys();
  const now = await databaseTime(db);
  const isDistributed = await db.isDistributed?.();
  for (let last: string | undefined = systemTenant; last !== undefined; ) {
    const page: HeadRow[] = await db.all<HeadRow>(sql`
      select ${raw(columns)} from audit_chains where tenant_id > ${last} order by tenant_id limit ${pageSize}`);
    const due = page.filter((row) => isUnrecorded(chainKeys, row, all ? now : now - interval, now));
    for (let from = 0; from < due.length; from += maxHeads) {
      const some = due.slice(from, from + maxHeads);
      await db.transaction((tx) => write(tx, [entryOf(some, now)]));
      // In a cluster, a transaction changes the chain of one tenant.
      for (const rows of isDistributed ? some.map((row) => [row]) : [some])
        await db.transaction(
          (tx) => markRecorded(tx, chainKeys, now, rows),
          isDistributed ? rows[0]?.tenant_id : undefined,
        );
    }
    last = page[pageSize - 1]?.tenant_id;
  }
}

/**
 * Whether the chain has new segments and was last recorded at `before` or earlier. Also true if the MAC of the last
 * record is invalid.
 */
function isUnrecorded(keys: ChainKeys, row: HeadRow, before: number, now: number): boolean {
  const [number, at] = [Number(row.recorded_number), Number(row.recorded_at)];
  if (Number(row.number) > number && (at <= before || at > now)) return true;
  return !sameBytes(recordedMac(keys, row.tenant_id, number, at), row.recorded_mac);
}

export function recordedMac(keys: ChainKeys, tenantId: string, number: number, at: number): Uint8Array {
  return valuesMac(keys, 'recorded end', [tenantId, number, at]);
}

function entryOf(rows: readonly HeadRow[], at: number): NewEntry {
  const difference = Object.fromEntries(
    rows.map(({ tenant_id, number, hash }) => [tenant_id, { to: `${number}:${hexOf(hash)}` }]),
  );
  return { ...byOperator, at, operation: headsOperation, difference };
}

/** Rows are in the order of their tenants, so that two nodes cannot deadlock. */
async function markRecorded(
  tx: Queries,
  keys: ChainKeys,
  now: number,
  rows: readonly HeadRow[],
): Promise<void> {
  await Promise.all(
    rows.map(({ tenant_id, number }) => {
      const mac = recordedMac(keys, tenant_id, Number(number), now);
      return tx.run(sql`update audit_chains
        set recorded_number = ${Number(number)}, recorded_at = ${now}, recorded_mac = ${mac}
        where tenant_id = ${tenant_id}`);
    }),
  );
}
