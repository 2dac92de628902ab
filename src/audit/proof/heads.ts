/**
 * Records the ends of the tenants' chains in entries of the system chain, so that verification detects a truncated
 * chain. `audit_chains` has the end that was recorded last, with a MAC. If the MAC is invalid, the end is recorded
 * again, so another program cannot stop the recording of a chain.
 */

import { type Db, type DbTime, type Queries, rowLock } from '../../db/db.ts';
import type { ChainKeys } from '../../db/keys/keyring.ts';
import { databaseTime, Params } from '../../db/sql.ts';
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
 * Records the ends of chains in the system chain, and marks them as recorded in the same transaction. `all` includes
 * chains that were recorded less than `interval` ago.
 */
export async function recordHeads({ db, keys }: AuditDb, write: EntryWriter, all: boolean): Promise<void> {
  const chainKeys = await keys();
  const now = await databaseTime(db);
  const isDistributed = await db.isDistributed?.();
  const isDue = (row: HeadRow) => isUnrecorded(chainKeys, row, all ? now : now - interval, now);
  const sql = `select ${columns} from audit_chains where tenant_id > $1 order by tenant_id limit $2`;
  for (let last: string = systemTenant, isEnd = false; !isEnd; ) {
    const page = await db.all<HeadRow>(sql, [last, pageSize]);
    const due = page.filter(isDue);
    for (let from = 0; from < due.length; from += maxHeads) {
      const some = due.slice(from, from + maxHeads);
      if (isDistributed) await recordApart(db, chainKeys, write, now, some);
      else await recordSome(db, chainKeys, write, now, some, isDue);
    }
    last = page.at(-1)?.tenant_id ?? last;
    isEnd = page.length < pageSize;
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

/** Skips chains that another node has locked or has recorded since. */
function recordSome(
  db: Db,
  keys: ChainKeys,
  write: EntryWriter,
  now: number,
  heads: readonly HeadRow[],
  isDue: (row: HeadRow) => boolean,
): Promise<void> {
  return db.transaction(async (tx) => {
    const params = new Params();
    const found = await tx.all<HeadRow>(
      `select ${columns} from audit_chains where tenant_id in ${params.list(heads.map(({ tenant_id }) => tenant_id))}
       order by tenant_id ${rowLock(db, 'for update skip locked')}`,
      params.values,
    );
    const rows = found.filter(isDue);
    if (rows.length === 0) return;
    await markRecorded(tx, db.dialect, keys, now, rows);
    await write(tx, [entryOf(rows, now)]);
  });
}

/**
 * In a Citus cluster, chains are on several servers and cannot be locked together. So the entry is written first. If
 * another node records the same ends, or if this process stops before they are marked, the log has a second entry with
 * them.
 */
async function recordApart(
  db: Db,
  keys: ChainKeys,
  write: EntryWriter,
  now: number,
  rows: readonly HeadRow[],
): Promise<void> {
  await db.transaction((tx) => write(tx, [entryOf(rows, now)]));
  for (const row of rows)
    await db.transaction((tx) => markRecorded(tx, 'sqlite', keys, now, [row]), row.tenant_id);
}

function entryOf(rows: readonly HeadRow[], at: number): NewEntry {
  const difference = Object.fromEntries(
    rows.map(({ tenant_id, number, hash }) => [tenant_id, { to: `${number}:${hexOf(hash)}` }]),
  );
  return { ...byOperator, at, operation: headsOperation, difference };
}

async function markRecorded(
  tx: Queries,
  dialect: Db['dialect'],
  keys: ChainKeys,
  now: number,
  rows: readonly HeadRow[],
): Promise<void> {
  const marks = rows.map(({ tenant_id, number }) => {
    return { tenant_id, number: Number(number), mac: recordedMac(keys, tenant_id, Number(number), now) };
  });
  if (dialect === 'postgres') {
    const list = marks.map(({ tenant_id, mac }) => ({ tenant_id, mac: mac.toHex() }));
    await tx.run(
      `update audit_chains c set recorded_number = c.number, recorded_at = $1, recorded_mac = decode(m.mac, 'hex')
       from json_to_recordset(cast(cast($2 as text) as json)) as m (tenant_id uuid, mac text)
       where c.tenant_id = m.tenant_id`,
      [now, JSON.stringify(list)],
    );
    return;
  }
  const sql =
    'update audit_chains set recorded_number = $4, recorded_at = $2, recorded_mac = $3 where tenant_id = $1';
  for (const { tenant_id, number, mac } of marks) await tx.run(sql, [tenant_id, now, mac, number]);
}
