/** How far the audit log was delivered to each sink, and which node delivers. */
import type { Db, DbTime } from '../engine/db.ts';
import { systemTenant } from './hash-chain.ts';

/** `held`: this node delivers. `other`: another node does. `waiting`: the sink failed, and the next attempt is not due. */
export type Claim = 'held' | 'other' | 'waiting';

/** A chain with entries that a sink has not received. */
export interface UndeliveredChain {
  /** Undefined for the chain of entries without a tenant. */
  readonly tenantId: string | undefined;
  /** Entries up to here were delivered, or archived and deleted. */
  readonly after: number;
  /** The last entry of the chain. */
  readonly head: number;
  /** The last entry of a batch that was sent before without a confirmation. It is repeated with the same entries. */
  readonly batchEnd: number | undefined;
}

export interface SinkState {
  readonly name: string;
  readonly lagEntries: number;
  /** Seconds since the oldest entry that is not delivered was written; 0 if none is missing. */
  readonly lagSeconds: number;
  readonly lastDeliveryAt: number | undefined;
  /** Attempts since the last delivery. */
  readonly failures: number;
  readonly lastErrorAt: number | undefined;
  readonly lastError: string | undefined;
  readonly retryAt: number | undefined;
  /** Chains in which the receiver has rejected entries. */
  readonly rejectedChains: number;
  /** Entries that were archived and deleted before the sink has received them. */
  readonly skippedEntries: number;
  /** Chains that end before the last delivered entry: entries were removed, or an older backup was restored. */
  readonly truncatedChains: number;
}

export interface Lease {
  /** Milliseconds for which a claim is valid. */
  readonly duration: number;
  /** Milliseconds. A claim that is valid for less than this is renewed. */
  readonly minimum: number;
  /**
   * This is the first claim of a process. On SQLite it ends the claim of another process: only one node delivers, so the
   * other one was killed or is about to stop.
   */
  readonly isFirst?: boolean;
}

export interface Deliveries {
  /** Only one node holds the lease on a sink. If it does not renew the lease, another node takes over. */
  claim(sink: string, holder: string, lease: Lease): Promise<Claim>;
  release(sink: string, holder: string): Promise<void>;
  /** At most `limit` chains, the one that was attempted least recently first. */
  undelivered(sink: string, limit: number): Promise<UndeliveredChain[]>;
  /** Records that entries up to `batchEnd` are about to be sent. Returns false if another node holds the sink. */
  begin(sink: string, holder: string, chain: UndeliveredChain, batchEnd: number): Promise<boolean>;
  /**
   * Records a delivery, also if another node holds the sink now. `rejected` is the reason why the receiver has rejected
   * some of its entries for good.
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
  /** The last entry up to which the sink has received and accepted the whole chain. */
  deliveredUpTo(sink: string, tenantId: string | undefined): Promise<number>;
  /** The last entry that the sink has received, also if it has rejected some. */
  receivedUpTo(sink: string, tenantId: string | undefined): Promise<number>;
  /** These sinks, and those to which a node delivers now: the configurations of nodes and commands may differ. */
  withActive(sinks: readonly string[]): Promise<string[]>;
  /** Call it before entries above `baseSeq` are deleted that the sink has not received. It then counts them. */
  markSkipped(sink: string, tenantId: string | undefined, baseSeq: number): Promise<void>;
  /** Counts the entries that the receiver has rejected as delivered, so that they can be deleted. */
  acceptRejections(sink: string): Promise<void>;
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

const holdsSink = `exists (select 1 from audit_sinks where name = $1 and holder = $2 and lease_until > :now)`;

/** Chains with the delivery of one sink ($1). `after` is where the next batch begins. */
const chainsOfSink = `audit_chains c left join audit_deliveries d on d.sink = $1 and d.tenant_id = c.tenant_id`;
const after = 'case when coalesce(d.seq, 0) > c.base_seq then d.seq else c.base_seq end';
const isBehind = `c.seq > coalesce(d.seq, 0) and c.seq > c.base_seq`;

export function deliveries(db: Db): Deliveries {
  return {
    claim: (...args) => claim(db, ...args),
    release: async (sink, holder) => {
      await db.run('update audit_sinks set lease_until = 0 where name = $1 and holder = $2', [sink, holder]);
    },
    undelivered: (...args) => undelivered(db, ...args),
    begin: (...args) => begin(db, ...args),
    complete: (...args) => complete(db, ...args),
    fail: async (sink, holder, error, delayAfter) => {
      const failures = ((await readSink(db, sink))?.failures ?? 0) + 1;
      await db.run(
        `update audit_sinks set failures = $3, retry_at = :now + $4, failed_at = :now, error = $5
         where name = $1 and holder = $2`,
        [sink, holder, failures, delayAfter(failures), error],
      );
    },
    state: (sink) => sinkState(db, sink),
    deliveredUpTo: (...chain) => position(db, 'coalesce(complete_seq, seq)', ...chain),
    receivedUpTo: (...chain) => position(db, 'seq', ...chain),
    withActive: async (sinks) => {
      const sql = 'select name from audit_sinks where lease_until > :now or retry_at > :now';
      const rows = await db.all<{ name: string }>(sql);
      return [...new Set([...sinks, ...rows.map(({ name }) => name)])].sort();
    },
    markSkipped: async (sink, tenantId = systemTenant, baseSeq) => {
      await db.run(
        `insert into audit_deliveries (sink, tenant_id, seq, attempted_at) values ($1, $2, $3, 0)
         on conflict (sink, tenant_id) do nothing`,
        [sink, tenantId, baseSeq],
      );
    },
    acceptRejections: async (sink) => {
      await db.run('update audit_deliveries set complete_seq = null where sink = $1', [sink]);
    },
  };
}

async function position(db: Db, column: string, sink: string, tenantId = systemTenant): Promise<number> {
  const sql = `select ${column} as seq from audit_deliveries where sink = $1 and tenant_id = $2`;
  return Number((await db.get<{ seq: DbTime }>(sql, [sink, tenantId]))?.seq ?? 0);
}

function readSink(db: Db, name: string) {
  return db.get<SinkRow>(
    `select holder, lease_until, retry_at, failures, delivered_at, failed_at, error, :now as now
     from audit_sinks where name = $1`,
    [name],
  );
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

async function undelivered(db: Db, sink: string, limit: number): Promise<UndeliveredChain[]> {
  const rows = await db.all<{ tenant_id: string; after: DbTime; head: DbTime; batch_end: DbTime | null }>(
    `select c.tenant_id, ${after} as after, c.seq as head, d.batch_end
     from ${chainsOfSink} where ${isBehind} order by coalesce(d.attempted_at, 0), c.number limit $2`,
    [sink, limit],
  );
  return rows.map((row) => {
    const [position, end] = [Number(row.after), Number(row.batch_end ?? 0)];
    return {
      tenantId: row.tenant_id === systemTenant ? undefined : row.tenant_id,
      after: position,
      head: Number(row.head),
      batchEnd: end > position ? end : undefined,
    };
  });
}

async function begin(
  db: Db,
  sink: string,
  holder: string,
  { tenantId = systemTenant, after: position }: UndeliveredChain,
  batchEnd: number,
): Promise<boolean> {
  return db.transaction(async (tx) => {
    if (!(await tx.get(`select 1 as one where ${holdsSink}`, [sink, holder]))) return false;
    await tx.run(
      `insert into audit_deliveries (sink, tenant_id, seq, batch_end, attempted_at)
       values ($1, $2, $3, $4, :now) on conflict (sink, tenant_id) do update
       set batch_end = excluded.batch_end, attempted_at = excluded.attempted_at,
         skipped = audit_deliveries.skipped + case when excluded.seq > audit_deliveries.seq
           then excluded.seq - audit_deliveries.seq else 0 end,
         seq = case when excluded.seq > audit_deliveries.seq then excluded.seq else audit_deliveries.seq end`,
      [sink, tenantId, position, batchEnd],
    );
    return true;
  });
}

async function complete(
  db: Db,
  sink: string,
  holder: string,
  { tenantId = systemTenant, after: position }: UndeliveredChain,
  batchEnd: number,
  rejected?: string,
): Promise<void> {
  const rejectedAfter = rejected === undefined ? null : position;
  await db.transaction(async (tx) => {
    await tx.run(
      `update audit_deliveries set seq = $3, batch_end = null, complete_seq = coalesce(complete_seq, $4)
       where sink = $1 and tenant_id = $2 and seq < $3`,
      [sink, tenantId, batchEnd, rejectedAfter],
    );
    await tx.run(
      'update audit_sinks set failures = 0, retry_at = 0, delivered_at = :now where name = $1 and holder = $2',
      [sink, holder],
    );
    if (rejected === undefined) return;
    const sql = 'update audit_sinks set failed_at = :now, error = $3 where name = $1 and holder = $2';
    await tx.run(sql, [sink, holder, rejected]);
  });
}

async function sinkState(db: Db, sink: string): Promise<SinkState> {
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
  };
}
