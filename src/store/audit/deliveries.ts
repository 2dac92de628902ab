/** How far the audit log was delivered to each sink, and which node delivers. */
import type { Awaitable } from '../../domain/awaitable.ts';
import { type Db, type DbTime, rowLock } from '../engine/db.ts';
import { type ChainKeys, systemTenant } from './hash-chain.ts';
import {
  acceptRejections,
  type PositionRow,
  positionColumns,
  readPosition,
  resetChanged,
  toPosition,
  writePosition,
} from './sink-positions.ts';
import { chainsOfSink, isBehind, readSink, type SinkState, sinkState } from './sink-state.ts';

/**
 * `held`: this node delivers. `other`: another node delivers. `waiting`: a delivery failed, and the retry is not due
 * yet.
 */
export type Claim = 'held' | 'other' | 'waiting';

/** A chain with entries that a sink has not received. */
export interface UndeliveredChain {
  /** Undefined for the system chain. */
  readonly tenantId: string | undefined;
  /** Entries up to here were delivered, or archived and deleted. */
  readonly after: number;
  /** The last entry of the chain. */
  readonly head: number;
  /** The last entry of a batch that was sent but not confirmed. The batch is sent again with the same entries. */
  readonly batchEnd: number | undefined;
}

export interface Lease {
  /** Milliseconds for which a claim is valid. */
  readonly duration: number;
  /** Milliseconds. A claim that expires sooner than this is renewed. */
  readonly minimum: number;
  /**
   * Whether this is the first claim of a process. On SQLite, only one process delivers, so the first claim takes over
   * the lease of an older process, which was killed or is about to stop.
   */
  readonly isFirst?: boolean;
}

export interface Deliveries {
  /**
   * Claims or renews the lease on a sink. Only one node holds it. If that node does not renew it, another node takes
   * over.
   */
  claim(sink: string, holder: string, lease: Lease): Promise<Claim>;
  release(sink: string, holder: string): Promise<void>;
  /** At most `limit` chains with undelivered entries. The least recently attempted chain is first. */
  undelivered(sink: string, limit: number): Promise<UndeliveredChain[]>;
  /** Records that entries up to `batchEnd` are about to be sent. Returns false if another node holds the sink. */
  begin(sink: string, holder: string, chain: UndeliveredChain, batchEnd: number): Promise<boolean>;
  /**
   * Records a delivery, even if another node holds the sink by now. `rejected` is set if the receiver has permanently
   * rejected some of the entries, and says why.
   */
  complete(
    sink: string,
    holder: string,
    chain: UndeliveredChain,
    batchEnd: number,
    rejected?: string,
  ): Promise<void>;
  /**
   * Records a failed attempt. `delayAfter` gets the number of failures and returns the milliseconds until the next
   * attempt.
   */
  fail(sink: string, holder: string, error: string, delayAfter: (failures: number) => number): Promise<void>;
  state(sink: string): Promise<SinkState>;
  /** Removes positions that another program has changed. Returns the number of removed positions. */
  resetChanged(sink: string): Promise<number>;
  /** The last position up to which the sink has accepted every entry. */
  deliveredUpTo(sink: string, tenantId: string | undefined): Promise<number>;
  /** The last position up to which the sink has received every entry, including entries that it rejected. */
  receivedUpTo(sink: string, tenantId: string | undefined): Promise<number>;
  /**
   * The given sinks, and those to which any node delivers now. Another node may have more sinks configured than the
   * caller.
   */
  withActive(sinks: readonly string[]): Promise<string[]>;
  /**
   * Call this before deleting entries above `baseSeq` that the sink has not received. The state of the sink then counts
   * them as skipped.
   */
  markSkipped(sink: string, tenantId: string | undefined, baseSeq: number): Promise<void>;
  /** Treats entries that the receiver has rejected as delivered, so that they can be deleted. */
  acceptRejections(sink: string): Promise<void>;
}

const holdsSink = `exists (select 1 from audit_sinks where name = $1 and holder = $2 and lease_until > :now)`;

type Keys = () => Awaitable<ChainKeys>;

export function deliveries(db: Db, chainKeys: Keys): Deliveries {
  const position = async (sink: string, tenantId = systemTenant) =>
    readPosition(db, await chainKeys(), sink, tenantId);
  return {
    claim: (...args) => claim(db, ...args),
    release: async (sink, holder) => {
      await db.run('update audit_sinks set lease_until = 0 where name = $1 and holder = $2', [sink, holder]);
    },
    undelivered: (...args) => undelivered(db, chainKeys, ...args),
    begin: (...args) => begin(db, chainKeys, ...args),
    complete: (...args) => complete(db, chainKeys, ...args),
    fail: async (sink, holder, error, delayAfter) => {
      const failures = ((await readSink(db, sink))?.failures ?? 0) + 1;
      await db.run(
        `update audit_sinks set failures = $3, retry_at = :now + $4, failed_at = :now, error = $5
         where name = $1 and holder = $2`,
        [sink, holder, failures, delayAfter(failures), error],
      );
    },
    state: (sink) => sinkState(db, chainKeys, sink),
    resetChanged: async (sink) => {
      const removed = await resetChanged(db, await chainKeys(), sink);
      const error = `the position was changed in the database, and the entries are delivered again: ${removed} ${removed === 1 ? 'chain' : 'chains'}`;
      if (removed > 0)
        await db.run('update audit_sinks set failed_at = :now, error = $2 where name = $1', [sink, error]);
      return removed;
    },
    deliveredUpTo: async (...chain) => {
      const { seq = 0, completeSeq = seq } = (await position(...chain)) ?? {};
      return completeSeq;
    },
    receivedUpTo: async (...chain) => (await position(...chain))?.seq ?? 0,
    withActive: async (sinks) => {
      const sql = 'select name from audit_sinks where lease_until > :now or retry_at > :now';
      const rows = await db.all<{ name: string }>(sql);
      return [...new Set([...sinks, ...rows.map(({ name }) => name)])].sort();
    },
    markSkipped: async (sink, tenantId = systemTenant, baseSeq) => {
      const keys = await chainKeys();
      const start = { seq: baseSeq, completeSeq: undefined, skipped: 0 };
      await db.transaction(async (tx) => {
        if (await readPosition(tx, keys, sink, tenantId, rowLock(db, 'for update'))) return;
        await writePosition(tx, keys, sink, tenantId, start, null);
      });
    },
    acceptRejections: async (sink) => acceptRejections(db, await chainKeys(), sink),
  };
}

async function claim(db: Db, sink: string, holder: string, lease: Lease): Promise<Claim> {
  const { duration, minimum, isFirst = false } = lease;
  const row = await readSink(db, sink);
  if (!row) {
    const inserted = await db.run(
      `insert into audit_sinks (name, holder, lease_until, retry_at, failures)
       values ($1, $2, :now + $3, 0, 0) on conflict (name) do nothing`,
      [sink, holder, duration],
    );
    return inserted === 1 ? 'held' : 'other';
  }
  const now = Number(row.now);
  if (Number(row.retry_at) > now) return 'waiting';
  const takesOver = isFirst && db.dialect === 'sqlite';
  const remaining = takesOver ? 0 : Number(row.lease_until) - now;
  if (row.holder === holder && remaining >= minimum) return 'held';
  if (row.holder !== holder && remaining > 0) return 'other';
  const taken = await db.run(
    `update audit_sinks set holder = $2, lease_until = :now + $3
     where name = $1 ${takesOver ? '' : 'and (holder = $2 or lease_until <= :now)'}`,
    [sink, holder, duration],
  );
  return taken === 1 ? 'held' : 'other';
}

async function undelivered(
  db: Db,
  chainKeys: Keys,
  sink: string,
  limit: number,
): Promise<UndeliveredChain[]> {
  const keys = await chainKeys();
  type Row = PositionRow & { chain: string; base_seq: DbTime; head: DbTime; batch_end: DbTime | null };
  const rows = await db.all<Row>(
    `select c.tenant_id as chain, c.base_seq, c.seq as head, d.batch_end,
       ${positionColumns.map((name) => `d.${name}`).join(', ')}
     from ${chainsOfSink} where ${isBehind} order by coalesce(d.attempted_at, 0), c.number limit $2`,
    [sink, limit],
  );
  return rows.map((row) => {
    const position = toPosition(keys, sink, row);
    const [after, end] = [
      Math.max(position?.seq ?? 0, Number(row.base_seq)),
      position ? Number(row.batch_end ?? 0) : 0,
    ];
    return {
      tenantId: row.chain === systemTenant ? undefined : row.chain,
      after,
      head: Number(row.head),
      batchEnd: end > after ? end : undefined,
    };
  });
}

async function begin(
  db: Db,
  chainKeys: Keys,
  sink: string,
  holder: string,
  { tenantId = systemTenant, after }: UndeliveredChain,
  batchEnd: number,
): Promise<boolean> {
  const keys = await chainKeys();
  return db.transaction(async (tx) => {
    if (!(await tx.get(`select 1 as one where ${holdsSink}`, [sink, holder]))) return false;
    const before = await readPosition(tx, keys, sink, tenantId, rowLock(db, 'for update'));
    const { seq, completeSeq, skipped } = before ?? { seq: after, completeSeq: undefined, skipped: 0 };
    const position = { seq: Math.max(seq, after), completeSeq, skipped: skipped + Math.max(0, after - seq) };
    await writePosition(tx, keys, sink, tenantId, position, batchEnd);
    return true;
  });
}

async function complete(
  db: Db,
  chainKeys: Keys,
  sink: string,
  holder: string,
  { tenantId = systemTenant, after }: UndeliveredChain,
  batchEnd: number,
  rejected?: string,
): Promise<void> {
  const keys = await chainKeys();
  await db.transaction(async (tx) => {
    const before = await readPosition(tx, keys, sink, tenantId, rowLock(db, 'for update'));
    if (before && before.seq < batchEnd) {
      const completeSeq = before.completeSeq ?? (rejected === undefined ? undefined : after);
      await writePosition(tx, keys, sink, tenantId, { ...before, seq: batchEnd, completeSeq }, null);
    }
    await tx.run(
      'update audit_sinks set failures = 0, retry_at = 0, delivered_at = :now where name = $1 and holder = $2',
      [sink, holder],
    );
    if (rejected === undefined) return;
    const sql = 'update audit_sinks set failed_at = :now, error = $3 where name = $1 and holder = $2';
    await tx.run(sql, [sink, holder, rejected]);
  });
}
