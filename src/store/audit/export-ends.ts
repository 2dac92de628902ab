/** Reads the ends of the chains at one time. An export has the entries up to these ends. */
import type { Db, DbTime } from '../engine/db.ts';
import { type ExportedCheckpoint, formatPosition, type Position } from './export-format.ts';
import type { Head, SignedCheckpoint } from './hash-chain.ts';
import {
  type Chain,
  type ChainRow,
  type CheckpointRow,
  chainColumns,
  checkpointColumns,
  toChain,
  toCheckpoint,
} from './rows.ts';

/** Rows with a higher number are not exported. Only another program can insert them. */
export const maxSeq = Number.MAX_SAFE_INTEGER;

export interface End {
  /** The end that is stored in `audit_chains`. */
  readonly head: Position;
  /**
   * The highest position of a row or checkpoint. It differs from `head` if another program has deleted or inserted
   * rows.
   */
  readonly last: number;
  /** The last checkpoint. It is read together with `head`, because the next commit may replace it. */
  readonly checkpoint: ExportedCheckpoint | undefined;
}

export interface ChainWithEnd {
  readonly chain: Chain;
  readonly end: End;
}

/**
 * Reads all chains, or the chain of one tenant. Chains record each other's ends, and no chain may be shorter than its
 * recorded end. So one statement reads all of them in one consistent state.
 */
export async function chainsWithEnds(db: Db, tenantId: string | undefined): Promise<ChainWithEnd[]> {
  type Row = ChainRow & { row_seq: DbTime | null } & Prefixed<CheckpointRow>;
  const columns = (prefix: string, names: string, as = '') =>
    names
      .split(', ')
      .map((name) => `${prefix}.${name}${as && ` as ${as}${name}`}`)
      .join(', ');
  const [where, values] = tenantId === undefined ? ['', []] : ['where c.tenant_id = $1', [tenantId]];
  const rows = await db.all<Row>(
    `select ${columns('c', chainColumns)}, ${columns('p', checkpointColumns, 'p_')},
       (select max(seq) from audit where chain = c.number and seq <= ${maxSeq}) as row_seq
     from audit_chains c left join audit_checkpoints p on p.chain = c.number and p.seq =
       (select max(seq) from audit_checkpoints where chain = c.number and seq <= ${maxSeq})
     ${where}`,
    values,
  );
  return rows.map((row) => {
    const chain = toChain(row);
    const checkpoint =
      row.p_seq === null ? undefined : toExported(toCheckpoint(chain.tenantId, unprefixed(row)));
    const last = Math.max(chain.seq, Number(row.row_seq ?? 0), checkpoint?.seq ?? 0);
    return { chain, end: { head: headOf(chain), last, checkpoint } };
  });
}

type Prefixed<R> = { readonly [K in keyof R & string as `p_${K}`]: R[K] };

function unprefixed(row: Prefixed<CheckpointRow>): CheckpointRow {
  return {
    format: row.p_format,
    seq: row.p_seq,
    at: row.p_at,
    hash: row.p_hash,
    signature: row.p_signature,
    system_seq: row.p_system_seq,
    system_hash: row.p_system_hash,
  };
}

export function headOf({ seq, hash }: Head): Position {
  return { seq, hash: toHex(hash) };
}

/** The fields must be in the order of `CheckpointLine`, because `parseLine` compares the JSON text. */
export function toExported({
  format,
  seq,
  at,
  hash,
  signature,
  system,
}: SignedCheckpoint): ExportedCheckpoint {
  return {
    kind: 'checkpoint',
    format,
    seq,
    at,
    hash: toHex(hash),
    signature: toHex(signature),
    ...(system && { system: formatPosition({ seq: system.seq, hash: toHex(system.hash) }) }),
  };
}

export function toHex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}
