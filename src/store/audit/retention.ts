/**
 * Deletes the oldest entries of a chain. Before that, they must be archived or delivered, and an entry of the chain
 * must record the deletion. See operations/audit-archive.ts for archives, and `deleteDelivered` for sinks.
 */
import { byOperator } from '../../domain/audit.ts';
import { type Db, type DbTime, type Queries, rowLock } from '../engine/db.ts';
import type { Position } from './export-format.ts';
import { type ChainKeys, link, type SignedCheckpoint } from './hash-chain.ts';
import type { IndexedEntry } from './index-blocks.ts';
import { removeFromIndex } from './index-removal.ts';
import {
  archiveOperation,
  type Removal,
  removalDifference,
  retentionOperation,
  statementOf,
} from './log-entries.ts';
import { type Chain, type ChainedRow, chainOf, rowsAfter } from './rows.ts';
import { DamagedChain, signedPosition } from './signed-position.ts';
import { indexTerms } from './terms.ts';
import { insertEntries } from './write.ts';

/**
 * Entries with a time before `before` are old enough. So are entries with a time after `now`: the clock was fast when
 * they were written.
 */
export interface Age {
  readonly before: number;
  readonly now: number;
}

/**
 * Returns the checkpoint of the last position, at most `maxSeq`, up to which every entry is old enough. Returns
 * undefined if no entry is old enough, or if the old entries only record earlier deletions. Throws `DamagedChain` if
 * the entries around this position do not verify.
 */
export async function findCut(
  db: Db,
  keys: ChainKeys,
  chain: Chain,
  age: Age,
  maxSeq = chain.seq,
): Promise<SignedCheckpoint | undefined> {
  const seq = Math.min(await lastSeqBefore(db, chain, age), maxSeq);
  const isWorthIt = await hasOthersThanRecords(db, chain, { after: chain.baseSeq, upTo: seq });
  return isWorthIt ? signedPosition(db, keys, chain, seq) : undefined;
}

/** The number of entries above `maxSeq` that are old enough. Returns 0 if they only record earlier deletions. */
export async function countHeldBack(db: Db, chain: Chain, age: Age, maxSeq: number): Promise<number> {
  const range = { after: Math.max(maxSeq, chain.baseSeq), upTo: await lastSeqBefore(db, chain, age) };
  return (await hasOthersThanRecords(db, chain, range)) ? range.upTo - range.after : 0;
}

async function hasOthersThanRecords(
  db: Db,
  chain: Chain,
  range: { readonly after: number; readonly upTo: number },
): Promise<boolean> {
  if (range.upTo <= range.after) return false;
  const first = await rowsAfter(db, chain, range, maxRecords + 1);
  return first.length > maxRecords || !first.every(({ entryText }) => statementOf(entryText)?.removal);
}

/**
 * Up to this many entries that only record deletions are not deleted, because their deletion would add another record.
 */
const maxRecords = 3;
/** Rows per statement. */
const pageSize = 500;

async function lastSeqBefore(db: Db, chain: Chain, { before, now }: Age): Promise<number> {
  const checkpoint = await db.get<{ seq: DbTime }>(
    `select seq from audit_checkpoints where chain = $1 and at < $2 and seq > $3 and seq <= $4
     order by at desc, seq desc limit 1`,
    [chain.number, before, chain.baseSeq, chain.seq],
  );
  let last = Number(checkpoint?.seq ?? chain.baseSeq);
  while (true) {
    const rows = await rowsAfter(db, chain, { after: last, upTo: chain.seq }, pageSize);
    const end = rows.findIndex(({ at }) => at >= before && at <= now);
    last = (end < 0 ? rows.at(-1)?.seq : (rows[end] as ChainedRow).seq - 1) ?? last;
    if (end >= 0 || rows.length < pageSize) return last;
  }
}

/** Records in the chain that entries will be deleted. */
export async function recordRemoval(
  db: Db,
  keys: ChainKeys,
  at: number,
  tenantId: string,
  removal: Removal,
): Promise<void> {
  const operation = removal.file === undefined ? retentionOperation : archiveOperation;
  const difference = removalDifference(removal);
  await db.transaction((tx) =>
    insertEntries(tx, db.dialect, keys, [{ ...byOperator, tenantId, at, operation, difference }]),
  );
}

/** Maximum number of rows, and of index terms, per transaction. */
const maxRows = 250;
const maxTerms = 4000;

/**
 * Deletes one batch of the oldest entries, up to `upTo`. Returns whether more of them remain. Throws `DamagedChain` if
 * entries are missing, or if the hash of the chain at `upTo` differs.
 */
export function deleteBatch(db: Db, keys: ChainKeys, tenantId: string, upTo: Position): Promise<boolean> {
  return db.transaction(async (tx) => {
    const chain = await chainOf(tx, tenantId, rowLock(db, 'for update'));
    if (!chain || chain.baseSeq >= upTo.seq) return false;
    const entries = await firstEntries(tx, chain, upTo);
    const base = endOf(keys, chain, entries, upTo);
    await tx.run('delete from audit where chain = $1 and seq > $2 and seq <= $3', [
      chain.number,
      chain.baseSeq,
      base.seq,
    ]);
    await tx.run('delete from audit_checkpoints where chain = $1 and seq < $2', [chain.number, base.seq]);
    await removeFromIndex(tx, db.dialect, chain.number, entries, base.seq);
    await tx.run('update audit_chains set base_seq = $2, base_hash = $3 where number = $1', [
      chain.number,
      base.seq,
      base.hash,
    ]);
    return base.seq < upTo.seq;
  });
}

interface Removed extends IndexedEntry {
  readonly mac: Uint8Array;
}

async function firstEntries(tx: Queries, chain: Chain, upTo: Position): Promise<Removed[]> {
  const rows = await rowsAfter(tx, chain, { after: chain.baseSeq, upTo: upTo.seq }, maxRows);
  const entries: Removed[] = [];
  let terms = 0;
  for (const { seq, mac, entryText } of rows) {
    const entry = { seq, mac: mac ?? new Uint8Array(), terms: indexTerms(entryText).terms };
    terms += entry.terms.size;
    if (terms > maxTerms && entries.length > 0) break;
    entries.push(entry);
  }
  return entries;
}

/** The position of the last of these entries. Throws `DamagedChain` as described at `deleteBatch`. */
function endOf(
  keys: ChainKeys,
  { tenantId, baseSeq, baseHash }: Chain,
  entries: readonly Removed[],
  upTo: Position,
): { seq: number; hash: Uint8Array } {
  let [seq, hash] = [baseSeq, baseHash];
  for (const entry of entries) {
    seq += 1;
    if (entry.seq !== seq) throw new DamagedChain(tenantId);
    hash = link(keys, hash, seq, entry.mac);
  }
  const isEnd = seq === upTo.seq;
  if (entries.length === 0 || (isEnd && Buffer.from(hash).toString('hex') !== upTo.hash))
    throw new DamagedChain(tenantId);
  return { seq, hash };
}
