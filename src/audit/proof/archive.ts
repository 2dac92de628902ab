/**
 * Moves old entries of the audit log into files, in three steps. First, the file is written, flushed and verified. Then
 * an entry about it is sealed in the chain. Last, the archived segments are deleted, each in one transaction. If a run stops at
 * any point, no entry is lost, and the next run continues with the files that exist.
 */
import { closeSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { MasterKeys } from '../../db/keys/keyring.ts';
import { syncFolderOf, writeFileLines } from '../../db/line-writer.ts';
import { createExclusively } from '../../db/sqlite/file-ownership.ts';
import { ArchiveError, DamagedChain } from '../errors.ts';
import { verifyFiles } from '../files.ts';
import { type AuditDb, allChains, type Chain, chainOf } from '../log/chain.ts';
import type { Sealer } from '../log/seal.ts';
import { chainName, type Position, parseAnchor } from '../records.ts';
import { archivePart, exportLines } from './export.ts';
import { deleteFirst, findCut, type Remover, recordRemoval, verifiedSegments } from './retention.ts';

export interface ArchiveOptions {
  /** An existing folder. */
  readonly folder: string;
  readonly now: number;
  /** Entries before this time are archived. */
  readonly before: number;
  /** Archives only the chain of this tenant. `systemTenant` is the chain of entries without a tenant. */
  readonly tenantId?: string | undefined;
  /** The names of the configured sinks. Segments that a sink has not received stay in the database. */
  readonly sinks?: readonly string[];
  /** Whether to archive entries that a sink has not received. The sink then never receives them. */
  readonly skipUndelivered?: boolean;
  /** Called between steps. May throw to stop. */
  readonly between?: (step: ArchiveStep) => Promise<void>;
  /** Called for every completed file. A later failure does not affect it. */
  readonly onArchived?: (archived: Archived) => void;
}

/** The current step, such as `writing FILE`. Counts are of segments; the total can be unknown. */
export interface ArchiveStep {
  readonly doing: string;
  readonly done: number;
  readonly total?: number;
}

export interface Archived {
  /** The id of the tenant, or `system`. */
  readonly chain: string;
  readonly file: string;
  /** The first and the last segment, and the number of their entries. */
  readonly first: number;
  readonly last: number;
  readonly entries: number;
}

/** Entries that are old enough, but stay in the database because a sink has not received them. */
export interface HeldBack {
  /** The id of the tenant, or `system`. */
  readonly chain: string;
  readonly sink: string;
  /** The last segment that the sink has received. */
  readonly received: number;
  readonly entries: number;
}

export interface ArchiveResult {
  /** The files that were written or completed. */
  readonly archived: readonly Archived[];
  readonly held: readonly HeldBack[];
}

/** The positions of the sinks. */
export interface Received {
  /** The given sinks, and those to which any node delivers now. */
  withActive(sinks: readonly string[]): Promise<string[]>;
  /** The last segment that a sink has received. */
  receivedUpTo(sink: string, tenantId: string): Promise<number>;
  /** Call this before deleting segments that the sink has not received. */
  markSkipped(sink: string, tenantId: string): Promise<void>;
}

export interface ArchiveContext extends Remover {
  readonly masters: MasterKeys;
  readonly sealer: Sealer;
  readonly sinks: Received;
}

/** Throws if a chain or a file does not verify. */
export async function archiveLog(context: ArchiveContext, options: ArchiveOptions): Promise<ArchiveResult> {
  const { tenantId } = options;
  const { audit, sealer } = context;
  const { between } = options;
  let sealed = 0;
  if (tenantId !== undefined) await sealer.sealTenant(tenantId);
  else
    await sealer.sealAll(async () => {
      await between?.({ doing: 'sealing', done: sealed++ });
      return true;
    });
  const tenants =
    tenantId === undefined ? (await allChains(audit.db)).map((chain) => chain.tenantId) : [tenantId];
  const archived: Archived[] = [];
  const held: HeldBack[] = [];
  // The system chain is last, because it records the ends of the other chains.
  for (const tenant of tenants.sort().reverse()) {
    const slowest = await slowestSink(context, tenant, options);
    archived.push(...(await archiveChain(context, tenant, options, slowest?.received)));
    held.push(...(await heldBack(context, tenant, options, slowest)));
  }
  return { archived, held };
}

interface SlowestSink {
  readonly sink: string;
  readonly received: number;
}

/** The sink that has received the fewest segments of a chain. Undefined without sinks, or with `skipUndelivered`. */
async function slowestSink(
  { sinks: received }: ArchiveContext,
  tenantId: string,
  { sinks = [], skipUndelivered = false }: ArchiveOptions,
): Promise<SlowestSink | undefined> {
  if (skipUndelivered) return undefined;
  const positions: SlowestSink[] = [];
  for (const sink of await received.withActive(sinks))
    positions.push({ sink, received: await received.receivedUpTo(sink, tenantId) });
  return positions.toSorted((a, b) => a.received - b.received)[0];
}

async function heldBack(
  { audit }: ArchiveContext,
  tenantId: string,
  age: ArchiveOptions,
  slowest: SlowestSink | undefined,
): Promise<HeldBack[]> {
  const chain = slowest && (await chainOf(audit.db, tenantId));
  const cut = chain && (await findCut(audit, chain, age));
  return slowest && cut ? [{ chain: chainName(tenantId), ...slowest, entries: cut.entries }] : [];
}

/** Archives segments up to the number `max`. */
async function archiveChain(
  context: ArchiveContext,
  tenantId: string,
  options: ArchiveOptions,
  max = Number.MAX_SAFE_INTEGER,
): Promise<Archived[]> {
  const { audit, sinks } = context;
  const { folder, now } = options;
  const archived: Archived[] = [];
  for (let chain = await chainOf(audit.db, tenantId); chain; chain = await chainOf(audit.db, tenantId)) {
    const found = findArchive(folder, chain, max);
    const file = found ?? (await writeArchive(audit, chain, options, max));
    if (file === undefined) break;
    const path = join(folder, file);
    const { last, entries } = await verifyArchive(context, chain, path, options).catch((error) => {
      if (found === undefined) rmSync(path);
      throw error;
    });
    const first = chain.base.number + 1;
    const total = last.number - first + 1;
    const recording = { doing: `recording ${file}`, done: 0, total };
    await options.between?.(recording);
    await recordRemoval(context, now, tenantId, { first, last, file });
    await options.between?.(recording);
    if (options.skipUndelivered)
      for (const sink of await sinks.withActive(options.sinks ?? [])) await sinks.markSkipped(sink, tenantId);
    for (let done = 0; await deleteFirst(audit, tenantId, last); )
      await options.between?.({ doing: `deleting the segments of ${file}`, done: ++done, total });
    const completed = { chain: chainName(tenantId), file, first, last: last.number, entries };
    options.onArchived?.(completed);
    archived.push(completed);
  }
  return archived;
}

/** Finds the file of an interrupted run. It contains the oldest segments that are still in the database. */
function findArchive(folder: string, { tenantId, base, number }: Chain, max: number): string | undefined {
  return readdirSync(folder).find((name) => {
    const [, chain, first, last] =
      /^audit-(system|[0-9a-f-]{36})-(\d{1,15})-(\d{1,15})\.jsonl$/.exec(name) ?? [];
    if (chain !== chainName(tenantId)) return false;
    return (
      Number(first) <= base.number + 1 && Number(last) > base.number && Number(last) <= Math.min(number, max)
    );
  });
}

/** Writes an archive file and returns its name. Returns undefined if no segment is old enough. */
async function writeArchive(
  audit: AuditDb,
  chain: Chain,
  { folder, now, before, between }: ArchiveOptions,
  max: number,
): Promise<string | undefined> {
  const cut = await findCut(audit, chain, { before, now }, Math.min(max, chain.number));
  if (!cut) return undefined;
  const name = `audit-${chainName(chain.tenantId)}-${chain.base.number + 1}-${cut.last.number}.jsonl`;
  const part = await archivePart(audit, now, chain, cut.last);
  const lines = exportLines(await audit.keys(), [part]);
  let done = 0;
  async function* counted() {
    for await (const line of lines) {
      if (line.startsWith('{"kind":"segment"')) done += 1;
      yield line;
    }
  }
  await writeDurably(join(folder, name), counted(), async () => {
    await between?.({ doing: `writing ${name}`, done, total: cut.segments });
  });
  return name;
}

/**
 * Returns the last segment of the file. Throws `ArchiveError` if the file does not verify or differs from the database,
 * and `DamagedChain` if the segments in the database do not verify.
 */
async function verifyArchive(
  { audit, masters }: ArchiveContext,
  chain: Chain,
  path: string,
  { between }: ArchiveOptions,
): Promise<{ last: Position; entries: number }> {
  const { tenantId, base } = chain;
  const doing = `verifying ${basename(path)}`;
  const { findings, chains, entries, segments } = await verifyFiles([path], {
    masters,
    anchors: [{ tenantId, ...base }],
    log: await audit.keys(),
    archives: 'ignored',
    between: between && (({ done, total }) => between({ doing, done, total: 2 * total })),
  });
  const [finding] = findings;
  if (finding)
    throw new ArchiveError(
      `${path} does not verify: ${finding.message}`,
      'no entry of this chain was deleted; run `sallyport audit verify`, and move the file away if it is damaged',
    );
  const last = parseAnchor(chains[0]?.anchor ?? '') as Position;
  try {
    let done = segments;
    for await (const _ of verifiedSegments(audit, chain, last, 'deleted'))
      await between?.({ doing, done: done++, total: 2 * segments });
  } catch (error) {
    if (!(error instanceof DamagedChain)) throw error;
    throw new ArchiveError(
      `${path} has other entries than the database`,
      'no entry of this chain was deleted; use another folder if the database was restored from a backup',
    );
  }
  return { last: { number: last.number, hash: last.hash }, entries };
}

/**
 * Writes a file under a temporary name, flushes it and renames it, so that a file at `path` is always complete. Calls
 * `between` after every few lines. If `between` throws, the file is removed.
 */
async function writeDurably(
  path: string,
  lines: AsyncIterable<string>,
  between: () => Promise<void>,
): Promise<void> {
  const partial = `${path}.partial`;
  rmSync(partial, { force: true });
  const file = createExclusively(partial);
  try {
    await writeFileLines(file, lines, between);
    renameSync(partial, path);
    syncFolderOf(path);
  } catch (error) {
    rmSync(partial, { force: true });
    throw error;
  } finally {
    closeSync(file);
  }
}
