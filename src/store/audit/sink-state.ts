/** The state of the deliveries to a sink, as shown to operators. */
import type { Awaitable } from '../../domain/awaitable.ts';
import type { Db, DbTime } from '../engine/db.ts';
import type { ChainKeys } from './hash-chain.ts';
import { changedPositions } from './sink-positions.ts';

export interface SinkState {
  readonly name: string;
  readonly lagEntries: number;
  /** The age in seconds of the oldest undelivered entry; 0 if all were delivered. */
  readonly lagSeconds: number;
  readonly lastDeliveryAt: number | undefined;
  /** Failed attempts since the last delivery. */
  readonly failures: number;
  readonly lastErrorAt: number | undefined;
  readonly lastError: string | undefined;
  readonly retryAt: number | undefined;
  /** Chains in which the receiver has rejected entries. */
  readonly rejectedChains: number;
  /** Entries that were archived and deleted before the sink received them. */
  readonly skippedEntries: number;
  /** Chains that end before the last delivered entry: entries were removed, or an older backup was restored. */
  readonly truncatedChains: number;
  /** Chains whose position was changed by another program. They are delivered again from their first entry. */
  readonly changedPositions: number;
}

interface SinkRow {
  readonly holder: string | null;
  readonly lease_until: DbTime;
  readonly retry_at: DbTime;
  readonly failures: number;
  readonly delivered_at: DbTime | null;
  readonly failed_at: DbTime | null;
  readonly error: string | null;
  readonly now: DbTime;
}

/** All chains, with their delivery to the sink $1. `after` is the last position before the next batch. */
export const chainsOfSink = `audit_chains c left join audit_deliveries d on d.sink = $1 and d.tenant_id = c.tenant_id`;
const after = 'case when coalesce(d.seq, 0) > c.base_seq then d.seq else c.base_seq end';
export const isBehind = `c.seq > coalesce(d.seq, 0) and c.seq > c.base_seq`;

export function readSink(db: Db, name: string) {
  return db.get<SinkRow>(
    `select holder, lease_until, retry_at, failures, delivered_at, failed_at, error, :now as now
     from audit_sinks where name = $1`,
    [name],
  );
}

export async function sinkState(
  db: Db,
  chainKeys: () => Awaitable<ChainKeys>,
  sink: string,
): Promise<SinkState> {
  const row = await readSink(db, sink);
  const number = async (sql: string) =>
    Number((await db.get<{ value: DbTime | null }>(sql, [sink]))?.value ?? 0);
  const time = (value: DbTime | null | undefined) => (Number(value ?? 0) === 0 ? undefined : Number(value));
  const age = await number(
    `select :now - min(a.at) as value from ${chainsOfSink}
     join audit a on a.chain = c.number and a.seq = (${after}) + 1 where ${isBehind}`,
  );
  return {
    name: sink,
    lagEntries: await number(
      `select sum(c.seq - (${after})) as value from ${chainsOfSink} where ${isBehind}`,
    ),
    lagSeconds: Math.max(0, age / 1000),
    lastDeliveryAt: time(row?.delivered_at),
    failures: row?.failures ?? 0,
    lastErrorAt: time(row?.failed_at),
    lastError: row?.error ?? undefined,
    retryAt: time(row?.retry_at),
    rejectedChains: await number(
      'select count(*) as value from audit_deliveries where sink = $1 and complete_seq is not null',
    ),
    skippedEntries: await number(
      `select sum(d.skipped + case when c.base_seq > d.seq then c.base_seq - d.seq else 0 end) as value
       from audit_deliveries d left join audit_chains c on c.tenant_id = d.tenant_id where d.sink = $1`,
    ),
    truncatedChains: await number(
      `select count(*) as value from audit_deliveries d left join audit_chains c on c.tenant_id = d.tenant_id
       where d.sink = $1 and d.seq > coalesce(c.seq, 0)`,
    ),
    changedPositions: (await changedPositions(db, await chainKeys(), sink)).length,
  };
}
