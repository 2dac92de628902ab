/**
 * How far the audit log was delivered to each sink, and which node delivers. Rows of `audit_deliveries` have a MAC, so
 * that an advanced position cannot make the sink miss entries. A chain whose row has no valid MAC is not delivered, and
 * none of its entries count as delivered, until an operator acknowledges that.
 */

import { type Db, type DbTime, type Queries, rowLock } from '../../db/db.ts';
import type { ChainKeys } from '../../db/keys/keyring.ts';
import { numberIn } from '../../db/sql.ts';
import { type Bound, clause, none, raw, sql } from '../../db/statement.ts';
import { nilTenant } from '../../domain/key.ts';
import { type AuditDb, chainOf } from '../log/chain.ts';
import { sameBytes, valuesMac } from '../log/entry.ts';
import type { Batch, DeliveredSegment } from './batch.ts';

/**
 * `held`: this node delivers. `other`: another node delivers. `waiting`: a delivery failed, and the retry is not due
 * yet.
 */
export type Claim = 'held' | 'other' | 'waiting';

/** A chain with segments that a sink has not received. */
export interface UndeliveredChain {
  readonly tenantId: string;
  /** Segments up to here were delivered, or archived and deleted. */
  readonly after: number;
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

/** The state of the deliveries to a sink, as shown to operators. */
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
  /** Chains that end before the last delivered segment: entries were removed, or an older backup was restored. */
  readonly truncatedChains: number;
  /** Chains whose position was changed. They are not delivered. */
  readonly changedPositions: number;
}

/** The part of a row of `audit_deliveries` that the MAC covers. */
interface SinkPosition {
  /** The last segment that the sink has received, and its last entry. */
  readonly number: number;
  readonly seq: number;
  /** The last segment before the first one in which the receiver rejected entries. Null without rejected entries. */
  readonly complete: number | null;
  /** Entries that were deleted before they were delivered. */
  readonly skipped: number;
}

interface PositionRow {
  readonly tenant_id: string;
  readonly number: DbTime;
  readonly seq: DbTime;
  readonly complete_number: DbTime | null;
  readonly skipped: DbTime;
  readonly mac: Uint8Array | null;
}

/** The columns of `PositionRow`. */
const ofDeliveries = raw('d.tenant_id, d.number, d.seq, d.complete_number, d.skipped, d.mac');

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

/** All chains, with their delivery to the sink. `after` is the last segment before the next one to deliver. */
const chainsOf = (sink: string) =>
  clause`audit_chains c left join audit_deliveries d on d.tenant_id = c.tenant_id and d.sink = ${sink}`;
const after = (column: 'number' | 'seq') =>
  raw(`case when coalesce(d.number, 0) > c.base_number then d.${column} else c.base_${column} end`);
const isBehind = raw('c.number > coalesce(d.number, 0) and c.number > c.base_number');

/** Rows per statement. */
const pageSize = 1000;

export class Deliveries {
  readonly #db: Db;
  readonly #keys: AuditDb['keys'];

  constructor({ db, keys }: AuditDb) {
    this.#db = db;
    this.#keys = keys;
  }

  /**
   * Claims or renews the lease on a sink. Only one node holds it. If that node does not renew it, another node takes
   * over.
   */
  async claim(sink: string, holder: string, { duration, minimum, isFirst = false }: Lease): Promise<Claim> {
    const row = await this.#sink(sink);
    if (!row) {
      const inserted = await this.#db.run(sql`
        insert into audit_sinks (name, holder, lease_until, retry_at, failures)
         values (${sink}, ${holder}, :now + ${duration}, 0, 0) on conflict (name) do nothing`);
      return inserted === 1 ? 'held' : 'other';
    }
    const now = Number(row.now);
    if (Number(row.retry_at) > now) return 'waiting';
    const takesOver = isFirst && this.#db.isEmbedded;
    const remaining = takesOver ? 0 : Number(row.lease_until) - now;
    if (row.holder === holder && remaining >= minimum) return 'held';
    if (row.holder !== holder && remaining > 0) return 'other';
    const taken = await this.#db.run(sql`
      update audit_sinks set holder = ${holder}, lease_until = :now + ${duration}
       where name = ${sink} ${!takesOver && clause`and (holder = ${holder} or lease_until <= :now)`}`);
    return taken === 1 ? 'held' : 'other';
  }

  async release(sink: string, holder: string): Promise<void> {
    await this.#db.run(sql`
      update audit_sinks set lease_until = 0 where name = ${sink} and holder = ${holder}`);
  }

  /**
   * At most `limit` chains with undelivered segments. The least recently attempted chain is first. Leaves out chains
   * whose position was changed.
   */
  async undelivered(sink: string, limit: number): Promise<UndeliveredChain[]> {
    const keys = await this.#keys();
    type Row = PositionRow & { chain: string; after: DbTime };
    const rows = await this.#db.all<Row>(sql`
      select c.tenant_id as chain, ${after('number')} as after, ${ofDeliveries}
       from ${chainsOf(sink)} where ${isBehind} order by coalesce(d.attempted_at, 0), c.tenant_id limit ${limit}`);
    return rows
      .filter((row) => row.tenant_id === null || toPosition(keys, sink, row))
      .map(({ chain, after: number }) => ({ tenantId: chain, after: Number(number) }));
  }

  /** The tenants of chains whose position was changed. */
  async changed(sink: string): Promise<string[]> {
    const keys = await this.#keys();
    const changed: string[] = [];
    for (let last: string | undefined = nilTenant; last !== undefined; ) {
      const rows: PositionRow[] = await this.#db.all<PositionRow>(sql`
        select ${ofDeliveries} from audit_deliveries d where d.sink = ${sink}
           and d.tenant_id ${raw(last === nilTenant ? '>=' : '>')} ${last} order by d.tenant_id limit ${pageSize}`);
      const some = rows.filter((row) => !toPosition(keys, sink, row));
      changed.push(...some.map(({ tenant_id }) => tenant_id));
      last = rows[pageSize - 1]?.tenant_id;
    }
    return changed;
  }

  /**
   * Records a delivery, even if another node holds the sink by now. `rejected` is set if the receiver has permanently
   * rejected some of the entries, and says why.
   */
  async complete(
    sink: string,
    holder: string,
    { tenantId, after: start }: UndeliveredChain,
    { segment, last }: Pick<Batch, 'segment' | 'last'>,
    rejected?: string,
  ): Promise<void> {
    const { number } = segment as DeliveredSegment;
    await this.#change(sink, tenantId, async (before, tx, write) => {
      const chain = await chainOf(tx, tenantId);
      if (!before || before.number < number) {
        // Segments between the last position and `start` were deleted before they were delivered.
        const skipped =
          before && start > before.number && chain ? Math.max(0, chain.baseSeq - before.seq) : 0;
        const complete = before?.complete ?? (rejected === undefined ? null : start);
        await write({ number, seq: last, complete, skipped: (before?.skipped ?? 0) + skipped });
      }
      await tx.run(sql`update audit_sinks set failures = 0, retry_at = 0, delivered_at = :now
        where name = ${sink} and holder = ${holder}`);
      if (rejected === undefined) return;
      await tx.run(sql`
        update audit_sinks set failed_at = :now, error = ${rejected} where name = ${sink} and holder = ${holder}`);
    });
  }

  /**
   * Records a failed attempt, so that other chains come first next time. `delayAfter` gets the number of failures and
   * returns the milliseconds until the next attempt.
   */
  async fail(
    sink: string,
    holder: string,
    { tenantId }: UndeliveredChain,
    error: string,
    delayAfter: (failures: number) => number,
  ): Promise<void> {
    const failures = ((await this.#sink(sink))?.failures ?? 0) + 1;
    const isHeld = await this.#db.run(sql`
      update audit_sinks
        set failures = ${failures}, retry_at = :now + ${delayAfter(failures)}, failed_at = :now, error = ${error}
       where name = ${sink} and holder = ${holder}`);
    // Stores the time of the attempt. A chain without a position gets one, at its start.
    if (isHeld)
      await this.#change(sink, tenantId, async (position, tx, write) =>
        write(position ?? (await startOf(tx, tenantId))),
      );
  }

  /** The last segment up to which the sink has accepted every entry. */
  async deliveredUpTo(sink: string, tenantId: string): Promise<number> {
    const found = await this.#position(this.#db, sink, tenantId, () => undefined);
    return found?.complete ?? found?.number ?? 0;
  }

  /** The last segment up to which the sink has received every entry, including entries that it rejected. */
  async receivedUpTo(sink: string, tenantId: string): Promise<number> {
    return (await this.#position(this.#db, sink, tenantId, () => undefined))?.number ?? 0;
  }

  /**
   * The given sinks, and those to which any node delivers now. Another node may have more sinks configured than the
   * caller.
   */
  async withActive(sinks: readonly string[]): Promise<string[]> {
    const sql = 'select name from audit_sinks where lease_until > :now or retry_at > :now';
    const rows = await this.#db.all<{ name: string }>(sql);
    return [...new Set([...sinks, ...rows.map(({ name }) => name)])].sort();
  }

  /** Call this before deleting segments that the sink has not received. The state then counts their entries. */
  async markSkipped(sink: string, tenantId: string): Promise<void> {
    await this.#change(sink, tenantId, async (position, tx, write) => {
      if (!position) await write(await startOf(tx, tenantId));
    });
  }

  /**
   * Treats entries that the receiver has rejected as delivered, so that they can be deleted. Forgets changed positions,
   * so that their chains are delivered again from their first segment.
   */
  async acknowledge(sink: string): Promise<void> {
    for (const tenant of await this.changed(sink))
      await this.#db.run(sql`delete from audit_deliveries where tenant_id = ${tenant} and sink = ${sink}`);
    for (const { tenant_id } of await this.#db.all<{ tenant_id: string }>(sql`
      select tenant_id from audit_deliveries where sink = ${sink} and complete_number is not null`))
      await this.#change(sink, tenant_id, async (position, _, write) => {
        if (position) await write({ ...position, complete: null });
      });
  }

  async state(sink: string): Promise<SinkState> {
    const row = await this.#sink(sink);
    const number = (statement: Bound) => numberIn(this.#db, statement);
    const time = (value: DbTime | null | undefined) => (Number(value ?? 0) === 0 ? undefined : Number(value));
    const age = await number(sql`
      select :now - min(s.earliest_at) as value from ${chainsOf(sink)}
       join audit_segments s on s.tenant_id = c.tenant_id and s.number = (${after('number')}) + 1 where ${isBehind}`);
    return {
      name: sink,
      lagEntries: await number(sql`
        select sum(c.seq - (${after('seq')})) as value from ${chainsOf(sink)} where ${isBehind}`),
      lagSeconds: Math.max(0, age / 1000),
      lastDeliveryAt: time(row?.delivered_at),
      failures: row?.failures ?? 0,
      lastErrorAt: time(row?.failed_at),
      lastError: row?.error ?? undefined,
      retryAt: time(row?.retry_at),
      rejectedChains: await number(sql`
        select count(*) as value from audit_deliveries where sink = ${sink} and complete_number is not null`),
      skippedEntries: await number(sql`
        select sum(d.skipped + case when c.base_seq > d.seq then c.base_seq - d.seq else 0 end) as value
         from audit_deliveries d left join audit_chains c on c.tenant_id = d.tenant_id where d.sink = ${sink}`),
      truncatedChains: await number(sql`
        select count(*) as value from audit_deliveries d left join audit_chains c on c.tenant_id = d.tenant_id
         where d.sink = ${sink} and d.number > coalesce(c.number, 0)`),
      changedPositions: (await this.changed(sink)).length,
    };
  }

  #sink(name: string) {
    return this.#db.get<SinkRow>(sql`
      select holder, lease_until, retry_at, failures, delivered_at, failed_at, error, :now as now
       from audit_sinks where name = ${name}`);
  }

  /** The position, or what `changed` returns if the row has no valid MAC. */
  async #position(
    db: Queries,
    sink: string,
    tenantId: string,
    changed: () => undefined,
    lock = none,
  ): Promise<SinkPosition | undefined> {
    const row = await db.get<PositionRow>(sql`
      select ${ofDeliveries} from audit_deliveries d where tenant_id = ${tenantId} and sink = ${sink} ${lock}`);
    return row && (toPosition(await this.#keys(), sink, row) ?? changed());
  }

  /** Runs `work` in a transaction that has locked the position. `write` also stores the time. Throws if it was changed. */
  async #change(
    sink: string,
    tenantId: string,
    work: (
      position: SinkPosition | undefined,
      tx: Queries,
      write: (position: SinkPosition) => Promise<void>,
    ) => Promise<void>,
  ): Promise<void> {
    const keys = await this.#keys();
    await this.#db.transaction(async (tx) => {
      const lock = rowLock(this.#db, 'for update');
      const found = await this.#position(tx, sink, tenantId, changedPosition, lock);
      await work(found, tx, async (position) => {
        const { number, seq, complete, skipped } = position;
        await tx.run(sql`
          insert into audit_deliveries (tenant_id, sink, number, seq, complete_number, skipped, mac, attempted_at)
           values (${tenantId}, ${sink}, ${number}, ${seq}, ${complete}, ${skipped},
           ${macOf(keys, sink, tenantId, position)}, :now) on conflict (tenant_id, sink) do update
           set number = excluded.number, seq = excluded.seq, complete_number = excluded.complete_number,
             skipped = excluded.skipped, mac = excluded.mac, attempted_at = excluded.attempted_at`);
      });
    });
  }
}

function macOf(keys: ChainKeys, sink: string, tenantId: string, position: SinkPosition): Uint8Array {
  const { number, seq, complete, skipped } = position;
  return valuesMac(keys, 'sink position', [sink, tenantId, number, seq, complete, skipped]);
}

function changedPosition(): never {
  throw new Error('the position of a sink was changed: its delivery stops');
}

/** Returns undefined if the row has no valid MAC. */
function toPosition(keys: ChainKeys, sink: string, row: PositionRow): SinkPosition | undefined {
  const complete = row.complete_number === null ? null : Number(row.complete_number);
  const [number, seq, skipped] = [Number(row.number), Number(row.seq), Number(row.skipped)];
  const position = { number, seq, complete, skipped };
  return sameBytes(macOf(keys, sink, row.tenant_id, position), row.mac) ? position : undefined;
}

async function startOf(tx: Queries, tenantId: string): Promise<SinkPosition> {
  const chain = await chainOf(tx, tenantId);
  return { number: chain?.base.number ?? 0, seq: chain?.baseSeq ?? 0, complete: null, skipped: 0 };
}
