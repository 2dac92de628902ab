/** A batch for a sink: consecutive entries of one hash chain, with the checkpoints among them. */
import { createHash } from 'node:crypto';
import { timestamp } from '../domain/common-fields.ts';
import { newId } from '../domain/key.ts';
import { anchorOf, type SignedCheckpoint } from '../store/audit/hash-chain.ts';
import type { ChainedEntry } from '../store/maintenance.ts';

export interface DeliveredCheckpoint {
  readonly format: number;
  readonly seq: number;
  readonly at: string;
  /** Hexadecimal. */
  readonly hash: string;
  /** Hexadecimal. */
  readonly signature: string;
  /** The signed position in the form that `audit verify --anchor` accepts. */
  readonly anchor: string;
  /** The end of the system chain as SEQ:HASH. It is part of the signed text. Absent in the system chain itself. */
  readonly system?: string;
}

export interface Batch {
  /**
   * The same for repeated deliveries of the same entries, whose checkpoints may differ. Contains no full stop, as
   * Standard Webhooks requires.
   */
  readonly id: string;
  readonly type: 'audit.entries' | 'sink.test';
  /** Undefined for entries that belong to no tenant. */
  readonly tenantId: string | undefined;
  /** The first and last position. */
  readonly first: number;
  readonly last: number;
  readonly entries: readonly ChainedEntry[];
  readonly checkpoints: readonly DeliveredCheckpoint[];
}

/** The name of a chain in the names of S3 objects and the ids of batches. */
export function chainName(tenantId: string | undefined): string {
  return tenantId ?? 'system';
}

/** `entries` must not be empty. */
export function makeBatch(
  tenantId: string | undefined,
  entries: readonly ChainedEntry[],
  checkpoints: readonly SignedCheckpoint[],
): Batch {
  const first = entries[0]?.seq as number;
  const last = entries.at(-1)?.seq as number;
  const id = `audit_${chainName(tenantId)}_${first}_${last}_${digestOf(entries)}`;
  return {
    id,
    type: 'audit.entries',
    tenantId,
    first,
    last,
    entries,
    checkpoints: checkpoints.map(toDelivered),
  };
}

function toDelivered(checkpoint: SignedCheckpoint): DeliveredCheckpoint {
  const { format, seq, at, hash, signature, system } = checkpoint;
  return {
    format,
    seq,
    at: timestamp(at),
    hash: Buffer.from(hash).toString('hex'),
    signature: Buffer.from(signature).toString('hex'),
    anchor: anchorOf(checkpoint),
    ...(system && { system: `${system.seq}:${Buffer.from(system.hash).toString('hex')}` }),
  };
}

/** The batch for `sallyport sinks test`. Its entry belongs to no chain and has the position 0. */
export function testBatch(now: number): Batch {
  const id = newId(now);
  const entry: ChainedEntry = {
    seq: 0,
    id,
    at: timestamp(now),
    actor: { kind: 'operator' },
    operation: 'sink.test',
    result: 'success',
    from: {},
  };
  const first = 0;
  return {
    id: `test_${id}`,
    type: 'sink.test',
    tenantId: undefined,
    first,
    last: first,
    entries: [entry],
    checkpoints: [],
  };
}

/** Distinguishes batches with the same positions but other entries. They occur after a restore of an older backup. */
function digestOf(entries: readonly ChainedEntry[]): string {
  const hash = createHash('sha256');
  for (const { seq, id } of entries) hash.update(`${seq} ${id}\n`);
  return hash.digest('hex').slice(0, 12);
}

/** One JSON object per line. A checkpoint follows the entry that it signs. */
export function toJsonLines({ tenantId, entries, checkpoints }: Batch): string {
  const bySeq = Map.groupBy(checkpoints, ({ seq }) => seq);
  const lines = entries.flatMap((entry) => [
    { type: 'entry', ...entry },
    ...(bySeq.get(entry.seq) ?? []).map((one) => ({
      type: 'checkpoint',
      ...(tenantId !== undefined && { tenant_id: tenantId }),
      ...one,
    })),
  ]);
  return lines.map((line) => `${JSON.stringify(line)}\n`).join('');
}
