/** Exports, verifies, archives and deletes the audit log. */

import type { Db, Queries } from '../db/db.ts';
import type { ChainKeys, MasterKeys } from '../db/keys/keyring.ts';
import { unwrapChainKeys, wrappedChainKeys } from '../db/keys/keyring.ts';
import { everyTenant } from '../db/sql.ts';
import { sql } from '../db/statement.ts';
import { manifestText, type ReportManifest } from '../domain/access/report.ts';
import { allChains, type Chain, chainOf, eachSegment, emptyChain, segmentAt } from './log/chain.ts';
import { macOf } from './log/entry.ts';
import { newestPending } from './log/pending.ts';
import { indexOf, signed } from './log/seal.ts';
import {
  bytesOf,
  contentHashOf,
  hashOf,
  insertSegment,
  packEntries,
  positionOf,
  segmentValues,
  signText,
} from './log/segment.ts';
import { insertIndex, isIndexed } from './log/terms.ts';
import type { OpenLog } from './log.ts';
import { type ArchiveOptions, type ArchiveResult, archiveLog, type Received } from './proof/archive.ts';
import type { VerifiedEntry } from './proof/chain-check.ts';
import { checkSegment, endDiffers, indexChanged, isEndOf } from './proof/check.ts';
import { exportedParts, exportLines, type Part } from './proof/export.ts';
import { recordedMac, recordHeads } from './proof/heads.ts';
import {
  deleteDelivered,
  type Retention,
  type VerifiedSegment,
  verifiedSegments,
} from './proof/retention.ts';
import {
  anchorOf,
  chainName,
  formatPosition,
  genesis,
  type Head,
  type Position,
  parsePosition,
  systemTenant,
} from './records.ts';

export type { Archived, ArchiveOptions, ArchiveResult, ArchiveStep, HeldBack } from './proof/archive.ts';
export type { ChainVerdict, VerifiedEntry } from './proof/chain-check.ts';
export type { Finding } from './proof/check.ts';
export type { Part } from './proof/export.ts';
export type { Retention } from './proof/retention.ts';
export type { Verdict, VerifyOptions, VerifyProgress } from './proof/verifier.ts';

export interface Proof {
  /**
   * For every tenant chain that has grown, records its end in the system chain. Verification then detects if the end of
   * a tenant's chain, or all of it, is deleted. Each chain is recorded at most once a minute, except with `all`.
   */
  recordHeads(which?: 'all'): Promise<void>;
  /**
   * The lines of an export of all chains, or of the chain of one tenant, and the anchor of the first chain. Undefined
   * if the tenant has no sealed entries. Reading the lines throws `EntriesDeleted` if some were deleted since.
   */
  export(
    at: number,
    tenantId?: string,
  ): Promise<{ lines: AsyncIterable<string>; anchor: string } | undefined>;
  /** The chains for `verifyFiles`. With `since`, without the segments that an earlier run has verified. */
  parts(at: number, since?: readonly Head[]): Promise<Part[]>;
  /** Whether the keys of the log are missing in the database. */
  isKeyMissing(): Promise<boolean>;
  /** Moves old segments into files. Throws `ArchiveError` or `DamagedChain`. */
  archive(options: ArchiveOptions): Promise<ArchiveResult>;
  /**
   * Deletes segments that are older than the retention and that every sink has received. Returns the number of shortened
   * chains. If a chain does not verify, deletes nothing from it and rejects. Any node may call this.
   */
  deleteDelivered(retention: Retention): Promise<number>;
  /**
   * Seals the entries of a tenant and returns its chain for `adopt` in another installation. Reading the segments
   * verifies them, and throws `DamagedChain` if that fails.
   */
  release(tenantId: string): Promise<ReleasedChain>;
  /** Writes a chain of another installation, signed with the keys of this one. */
  adopt(tx: Queries, chain: ReleasedChain): Promise<void>;
  /** Returns those entries of another log with the same keys that this log does not have. */
  missing<T extends Pick<VerifiedEntry, 'tenantId' | 'segment' | 'id'>>(entries: readonly T[]): Promise<T[]>;
}

export function proof(log: OpenLog, masters: MasterKeys, sinks: Received): Proof {
  const { db, keys, writeEntries: write, sealer } = log;
  return {
    recordHeads: (which) => recordHeads(log, write, which === 'all'),
    export: async (at, tenantId) => {
      const parts = await exportedParts(log, { at, tenantId });
      const [first] = parts;
      if (!first) return undefined;
      const anchor = anchorOf({ tenantId: first.tenantId, ...(first.end as Position) });
      return { lines: exportLines(await keys(), parts), anchor };
    },
    parts: (at, since = []) =>
      exportedParts(log, { at, since: new Map(since.map(({ tenantId, ...head }) => [tenantId, head])) }),
    isKeyMissing: async () => !(await wrappedChainKeys(db)),
    archive: (options) => archiveLog({ audit: log, masters, write, sealer, sinks }, options),
    deleteDelivered: (retention) => deleteDelivered({ audit: log, write, sealer }, retention),
    release: async (tenantId) => {
      await sealer.sealTenant(tenantId);
      const chain = (await chainOf(db, tenantId)) ?? emptyChain(tenantId);
      return { chain, segments: verifiedSegments(log, chain, chain, 'moved') };
    },
    adopt: async (tx, released) => adopt(tx, await keys(), released),
    missing: (entries) => missingIn(db, entries),
  };
}

/** A chain that leaves this installation. */
export interface ReleasedChain {
  readonly chain: Chain;
  readonly segments: AsyncIterable<VerifiedSegment>;
}

async function adopt(tx: Queries, keys: ChainKeys, { chain, segments }: ReleasedChain): Promise<void> {
  const { tenantId, number, seq, sealed_at, max_delay, base, baseSeq } = chain;
  if (number === 0) return;
  const system = formatPosition((await chainOf(tx, systemTenant)) ?? genesis);
  let previous = base.hash;
  for await (const { header, entries } of segments) {
    const own = entries.map((entry) => ({ ...entry, mac: macOf(keys, tenantId, entry) }));
    const content = contentHashOf(own);
    const signedHeader = signed(keys, {
      ...header,
      previous,
      system,
      content,
    });
    await tx.run([insertSegment, segmentValues(signedHeader, await packEntries(own))]);
    await insertIndex(tx, header, (await indexOf(own)).index);
    previous = hashOf(signedHeader);
  }
  // Counts as recorded, so that the end gets into the system chain when the chain grows, which is after the copy is opened.
  await tx.run(sql`
    insert into audit_chains (tenant_id, number, seq, hash, sealed_at, max_delay, base_number, base_seq, base_hash,
       recorded_number, recorded_at, recorded_mac)
     values (${tenantId}, ${number}, ${seq}, ${bytesOf(previous)}, ${sealed_at}, ${max_delay}, ${base.number}, ${baseSeq},
       ${bytesOf(base.hash)}, ${number}, 0, ${recordedMac(keys, tenantId, number, 0)})`);
}

/**
 * Compares entries by their ids: those that were pending in the backup may be in other segments here. Both logs start
 * with the same segments, up to the time of the backup. Segments that are archived here belong to this common start.
 */
async function missingIn<T extends Pick<VerifiedEntry, 'tenantId' | 'segment' | 'id'>>(
  db: Db,
  entries: readonly T[],
): Promise<T[]> {
  const missing: T[] = [];
  for (const [tenantId, some] of Map.groupBy(entries, (entry) => entry.tenantId)) {
    const base = (await chainOf(db, tenantId))?.base.number ?? 0;
    const later = some.filter(({ segment }) => segment.number > base);
    const open = new Map(later.map((entry) => [entry.id, entry]));
    const pending = await newestPending(db, tenantId, Number.MAX_SAFE_INTEGER);
    for (const { id } of pending?.entries ?? []) open.delete(id);
    const first = Math.min(...later.map(({ segment }) => segment.number));
    if (open.size > 0)
      for await (const { packed } of eachSegment(db, tenantId, { first, last: Number.MAX_SAFE_INTEGER }))
        for (const { id } of packed.readable()) open.delete(id);
    missing.push(...open.values());
  }
  return missing;
}

/** Signs a report about the access in a tenant, together with the end of the tenant's chain. */
export async function signReport(
  db: Pick<Queries, 'get'>,
  keys: ChainKeys,
  report: Omit<ReportManifest, 'anchor' | 'signature'>,
): Promise<ReportManifest> {
  const { number, hash } = (await chainOf(db, report.tenant_id)) ?? genesis;
  const manifest = { ...report, anchor: anchorOf({ tenantId: report.tenant_id, number, hash }) };
  return { ...manifest, signature: signText(keys, manifestText(manifest)) };
}

/** Returns undefined if the master key that wraps the keys of the log is missing. */
export async function chainKeysOf(db: Db, masters: MasterKeys): Promise<ChainKeys | undefined> {
  const stored = await wrappedChainKeys(db);
  const master = stored && masters.find(stored.master_id);
  return master && unwrapChainKeys(master, stored.wrapped);
}

/** Whether the log has no segments yet, as in a database that no node has used. */
export async function isEmptyLog(db: Pick<Db, 'get'>): Promise<boolean> {
  return (await db.get(sql`select 1 as one from audit_segments limit 1 ${everyTenant}`)) === undefined;
}

export interface HeadsCheck {
  readonly chains: number;
  readonly entries: number;
  /** The first problem of the first damaged chain. */
  readonly problem?: string;
}

/**
 * Verifies the last segment of each chain, its rows in the index, and that the system chain has the segment that it
 * names.
 */
export async function checkHeads(db: Db, keys: ChainKeys): Promise<HeadsCheck> {
  const chains = await allChains(db);
  const entries = chains.reduce((sum, { seq }) => sum + seq, 0);
  for (const { tenantId } of chains) {
    const problem = await headProblem(db, keys, tenantId);
    const name = tenantId === systemTenant ? 'the system' : `tenant ${chainName(tenantId)}`;
    if (problem !== undefined)
      return { chains: chains.length, entries, problem: `${problem} in the chain of ${name}` };
  }
  return { chains: chains.length, entries };
}

/** Maximum attempts to check a chain. A problem is checked again if the service has extended the chain. */
const maxAttempts = 20;

async function headProblem(db: Db, keys: ChainKeys, tenantId: string): Promise<string | undefined> {
  let problem: string | undefined;
  for (let attempt = 0; attempt < maxAttempts; attempt++) {
    const chain = await chainOf(db, tenantId);
    if (!chain) return undefined;
    problem = await problemOf(db, keys, chain);
    if (problem === undefined || (await chainOf(db, tenantId))?.number === chain.number) break;
  }
  return problem;
}

async function problemOf(db: Db, keys: ChainKeys, chain: Chain): Promise<string | undefined> {
  const { tenantId, number, hash, base } = chain;
  if (number === base.number) return undefined;
  const stored = await segmentAt(db, tenantId, number);
  const found = stored?.packed.all();
  if (!stored || !found || positionOf(stored).hash !== hash)
    return `segment ${number} was changed or removed after it was signed`;
  const { problems, terms } = await checkSegment(keys, stored, found);
  if (problems[0]) return problems[0].message;
  if (!isEndOf(stored, chain)) return endDiffers(number);
  if (terms && !(await isIndexed(db, stored, terms))) return indexChanged(number);
  const system = parsePosition(stored.system ?? '');
  if (!system || system.number === 0) return undefined;
  const end = await chainOf(db, systemTenant);
  const isShorter =
    !end || system.number > end.number || (system.number === end.number && system.hash !== end.hash);
  return isShorter
    ? `segment ${system.number} of the system chain was removed after it was signed`
    : undefined;
}
