/**
 * Moves old entries of the audit log into files. Each step is complete before the next one starts: the file is written,
 * flushed and verified; the chain records it; the entries are deleted in small batches. If it stops anywhere, no
 * entry is lost, and the next run continues with the files that exist.
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
import { deleteBatch, findCut, recordRemoval } from '../store/audit/retention.ts';
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
  /** Only the chain of this tenant; `systemTenant` for entries without one. */
  readonly tenantId?: string | undefined;
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

/** A file does not verify or has other entries than the database. The entries stay in the database. */
export class ArchiveError extends Error {
  readonly hint: string;
  constructor(message: string, hint: string) {
    super(message);
    this.hint = hint;
  }
}

/** Returns the files that were written or completed. Throws if a chain or a file does not verify. */
export async function archiveLog(maintenance: Maintenance, options: ArchiveOptions): Promise<Archived[]> {
  const { tenantId } = options;
  await chainAll(maintenance);
  const tenants =
    tenantId === undefined ? (await allChains(maintenance.db)).map((chain) => chain.tenantId) : [tenantId];
  const archived: Archived[] = [];
  // The system chain last: it records the ends of the others.
  for (const tenant of tenants.sort().reverse())
    archived.push(...(await archiveChain(maintenance, tenant, options)));
  return archived;
}

async function archiveChain(
  maintenance: Maintenance,
  tenantId: string,
  options: ArchiveOptions,
): Promise<Archived[]> {
  const { db, chainKeys } = maintenance;
  const { folder, now, between = async () => {} } = options;
  const keys = await chainKeys();
  const archived: Archived[] = [];
  for (let chain = await chainOf(db, tenantId); chain; chain = await chainOf(db, tenantId)) {
    const found = findArchive(folder, chain);
    const file = found ?? (await writeArchive(maintenance, chain, options));
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
    while (await deleteBatch(db, keys, tenantId, last)) await between();
    archived.push({ chain: chainName(tenantId), file, first, last: last.seq });
  }
  if (archived.length > 0) await chainAll(maintenance);
  return archived;
}

/** A file that an interrupted run has left: it has the oldest entries that are still in the database. */
function findArchive(folder: string, { tenantId, baseSeq, seq }: Chain): string | undefined {
  return readdirSync(folder).find((name) => {
    const archive = parseArchiveName(name);
    if (archive?.chain !== chainName(tenantId)) return false;
    return archive.first <= baseSeq + 1 && archive.last > baseSeq && archive.last <= seq;
  });
}

/** Returns undefined if no entry is old enough. */
async function writeArchive(
  { db, chainKeys }: Maintenance,
  chain: Chain,
  { folder, now, before, between = async () => {} }: ArchiveOptions,
): Promise<string | undefined> {
  const cut = await findCut(db, await chainKeys(), chain, { before, now });
  if (!cut) return undefined;
  const part = await archivePart(db, chainKeys, now, chain, cut);
  const name = archiveName(chain.tenantId, chain.baseSeq + 1, cut.seq);
  await writeDurably(join(folder, name), part.lines(), between);
  return name;
}

/** Returns the last position of the file. Throws unless the file has the entries that the database has. */
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
