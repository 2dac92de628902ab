/** Reads the chains of a database as parts of an export, in the format of export-format.ts. */
import type { Awaitable } from '../../domain/awaitable.ts';
import { timestamp } from '../../domain/common-fields.ts';
import { fail } from '../../domain/error.ts';
import { wrappedChainKeys } from '../crypto/keyring.ts';
import type { Db, DbTime } from '../engine/db.ts';
import { chainsWithEnds, type End, headOf, maxSeq, toExported, toHex } from './export-ends.ts';
import {
  type ExportedCheckpoint,
  type ExportedRow,
  exportFormat,
  type Footer,
  footerText,
  formatPosition,
  type Header,
  type Position,
} from './export-format.ts';
import { type ChainKeys, genesis, type SignedCheckpoint, signText, systemTenant } from './hash-chain.ts';
import {
  allChains,
  type Chain,
  type ChainedRow,
  type CheckpointRow,
  chainOf,
  checkpointColumns,
  rowsAfter,
  toCheckpoint,
} from './rows.ts';
import type { Part } from './verify-chain-options.ts';

/** Rows per statement. */
const pageSize = 1000;

/** The part cannot be completed, because some of its entries are no longer in the database. */
export class EntriesDeleted extends Error {}

/** All chains of the database, the system chain first, or the chain of one tenant. */
export async function exportedParts(
  db: Db,
  chainKeys: () => Awaitable<ChainKeys>,
  at: number,
  tenantId?: string,
): Promise<Part[]> {
  const wrapped = await wrappedKeys(db);
  const chains = await chainsWithEnds(db, tenantId);
  const sorted = chains.sort((a, b) => bySystemFirst(a.chain, b.chain));
  // An export of the whole log always has a system chain, so that the export of an empty log is a valid file.
  if (tenantId === undefined && sorted[0]?.chain.tenantId !== systemTenant)
    sorted.unshift({ chain: emptyChain, end: { head: headOf(emptyChain), last: 0, checkpoint: undefined } });
  return sorted.map(({ chain, end }, index) => {
    const header: Header = {
      kind: 'header',
      format: exportFormat,
      exported_at: timestamp(at),
      scope: tenantId === undefined ? 'log' : 'chain',
      part: index + 1,
      parts: sorted.length,
      tenant_id: chain.tenantId,
      after: formatPosition(baseOf(chain)),
      ...wrapped,
    };
    const lines = () => partLines(db, chainKeys, header, chain, end);
    return { header, line: 1, head: formatPosition(headOf(chain)), lines, index: { db, chain } };
  });
}

const emptyChain: Chain = {
  number: 0,
  tenantId: systemTenant,
  seq: 0,
  hash: genesis,
  maxDelay: 0,
  baseSeq: 0,
  baseHash: genesis,
};

function bySystemFirst(a: Chain, b: Chain): number {
  return Number(b.tenantId === systemTenant) - Number(a.tenantId === systemTenant) || a.number - b.number;
}

/**
 * The oldest entries of a chain, up to the checkpoint `end`. The caller passes the checkpoint, because the service may
 * have replaced it in the database.
 */
export async function archivePart(
  db: Db,
  chainKeys: () => Awaitable<ChainKeys>,
  at: number,
  chain: Chain,
  end: SignedCheckpoint,
): Promise<Part> {
  const header: Header = {
    kind: 'header',
    format: exportFormat,
    exported_at: timestamp(at),
    scope: 'archive',
    part: 1,
    parts: 1,
    tenant_id: chain.tenantId,
    after: formatPosition(baseOf(chain)),
    ...(await wrappedKeys(db)),
  };
  const upTo = { head: headOf(end), last: end.seq, checkpoint: toExported(end) };
  const lines = () => partLines(db, chainKeys, header, chain, upTo);
  return { header, line: 1, head: formatPosition(upTo.head), lines };
}

async function wrappedKeys(db: Db): Promise<Pick<Header, 'master_key' | 'chain_key'>> {
  const keys = await wrappedChainKeys(db);
  if (!keys) throw fail('unavailable', { cause: new Error('the table audit_key is empty') });
  return { master_key: keys.master_id, chain_key: Buffer.from(keys.wrapped).toString('base64') };
}

function baseOf({ baseSeq: seq, baseHash }: Chain): Position {
  return { seq, hash: toHex(baseHash) };
}

/** Throws `EntriesDeleted` if entries of the part were deleted since the header was created. */
async function* partLines(
  db: Db,
  chainKeys: () => Awaitable<ChainKeys>,
  header: Header,
  chain: Chain,
  end: End,
): AsyncGenerator<string> {
  const keys = await chainKeys();
  yield JSON.stringify(header);
  const totals = { rows: 0, checkpoints: 0, strays: await countStrays(db, chain) };
  for await (const next of rowsAndCheckpoints(db, chain, end)) {
    totals[next.kind === 'row' ? 'rows' : 'checkpoints'] += 1;
    yield JSON.stringify(next);
  }
  const unsigned = { ...totals, head: formatPosition(end.head) };
  const signature = toHex(signText(keys, footerText(header, unsigned)));
  const footer: Footer = { kind: 'footer', ...unsigned, signature };
  yield JSON.stringify(footer);
}

/** Rows and checkpoints outside of the chain's range; with the system chain, also rows of chains that do not exist. */
async function countStrays(db: Db, chain: Chain): Promise<number> {
  const { number, baseSeq } = chain;
  const outside = `chain = $1 and (seq <= $2 or seq > ${maxSeq})`;
  const beyond = `chain = $1 and seq > ${maxSeq}`;
  const own =
    (await count(db, 'audit', outside, [number, baseSeq])) +
    (await count(db, 'audit_checkpoints', beyond, [number]));
  return chain.tenantId === systemTenant ? own + (await countOrphans(db)) : own;
}

async function countOrphans(db: Db): Promise<number> {
  const known = new Set((await allChains(db)).map(({ number }) => number));
  let orphans = 0;
  for (let number = await nextChain(db); number !== undefined; number = await nextChain(db, number))
    if (!known.has(number)) orphans += await count(db, 'audit', 'chain = $1', [number]);
  return orphans;
}

async function nextChain(db: Db, after = -(2 ** 31)): Promise<number | undefined> {
  const sql = 'select chain from audit where chain > $1 order by chain limit 1';
  return (await db.get<{ chain: number }>(sql, [after]))?.chain;
}

/** Counts at most `pageSize` rows. */
async function count(db: Db, table: string, where: string, params: readonly number[]): Promise<number> {
  const sql = `select count(*) as count from (select 1 as one from ${table} where ${where} limit ${pageSize}) as found`;
  return Number((await db.get<{ count: DbTime }>(sql, params))?.count);
}

/** Reads the rows and checkpoints of a chain in order, page by page. */
async function* rowsAndCheckpoints(
  db: Db,
  chain: Chain,
  { last, checkpoint }: End,
): AsyncGenerator<ExportedRow | ExportedCheckpoint> {
  for (let after = chain.baseSeq, first = true; after < last || first; first = false) {
    const rows = await rowsAfter(db, chain, { after, upTo: last }, pageSize);
    if (rows[0]?.seq !== after + 1) await checkNotDeleted(db, chain, after);
    const end = rows.length < pageSize ? last : (rows.at(-1) as ChainedRow).seq;
    // The first page includes the checkpoint before the first row.
    const stored = await db.all<CheckpointRow>(
      `select ${checkpointColumns} from audit_checkpoints
       where chain = $1 and seq >= $2 and seq <= $3 and seq < $4 order by seq`,
      [chain.number, first ? after : after + 1, end, checkpoint?.seq ?? 0],
    );
    const checkpoints = stored.map((row) => toExported(toCheckpoint(chain.tenantId, row)));
    const from = first ? after : after + 1;
    if (checkpoint && checkpoint.seq >= from && checkpoint.seq <= end) checkpoints.push(checkpoint);
    yield* merged(rows.map(toRow), checkpoints);
    after = end;
  }
}

async function checkNotDeleted(db: Db, { tenantId }: Chain, after: number): Promise<void> {
  const now = await chainOf(db, tenantId);
  if (now && now.baseSeq > after)
    throw new EntriesDeleted('entries were archived or deleted while the audit log was read');
}

/** Puts each checkpoint after the row that it signs. */
function* merged(
  rows: readonly ExportedRow[],
  checkpoints: readonly ExportedCheckpoint[],
): Generator<ExportedRow | ExportedCheckpoint> {
  let next = 0;
  for (const row of rows) {
    for (; Number(checkpoints[next]?.seq) < row.seq; next++) yield checkpoints[next] as ExportedCheckpoint;
    yield row;
  }
  yield* checkpoints.slice(next);
}

/** The fields must be in the order of `Row`, because `parseLine` compares the JSON text. */
function toRow({ format, seq, at, entryText: entry, mac }: ChainedRow): ExportedRow {
  return { kind: 'row', format, seq, at, entry, mac: mac && toHex(mac) };
}
