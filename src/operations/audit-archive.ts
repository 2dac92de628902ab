/**
 * Moves old entries of the audit log into files, in three steps. First, the file is written, flushed and verified. Then
 * an entry about it is added to the chain. Last, the archived entries are deleted in small batches. If a run stops at
 * any point, no entry is lost, and the next run continues with the files that exist.
 */
import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { archivePart } from '../store/audit/export.ts';
import {
  archiveName,
  chainName,
  type Position,
  parseArchiveName,
  parsePosition,
} from '../store/audit/export-format.ts';
import { countHeldBack, deleteBatch, findCut, recordRemoval } from '../store/audit/retention.ts';
import { allChains, type Chain, chainOf } from '../store/audit/rows.ts';
import { signedPosition } from '../store/audit/signed-position.ts';
import type { Maintenance } from '../store/maintenance.ts';
import { chainAll, verifyFiles, writeDurably } from './audit-files.ts';

export interface ArchiveOptions {
  /** An existing folder. */
  readonly folder: string;
  readonly now: number;
  /** Entries before this time are archived. */
  readonly before: number;
  /** Archives only the chain of this tenant. `systemTenant` is the chain of entries without a tenant. */
  readonly tenantId?: string | undefined;
  /** The names of the configured sinks. Entries that a sink has not received stay in the database. */
  readonly sinks?: readonly string[];
  /** Whether to archive entries that a sink has not received. The sink then never receives them. */
  readonly skipUndelivered?: boolean;
  /** Called between steps. May throw to stop. */
  readonly between?: () => Promise<void>;
}

export interface Archived {
  /** The id of the tenant, or `system`. */
  readonly chain: string;
  readonly file: string;
  readonly first: number;
  readonly last: number;
}

/** Entries that are old enough, but stay in the database because a sink has not received them. */
export interface HeldBack {
  /** The id of the tenant, or `system`. */
  readonly chain: string;
  readonly sink: string;
  /** The last entry that the sink has received. */
  readonly received: number;
  readonly entries: number;
}

export interface ArchiveResult {
  /** The files that were written or completed. */
  readonly archived: readonly Archived[];
  readonly held: readonly HeldBack[];
}

/** An archive file does not verify, or its entries differ from the database. No entry was deleted. */
export class ArchiveError extends Error {
  readonly hint: string;
  constructor(message: string, hint: string) {
    super(message);
    this.hint = hint;
  }
}

/** Throws if a chain or a file does not verify. */
export async function archiveLog(maintenance: Maintenance, options: ArchiveOptions): Promise<ArchiveResult> {
  const { tenantId } = options;
  await chainAll(maintenance);
  const tenants =
    tenantId === undefined ? (await allChains(maintenance.db)).map((chain) => chain.tenantId) : [tenantId];
  const archived: Archived[] = [];
  const held: HeldBack[] = [];
  // Sorts the system chain last, because it records the ends of the other chains.
  for (const tenant of tenants.sort().reverse()) {
    const slowest = await slowestSink(maintenance, tenant, options);
    archived.push(...(await archiveChain(maintenance, tenant, options, slowest?.received)));
    held.push(...(await heldBack(maintenance, tenant, options, slowest)));
  }
  return { archived, held };
}

interface SinkPosition {
  readonly sink: string;
  readonly received: number;
}

/** The sink that has received the fewest entries of a chain. Undefined without sinks, or with `skipUndelivered`. */
async function slowestSink(
  { deliveries }: Maintenance,
  tenantId: string,
  { sinks = [], skipUndelivered = false }: ArchiveOptions,
): Promise<SinkPosition | undefined> {
  if (skipUndelivered) return undefined;
  const positions: SinkPosition[] = [];
  for (const sink of await deliveries.withActive(sinks))
    positions.push({ sink, received: await deliveries.receivedUpTo(sink, tenantId) });
  return positions.toSorted((a, b) => a.received - b.received)[0];
}

async function heldBack(
  { db }: Maintenance,
  tenantId: string,
  { before, now }: ArchiveOptions,
  slowest: SinkPosition | undefined,
): Promise<HeldBack[]> {
  const chain = slowest && (await chainOf(db, tenantId));
  const entries = chain ? await countHeldBack(db, chain, { before, now }, slowest.received) : 0;
  return slowest && entries > 0 ? [{ chain: chainName(tenantId), ...slowest, entries }] : [];
}

/** Archives entries up to the position `maxSeq`. */
async function archiveChain(
  maintenance: Maintenance,
  tenantId: string,
  options: ArchiveOptions,
  maxSeq = Number.MAX_SAFE_INTEGER,
): Promise<Archived[]> {
  const { db, chainKeys, deliveries } = maintenance;
  const { folder, now, between = async () => {} } = options;
  const keys = await chainKeys();
  const archived: Archived[] = [];
  for (let chain = await chainOf(db, tenantId); chain; chain = await chainOf(db, tenantId)) {
    const found = findArchive(folder, chain, maxSeq);
    const file = found ?? (await writeArchive(maintenance, chain, options, maxSeq));
    if (file === undefined) break;
    const path = join(folder, file);
    const last = await verifyArchive(maintenance, chain, path).catch((error) => {
      if (found === undefined) rmSync(path);
      throw error;
    });
    await between();
    const first = chain.baseSeq + 1;
    await recordRemoval(db, keys, now, tenantId, { first, last, file });
    await between();
    if (options.skipUndelivered)
      for (const sink of await deliveries.withActive(options.sinks ?? []))
        await deliveries.markSkipped(sink, tenantId, chain.baseSeq);
    while (await deleteBatch(db, keys, tenantId, last)) await between();
    archived.push({ chain: chainName(tenantId), file, first, last: last.seq });
  }
  if (archived.length > 0) await chainAll(maintenance);
  return archived;
}

/** Finds the file of an interrupted run. It contains the oldest entries that are still in the database. */
function findArchive(folder: string, { tenantId, baseSeq, seq }: Chain, maxSeq: number): string | undefined {
  return readdirSync(folder).find((name) => {
    const archive = parseArchiveName(name);
    if (archive?.chain !== chainName(tenantId)) return false;
    return archive.first <= baseSeq + 1 && archive.last > baseSeq && archive.last <= Math.min(seq, maxSeq);
  });
}

/** Writes an archive file and returns its name. Returns undefined if no entry is old enough. */
async function writeArchive(
  { db, chainKeys }: Maintenance,
  chain: Chain,
  { folder, now, before, between = async () => {} }: ArchiveOptions,
  maxSeq: number,
): Promise<string | undefined> {
  const cut = await findCut(db, await chainKeys(), chain, { before, now }, Math.min(maxSeq, chain.seq));
  if (!cut) return undefined;
  const part = await archivePart(db, chainKeys, now, chain, cut);
  const name = archiveName(chain.tenantId, chain.baseSeq + 1, cut.seq);
  await writeDurably(join(folder, name), part.lines(), between);
  return name;
}

/** Returns the last position of the file. Throws `ArchiveError` if its entries differ from those in the database. */
async function verifyArchive(
  { db, masters, chainKeys }: Maintenance,
  chain: Chain,
  path: string,
): Promise<Position> {
  const { tenantId, baseSeq: seq, baseHash } = chain;
  const keys = await chainKeys();
  const anchors = [{ tenantId, seq, hash: Buffer.from(baseHash).toString('hex') }];
  const { findings, chains } = await verifyFiles([path], {
    masters,
    anchors,
    log: keys,
    archives: 'ignored',
  });
  const [finding] = findings;
  if (finding)
    throw new ArchiveError(
      `${path} does not verify: ${finding.message}`,
      'no entry was deleted; run `sallyport audit verify`, and move the file away if it is damaged',
    );
  const last = parsePosition((chains[0]?.anchor ?? '').slice(chainName(tenantId).length + 1)) as Position;
  const stored = await signedPosition(db, keys, chain, last.seq);
  if (Buffer.from(stored.hash).toString('hex') === last.hash) return last;
  throw new ArchiveError(
    `${path} has other entries than the database`,
    'no entry was deleted; use another folder if the database was restored from a backup',
  );
}
