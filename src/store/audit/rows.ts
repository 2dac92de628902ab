/** Reads rows of the audit tables. */
import { Entry, type LogEntry, unreadable } from '../../domain/audit.ts';
import { type Awaitable, then } from '../../domain/awaitable.ts';
import { timestamp } from '../../domain/common-fields.ts';
import type { DbTime, Queries } from '../engine/db.ts';
import { entryId } from './entry-id.ts';
import { type AuditRow, type Head, type SignedCheckpoint, systemTenant } from './hash-chain.ts';
import { unpack } from './pack.ts';

/** A row of `audit_chains`. */
export interface Chain extends Head {
  readonly number: number;
  readonly maxDelay: number;
  readonly baseSeq: number;
  readonly baseHash: Uint8Array;
}

export interface ChainRow {
  readonly number: number;
  readonly tenant_id: string;
  readonly seq: DbTime;
  readonly hash: Uint8Array;
  readonly max_delay: DbTime;
  readonly base_seq: DbTime;
  readonly base_hash: Uint8Array;
}

/** The columns of `ChainRow`. */
export const chainColumns = 'number, tenant_id, seq, hash, max_delay, base_seq, base_hash';

/**
 * Returns undefined if the tenant has no chained entries. `lock` is SQL that is appended to the statement, such as `for
 * update`.
 */
export function chainOf(db: Pick<Queries, 'get'>, tenantId: string, lock = ''): Awaitable<Chain | undefined> {
  const sql = `select ${chainColumns} from audit_chains where tenant_id = $1 ${lock}`;
  return then(db.get<ChainRow>(sql, [tenantId]), (row) => row && toChain(row));
}

export function allChains(db: Pick<Queries, 'all'>): Awaitable<Chain[]> {
  const sql = `select ${chainColumns} from audit_chains order by number`;
  return then(db.all<ChainRow>(sql), (rows) => rows.map(toChain));
}

/**
 * The latest time of the entries of each chain, according to its last checkpoint. The keys are the numbers of the
 * chains.
 */
export async function latestTimes(db: Pick<Queries, 'all'>): Promise<Map<number, number>> {
  const rows = await db.all<{ number: number; at: DbTime }>(
    'select c.number, p.at from audit_chains c join audit_checkpoints p on p.chain = c.number and p.seq = c.seq',
  );
  return new Map(rows.map(({ number, at }) => [number, Number(at)]));
}

export function toChain(row: ChainRow): Chain {
  return {
    number: row.number,
    tenantId: row.tenant_id,
    seq: Number(row.seq),
    hash: row.hash,
    maxDelay: Number(row.max_delay),
    baseSeq: Number(row.base_seq),
    baseHash: row.base_hash,
  };
}

/** A row of `audit`, with its entry unpacked. */
export interface ChainedRow extends AuditRow {
  readonly seq: number;
  /** Null only if another program has removed the MAC. */
  readonly mac: Uint8Array | null;
}

export interface StoredRow {
  readonly seq: DbTime;
  readonly at: DbTime;
  readonly format: number;
  readonly mac: Uint8Array | null;
  /** Packed. */
  readonly entry: Uint8Array;
}

/** The columns of `StoredRow`. */
export const storedColumns = 'seq, at, format, mac, entry';

export function toChainedRow(tenantId: string, row: StoredRow): ChainedRow {
  return {
    tenantId,
    seq: Number(row.seq),
    at: Number(row.at),
    format: row.format,
    mac: row.mac,
    entryText: unpack(row.entry),
  };
}

/** At most `limit` rows of one chain in ascending order, with a position above `after` and up to `upTo`. */
export function rowsAfter(
  db: Pick<Queries, 'all'>,
  { number, tenantId }: Pick<Chain, 'number' | 'tenantId'>,
  { after, upTo }: { readonly after: number; readonly upTo: number },
  limit: number,
): Awaitable<ChainedRow[]> {
  const rows = db.all<StoredRow>(
    `select ${storedColumns} from audit where chain = $1 and seq > $2 and seq <= $3 order by seq limit $4`,
    [number, after, upTo, limit],
  );
  return then(rows, (found) => found.map((row) => toChainedRow(tenantId, row)));
}

export type CheckpointRow = Pick<SignedCheckpoint, 'format' | 'hash' | 'signature'> & {
  readonly seq: DbTime;
  readonly at: DbTime;
  readonly system_seq: DbTime | null;
  readonly system_hash: Uint8Array | null;
};

/** The columns of `CheckpointRow`. */
export const checkpointColumns = 'format, seq, at, hash, signature, system_seq, system_hash';

/** At most `limit` checkpoints of one chain in ascending order, with a position above `after`. */
export function checkpointsAfter(
  db: Pick<Queries, 'all'>,
  { number, tenantId }: Pick<Chain, 'number' | 'tenantId'>,
  after: number,
  limit: number,
): Awaitable<SignedCheckpoint[]> {
  const rows = db.all<CheckpointRow>(
    `select ${checkpointColumns} from audit_checkpoints
     where chain = $1 and seq > $2 order by seq limit $3`,
    [number, after, limit],
  );
  return then(rows, (found) => found.map((row) => toCheckpoint(tenantId, row)));
}

export function lastCheckpoint(
  db: Pick<Queries, 'get'>,
  { number, tenantId }: Pick<Chain, 'number' | 'tenantId'>,
): Awaitable<SignedCheckpoint | undefined> {
  const row = db.get<CheckpointRow>(
    `select ${checkpointColumns} from audit_checkpoints where chain = $1 order by seq desc limit 1`,
    [number],
  );
  return then(row, (found) => found && toCheckpoint(tenantId, found));
}

/** The latest time of the deleted entries of a chain; 0 if unknown. */
export async function latestBefore(
  db: Pick<Queries, 'get'>,
  { number, baseSeq }: Pick<Chain, 'number' | 'baseSeq'>,
): Promise<number> {
  const sql = 'select at from audit_checkpoints where chain = $1 and seq = $2';
  return Number((await db.get<{ at: DbTime }>(sql, [number, baseSeq]))?.at ?? 0);
}

export function toCheckpoint(tenantId: string, row: CheckpointRow): SignedCheckpoint {
  const { format, hash, signature, system_seq, system_hash } = row;
  const system = system_seq !== null && system_hash && { seq: Number(system_seq), hash: system_hash };
  const checkpoint = { format, tenantId, seq: Number(row.seq), at: Number(row.at), hash, signature };
  return system ? { ...checkpoint, system } : checkpoint;
}

/** The end of the year 9999. */
const maxTime = Date.UTC(10_000, 0) - 1;

/**
 * If another program has made an entry unreadable, returns a placeholder, so that the other entries can still be
 * listed.
 */
export function toLogEntry({ tenantId, seq, at, entryText }: ChainedRow): LogEntry {
  return {
    id: entryId(at, seq, tenantId),
    ...(tenantId !== systemTenant && { tenant_id: tenantId }),
    at: timestamp(Math.min(Math.max(at, 0), maxTime)),
    ...(parseEntry(entryText) ?? unreadableEntry),
  };
}

const unreadableEntry: Entry = {
  actor: { kind: 'unknown' },
  operation: 'unknown',
  result: 'failed',
  reason: unreadable,
  from: {},
};

/** Returns undefined if the text is not the JSON of an entry. */
export function parseEntry(text: string): Entry | undefined {
  try {
    return Entry.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}
