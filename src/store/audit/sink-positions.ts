/**
 * The position up to which each chain was delivered to a sink. Rows of `audit_deliveries` have a MAC, so that another
 * program cannot advance a position and make the sink miss entries. A row without a valid MAC is ignored: the chain is
 * then delivered from its first entry.
 */
import { type Db, type DbTime, type Queries, rowLock } from '../engine/db.ts';
import { type ChainKeys, valuesMac } from './hash-chain.ts';

export interface SinkPosition {
  /** The last entry that the sink has received. */
  readonly seq: number;
  /**
   * The last entry before the first batch in which the receiver rejected entries. Undefined if there is no such batch.
   */
  readonly completeSeq: number | undefined;
  /** Entries that were deleted before they were delivered. */
  readonly skipped: number;
}

export interface PositionRow {
  readonly tenant_id: string;
  readonly seq: DbTime | null;
  readonly complete_seq: DbTime | null;
  readonly skipped: DbTime | null;
  readonly mac: Uint8Array | null;
}

/** The columns of `PositionRow`. */
export const positionColumns = ['tenant_id', 'seq', 'complete_seq', 'skipped', 'mac'] as const;

function macOf(keys: ChainKeys, sink: string, tenantId: string, position: SinkPosition): Uint8Array {
  const { seq, completeSeq = null, skipped } = position;
  return valuesMac(keys, 'sink position', [sink, tenantId, seq, completeSeq, skipped]);
}

/** Returns undefined if the row has no position or no valid MAC. */
export function toPosition(keys: ChainKeys, sink: string, row: PositionRow): SinkPosition | undefined {
  if (row.seq === null) return undefined;
  const position = {
    seq: Number(row.seq),
    completeSeq: row.complete_seq === null ? undefined : Number(row.complete_seq),
    skipped: Number(row.skipped),
  };
  const mac = macOf(keys, sink, row.tenant_id, position);
  return Buffer.compare(mac, row.mac ?? new Uint8Array()) === 0 ? position : undefined;
}

const select = `select ${positionColumns.join(', ')} from audit_deliveries where sink = $1`;

export async function readPosition(
  db: Queries,
  keys: ChainKeys,
  sink: string,
  tenantId: string,
  lock = '',
): Promise<SinkPosition | undefined> {
  const row = await db.get<PositionRow>(`${select} and tenant_id = $2 ${lock}`, [sink, tenantId]);
  return row && toPosition(keys, sink, row);
}

/** `batchEnd` is null if no batch is being sent. */
export async function writePosition(
  tx: Queries,
  keys: ChainKeys,
  sink: string,
  tenantId: string,
  position: SinkPosition,
  batchEnd: number | null,
): Promise<void> {
  const { seq, completeSeq = null, skipped } = position;
  await tx.run(
    `insert into audit_deliveries (sink, tenant_id, seq, complete_seq, skipped, mac, batch_end, attempted_at)
     values ($1, $2, $3, $4, $5, $6, $7, :now) on conflict (sink, tenant_id) do update
     set seq = excluded.seq, complete_seq = excluded.complete_seq, skipped = excluded.skipped, mac = excluded.mac,
       batch_end = excluded.batch_end, attempted_at = excluded.attempted_at`,
    [sink, tenantId, seq, completeSeq, skipped, macOf(keys, sink, tenantId, position), batchEnd],
  );
}

/** Rows per statement. */
const pageSize = 1000;

/** The tenants whose position has no valid MAC. */
export async function changedPositions(db: Queries, keys: ChainKeys, sink: string): Promise<string[]> {
  const changed: string[] = [];
  for (let after: string | undefined; ; ) {
    const [where, values] = after === undefined ? ['', []] : ['and tenant_id > $2', [after]];
    const rows = await db.all<PositionRow>(`${select} ${where} order by tenant_id limit ${pageSize}`, [
      sink,
      ...values,
    ]);
    for (const row of rows) if (!toPosition(keys, sink, row)) changed.push(row.tenant_id);
    if (rows.length < pageSize) return changed;
    after = rows.at(-1)?.tenant_id;
  }
}

/** Treats rejected entries as delivered. */
export async function acceptRejections(db: Db, keys: ChainKeys, sink: string): Promise<void> {
  const sql = 'select tenant_id from audit_deliveries where sink = $1 and complete_seq is not null';
  for (const { tenant_id } of await db.all<{ tenant_id: string }>(sql, [sink]))
    await db.transaction(async (tx) => {
      const position = await readPosition(tx, keys, sink, tenant_id, rowLock(db, 'for update'));
      if (position)
        await writePosition(tx, keys, sink, tenant_id, { ...position, completeSeq: undefined }, null);
    });
}

/**
 * Removes positions without a valid MAC, so that their chains are delivered again. Returns the number of removed
 * positions.
 */
export async function resetChanged(db: Db, keys: ChainKeys, sink: string): Promise<number> {
  let removed = 0;
  for (const tenantId of await changedPositions(db, keys, sink))
    removed += await db.transaction(async (tx) => {
      if (await readPosition(tx, keys, sink, tenantId, rowLock(db, 'for update'))) return 0;
      return tx.run('delete from audit_deliveries where sink = $1 and tenant_id = $2', [sink, tenantId]);
    });
  return removed;
}
