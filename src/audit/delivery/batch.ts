/** A segment as sinks receive it. */
import type { LogEntry } from '../../domain/audit.ts';
import { timestamp } from '../../domain/common-fields.ts';
import { newId } from '../../domain/key.ts';
import type { StoredSegment } from '../log/chain.ts';
import { toLogEntry } from '../log/entry.ts';
import { hashOf } from '../log/segment.ts';
import { anchorOf, chainName, systemTenant } from '../records.ts';

/** An entry with its position in the chain. */
export type ChainedEntry = LogEntry & { readonly seq: number };

/** The header of the segment. Hashes and the signature are hexadecimal. */
export interface DeliveredSegment {
  readonly format: number;
  readonly number: number;
  readonly hash: string;
  readonly previous: string;
  readonly sealed_at: string;
  /** The end of the system chain as NUMBER:HASH. Absent in the system chain itself. */
  readonly system?: string;
  readonly key: string;
  readonly content: string;
  readonly signature: string;
  /** The segment in the form that `audit verify --anchor` accepts. */
  readonly anchor: string;
}

/** The body of a request to a sink. Equal for repeated deliveries of the same segment. */
export interface Batch {
  /** Contains no full stop, as Standard Webhooks requires. */
  readonly id: string;
  readonly type: 'audit.entries' | 'sink.test';
  /** Undefined for entries that belong to no tenant. */
  readonly tenantId: string | undefined;
  /** The first and last position. */
  readonly first: number;
  readonly last: number;
  readonly entries: readonly ChainedEntry[];
  /** Absent in a test. */
  readonly segment?: DeliveredSegment;
}

export function makeBatch(stored: StoredSegment): Batch {
  const { format, tenantId, number, first, last, previous, system, packed } = stored;
  const hash = hashOf(stored);
  const entries = packed.readable().map((entry, offset) => {
    return { seq: first + offset, ...toLogEntry(tenantId, entry) };
  });
  return {
    id: `audit_${chainName(tenantId)}_${number}_${hash}`,
    type: 'audit.entries',
    tenantId: tenantId === systemTenant ? undefined : tenantId,
    first,
    last,
    entries,
    segment: {
      format,
      number,
      hash,
      previous,
      sealed_at: timestamp(Math.min(stored.sealed_at, maxTime)),
      ...(system !== undefined && { system }),
      key: stored.key,
      content: stored.content,
      signature: stored.signature,
      anchor: anchorOf({ tenantId, number, hash }),
    },
  };
}

/** The end of the year 9999. */
const maxTime = Date.UTC(10_000, 0) - 1;

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
  return { id: `test_${id}`, type: 'sink.test', tenantId: undefined, first: 0, last: 0, entries: [entry] };
}

/** One JSON object per line. The segment follows its entries. */
export function toJsonLines({ tenantId, entries, segment }: Batch): string {
  const tenant = tenantId === undefined ? {} : { tenant_id: tenantId };
  const lines = [
    ...entries.map((entry) => ({ type: 'entry', ...entry })),
    ...(segment ? [{ type: 'segment', ...tenant, ...segment }] : []),
  ];
  return lines.map((line) => `${JSON.stringify(line)}\n`).join('');
}
