/** Signs positions between two checkpoints, so that a chain can be cut there. */
import type { Db } from '../engine/db.ts';
import { chainName } from './export-format.ts';
import {
  type ChainKeys,
  checkpointText,
  isSigned,
  link,
  type SignedCheckpoint,
  signText,
} from './hash-chain.ts';
import {
  type Chain,
  type ChainedRow,
  type CheckpointRow,
  checkpointColumns,
  rowsAfter,
  toCheckpoint,
} from './rows.ts';

/** Another program has changed the chain, so its entries are evidence and must not be deleted. */
export class DamagedChain extends Error {
  readonly hint = 'run `sallyport audit verify`';
  constructor(tenantId: string) {
    super(`the audit chain ${chainName(tenantId)} does not verify, so its entries cannot be deleted`);
  }
}

/**
 * Maximum number of rows between two checkpoints. More are possible only if another program has deleted checkpoints.
 */
const maxDistance = 2000;

/**
 * Returns the checkpoint of a position. Signs and stores it if it is missing. Throws `DamagedChain` if the rows up to
 * the next checkpoint do not verify: a signature must not cover rows that another program has changed.
 */
export async function signedPosition(
  db: Db,
  keys: ChainKeys,
  chain: Chain,
  seq: number,
): Promise<SignedCheckpoint> {
  const { tenantId } = chain;
  const checkpoint = async (where: string, order: string) => {
    const row = await db.get<CheckpointRow>(
      `select ${checkpointColumns} from audit_checkpoints
       where chain = $1 and ${where} order by seq ${order} limit 1`,
      [chain.number, seq],
    );
    return row && toCheckpoint(tenantId, row);
  };
  const next = await checkpoint('seq >= $2', 'asc');
  if (!next || !isSigned(keys, next)) throw new DamagedChain(tenantId);
  if (next.seq === seq) return next;
  const before = await checkpoint('seq < $2', 'desc');
  if (before && !isSigned(keys, before)) throw new DamagedChain(tenantId);
  const start =
    before && before.seq > chain.baseSeq
      ? { seq: before.seq, at: before.at, hash: before.hash }
      : { seq: chain.baseSeq, at: before?.at ?? 0, hash: chain.baseHash };
  const rows = await rowsAfter(db, chain, { after: start.seq, upTo: next.seq }, maxDistance);
  const head = follow(
    keys,
    start,
    rows.filter((row) => row.seq <= seq),
  );
  const end =
    head &&
    follow(
      keys,
      head,
      rows.filter((row) => row.seq > seq),
    );
  if (head?.seq !== seq || end?.seq !== next.seq || toHex(end.hash) !== toHex(next.hash))
    throw new DamagedChain(chain.tenantId);
  // If an earlier deletion was interrupted, the latest time up to `start` is unknown. Then the later time of `next` is
  // used.
  const at = end.at < next.at ? next.at : head.at;
  const { format, system } = next;
  const unsigned = { format, tenantId, seq, at, hash: head.hash, ...(system && { system }) };
  const signature = signText(keys, checkpointText(unsigned));
  await db.run(
    `insert into audit_checkpoints (chain, seq, at, format, hash, signature, system_seq, system_hash)
     values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict (chain, seq) do nothing`,
    [chain.number, seq, at, format, head.hash, signature, system?.seq ?? null, system?.hash ?? null],
  );
  return { ...unsigned, signature };
}

interface Point {
  readonly seq: number;
  readonly at: number;
  readonly hash: Uint8Array;
}

/** Returns the position and hash after these rows, or undefined if rows are missing. */
function follow(keys: ChainKeys, start: Point, rows: readonly ChainedRow[]): Point | undefined {
  let point = start;
  for (const { seq, at, mac } of rows) {
    if (seq !== point.seq + 1) return undefined;
    const hash = link(keys, point.hash, seq, mac ?? new Uint8Array());
    point = { seq, at: Math.max(point.at, at), hash };
  }
  return point;
}

function toHex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}
