/** Signs positions between two checkpoints, so that a chain can be cut there. */
import type { Db, DbTime } from '../engine/db.ts';
import { chainName } from './export-format.ts';
import {
  auditFormat,
  type ChainKeys,
  checkpointText,
  link,
  type SignedCheckpoint,
  signatureCheck,
  signText,
} from './hash-chain.ts';
import { type Chain, type ChainedRow, rowsAfter } from './rows.ts';

/** Another program has changed the chain, so its entries are evidence and must not be deleted. */
export class DamagedChain extends Error {
  readonly hint = 'run `sallyport audit verify`';
  constructor(tenantId: string) {
    super(`the audit chain ${chainName(tenantId)} does not verify, so its entries cannot be deleted`);
  }
}

interface CheckpointRow {
  readonly format: number;
  readonly seq: DbTime;
  readonly at: DbTime;
  readonly hash: Uint8Array;
  readonly signature: Uint8Array;
}

/** The longest stretch without a checkpoint. Longer ones exist only if another program has deleted checkpoints. */
const maxDistance = 2000;

/**
 * Returns the checkpoint of a position, and signs a missing one. The rows up to the next checkpoint must verify:
 * otherwise the new signature would cover what another program has changed. Throws `DamagedChain`.
 */
export async function signedPosition(
  db: Db,
  keys: ChainKeys,
  chain: Chain,
  seq: number,
): Promise<SignedCheckpoint> {
  const checkpoint = (where: string, order: string) =>
    db.get<CheckpointRow>(
      `select format, seq, at, hash, signature from audit_checkpoints
       where chain = $1 and ${where} order by seq ${order} limit 1`,
      [chain.number, seq],
    );
  const next = await checkpoint('seq >= $2', 'asc');
  if (!next || !isValid(keys, chain.tenantId, next)) throw new DamagedChain(chain.tenantId);
  const { tenantId } = chain;
  if (Number(next.seq) === seq) return { ...next, tenantId, seq, at: Number(next.at) };
  const before = await checkpoint('seq < $2', 'desc');
  const start =
    before && Number(before.seq) > chain.baseSeq
      ? { seq: Number(before.seq), at: Number(before.at), hash: before.hash }
      : { seq: chain.baseSeq, at: Number(before?.at ?? 0), hash: chain.baseHash };
  const rows = await rowsAfter(db, chain, { after: start.seq, upTo: Number(next.seq) }, maxDistance);
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
  if (head?.seq !== seq || end?.seq !== Number(next.seq) || toHex(end.hash) !== toHex(next.hash))
    throw new DamagedChain(chain.tenantId);
  const unsigned = { format: auditFormat, tenantId, ...head };
  const signature = signText(keys, checkpointText(unsigned));
  await db.run(
    `insert into audit_checkpoints (chain, seq, at, format, hash, signature) values ($1, $2, $3, $4, $5, $6)
     on conflict (chain, seq) do nothing`,
    [chain.number, seq, head.at, auditFormat, head.hash, signature],
  );
  return { ...unsigned, signature };
}

function isValid(keys: ChainKeys, tenantId: string, row: CheckpointRow): boolean {
  const { format, hash, signature } = row;
  const text = checkpointText({ format, tenantId, seq: Number(row.seq), at: Number(row.at), hash });
  return signatureCheck(keys)(text, signature);
}

interface Point {
  readonly seq: number;
  readonly at: number;
  readonly hash: Uint8Array;
}

/** Returns undefined if rows are missing. */
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
