/**
 * Records the ends of the tenants' chains in entries of the system chain, so that verification detects a truncated
 * chain. `audit_chains` has the end that was recorded last, with a MAC. If the MAC is invalid, the end is recorded
 * again, so another program cannot stop the recording of a chain.
 */
import { byOperator, headsOperation } from '../../domain/audit.ts';
import type { Awaitable } from '../../domain/awaitable.ts';
import { type Db, type DbTime, type Queries, rowLock } from '../engine/db.ts';
import { Params } from '../engine/sql.ts';
import { type ChainKeys, systemTenant, valuesMac } from './hash-chain.ts';
import { insertEntries } from './write.ts';

/** Chains per entry. */
const maxHeads = 100;
/** Minimum time in milliseconds between two records of the same chain. */
const interval = 60_000;
/** Chains per statement. */
const pageSize = 1000;

interface HeadRow {
  readonly number: number;
  readonly tenant_id: string;
  readonly seq: DbTime;
  readonly hash: Uint8Array;
  readonly recorded_seq: DbTime;
  readonly recorded_at: DbTime;
  readonly recorded_mac: Uint8Array | null;
}

const columns = 'number, tenant_id, seq, hash, recorded_seq, recorded_at, recorded_mac';

/**
 * Records the ends of chains in the system chain, and marks them as recorded in the same transaction. `all` includes
 * chains that were recorded less than `interval` ago.
 */
export async function recordHeads(
  db: Db,
  chainKeys: () => Awaitable<ChainKeys>,
  all: boolean,
): Promise<void> {
  const keys = await chainKeys();
  const now = Number((await db.get<{ now: DbTime }>('select :now as now'))?.now);
  const isDue = (row: HeadRow) => isUnrecorded(keys, row, all ? now : now - interval, now);
  const sql = `select ${columns} from audit_chains where number > $1 and tenant_id <> $2 order by number limit $3`;
  for (let last = -(2 ** 31), isEnd = false; !isEnd; ) {
    const page = await db.all<HeadRow>(sql, [last, systemTenant, pageSize]);
    const due = page.filter(isDue).map(({ number }) => number);
    while (due.length > 0) await recordSome(db, keys, now, due.splice(0, maxHeads), isDue);
    last = page.at(-1)?.number ?? last;
    isEnd = page.length < pageSize;
  }
}

/**
 * Whether the chain has new entries and was last recorded at `before` or earlier. Also true if the MAC of the last
 * record is invalid.
 */
function isUnrecorded(keys: ChainKeys, row: HeadRow, before: number, now: number): boolean {
  const [seq, at] = [Number(row.recorded_seq), Number(row.recorded_at)];
  if (Number(row.seq) > seq && (at <= before || at > now)) return true;
  return (
    Buffer.compare(recordedMac(keys, row.tenant_id, seq, at), row.recorded_mac ?? new Uint8Array()) !== 0
  );
}

function recordedMac(keys: ChainKeys, tenantId: string, seq: number, at: number): Uint8Array {
  return valuesMac(keys, 'recorded end', [tenantId, seq, at]);
}

/** Skips chains that another node has locked or has recorded since. */
function recordSome(
  db: Db,
  keys: ChainKeys,
  now: number,
  numbers: readonly number[],
  isDue: (row: HeadRow) => boolean,
): Promise<void> {
  return db.transaction(async (tx) => {
    const params = new Params();
    const found = await tx.all<HeadRow>(
      `select ${columns} from audit_chains where number in ${params.list(numbers)}
       order by number ${rowLock(db, 'for update skip locked')}`,
      params.values,
    );
    const rows = found.filter(isDue);
    if (rows.length === 0) return;
    await markRecorded(tx, db.dialect, keys, now, rows);
    const difference = Object.fromEntries(
      rows.map(({ tenant_id, seq, hash }) => [
        tenant_id,
        { to: `${seq}:${Buffer.from(hash).toString('hex')}` },
      ]),
    );
    await insertEntries(tx, db.dialect, keys, [
      { ...byOperator, at: now, operation: headsOperation, difference },
    ]);
  });
}

async function markRecorded(
  tx: Queries,
  dialect: Db['dialect'],
  keys: ChainKeys,
  now: number,
  rows: readonly HeadRow[],
): Promise<void> {
  const marks = rows.map(({ number, tenant_id, seq }) => {
    return { number, mac: recordedMac(keys, tenant_id, Number(seq), now) };
  });
  if (dialect === 'postgres') {
    const list = marks.map(({ number, mac }) => ({ number, mac: mac.toHex() }));
    await tx.run(
      `update audit_chains c set recorded_seq = c.seq, recorded_at = $1, recorded_mac = decode(m.mac, 'hex')
       from json_to_recordset(cast(cast($2 as text) as json)) as m (number integer, mac text)
       where c.number = m.number`,
      [now, JSON.stringify(list)],
    );
    return;
  }
  const sql =
    'update audit_chains set recorded_seq = seq, recorded_at = $2, recorded_mac = $3 where number = $1';
  for (const { number, mac } of marks) await tx.run(sql, [number, now, mac]);
}
