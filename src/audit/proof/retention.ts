/**
 * Deletes the oldest segments of a chain. Before that, they must be archived or delivered, they must verify, and an
 * entry of the chain must record the deletion. See archive.ts for archives.
 */

import { isDeepStrictEqual } from 'node:util';
import { type Db, type DbTime, type Queries, rowLock } from '../../db/db.ts';
import { databaseTime, everyTenant } from '../../db/sql.ts';
import { byOperator } from '../../domain/audit.ts';
import { type Age, timeOfAge } from '../../domain/duration.ts';
import { DamagedChain, EntriesDeleted } from '../errors.ts';
import {
  type AuditDb,
  allChains,
  type Chain,
  chainOf,
  eachSegment,
  firstHeader,
  headersIn,
  segmentAt,
  segmentsIn,
} from '../log/chain.ts';
import type { AuditEntry } from '../log/entry.ts';
import { type EntryWriter, tenantsIn } from '../log/pending.ts';
import { indexOf, type Sealer } from '../log/seal.ts';
import { searchBackwards } from '../log/search.ts';
import {
  bytesOf,
  type HeaderRow,
  headerColumns,
  partitionAt,
  partitions,
  positionOf,
  type SegmentHeader,
  type SignedHeader,
  toHeader,
} from '../log/segment.ts';
import { deleteIndex } from '../log/terms.ts';
import type { Position } from '../records.ts';
import { beforeFirst, beforeNext, checkSegment } from './check.ts';
import { checkNotDeleted } from './export.ts';
import {
  archiveOperation,
  type Removal,
  removalDifference,
  retentionOperation,
  statementOf,
} from './statements.ts';

/**
 * Segments whose latest entry is older than `before` are old enough. If the clock was fast when entries were written,
 * their times are after `now`; then the earliest entry counts.
 */
export interface Old {
  readonly before: number;
  readonly now: number;
}

function isOld({ earliestAt, latestAt }: SegmentHeader, { before, now }: Old): boolean {
  if (latestAt <= now) return latestAt < before;
  return earliestAt < before || earliestAt > now;
}

/** Headers per statement. */
const pageSize = 500;

export interface Cut {
  readonly last: Position;
  readonly segments: number;
  readonly entries: number;
}

/**
 * The segments from the start of the chain that are old enough, up to the number `max`. Returns undefined if none is,
 * or if they only record earlier deletions.
 */
export async function findCut(
  { db }: AuditDb,
  { tenantId, base, number }: Chain,
  old: Old,
  max = number,
): Promise<Cut | undefined> {
  let last: SegmentHeader | undefined;
  let entries = 0;
  for (let first = base.number + 1, isEnd = false; !isEnd; first += pageSize) {
    const page = await headersIn(db, tenantId, { first, last: Math.min(max, number) }, 'asc', pageSize);
    const end = page.findIndex((header) => !isOld(header, old));
    const found = end < 0 ? page : page.slice(0, end);
    last = found.at(-1) ?? last;
    entries += found.reduce((sum, header) => sum + header.last - header.first + 1, 0);
    isEnd = end >= 0 || page.length < pageSize;
  }
  if (!last) return undefined;
  const range = { first: base.number + 1, last: last.number };
  const few = entries <= maxRecords ? await segmentsIn(db, tenantId, range, 'asc', maxRecords) : [];
  const found = few.flatMap(({ packed }) => packed.all() ?? []);
  if (few.length > 0 && found.every(({ text }) => statementOf(text)?.removal)) return undefined;
  return { last: positionOf(last), segments: last.number - base.number, entries };
}

/**
 * Up to this many entries that only record deletions are not deleted, because their deletion would add another record.
 */
const maxRecords = 3;

export interface Remover {
  readonly audit: AuditDb;
  readonly write: EntryWriter;
  readonly sealer: Pick<Sealer, 'sealTenant'>;
}

/**
 * Records in the chain that segments will be deleted, and seals the entry: verification ignores pending entries. Writes
 * no second entry if the last one covers them: another node or an attempt that failed has written it.
 */
export async function recordRemoval(
  { audit, write, sealer }: Remover,
  at: number,
  tenantId: string,
  removal: Removal,
): Promise<void> {
  const operation = removal.file === undefined ? retentionOperation : archiveOperation;
  const difference = removalDifference(removal);
  const { entries } = await searchBackwards(audit.db, tenantId, { operation }, { limit: 1 });
  const latest = entries[0]?.difference ?? {};
  const isCovered =
    Number(latest.segments?.from) <= removal.first &&
    isDeepStrictEqual({ ...latest, segments: { ...latest.segments, from: removal.first } }, difference);
  if (!isCovered)
    await audit.db.transaction((tx) => write(tx, [{ ...byOperator, tenantId, at, operation, difference }]));
  await sealer.sealTenant(tenantId);
}

export interface VerifiedSegment {
  readonly header: SegmentHeader;
  readonly entries: readonly AuditEntry[];
}

/**
 * Reads the segments of a chain up to `end`, which will be deleted or moved. Throws `DamagedChain` if one does not
 * verify, or `EntriesDeleted` if another process has deleted it.
 */
export async function* verifiedSegments(
  { db, keys }: AuditDb,
  { tenantId, base }: Chain,
  end: Position,
  done: 'deleted' | 'moved',
): AsyncGenerator<VerifiedSegment> {
  const chainKeys = await keys();
  let before = base.number === 0 ? beforeFirst(base) : undefined;
  let position = base;
  const range = { first: base.number + 1, last: end.number };
  for await (const { packed, ...header } of eachSegment(db, tenantId, range)) {
    const entries = packed.all() ?? [];
    const { problems } = await checkSegment(chainKeys, header, entries, before);
    const follows = header.number === position.number + 1 && header.previous === position.hash;
    if (problems.length > 0 || !follows) throw await damaged(db, tenantId, base, done);
    before = beforeNext(header);
    position = positionOf(header);
    yield { header, entries };
  }
  if (position.number !== end.number || position.hash !== end.hash)
    throw await damaged(db, tenantId, base, done);
}

/** Throws `EntriesDeleted` if the chain no longer starts after `base`. */
async function damaged(
  db: Db,
  tenantId: string,
  base: Position,
  done?: 'deleted' | 'moved',
): Promise<DamagedChain> {
  await checkNotDeleted(db, tenantId, base.number);
  return new DamagedChain(tenantId, done);
}

/**
 * Deletes the oldest segment of a chain, if its number is at most that of `upTo`. Returns whether it deleted one. Throws
 * `DamagedChain` if the segment is missing, or if the hash at `upTo` differs. Throws `EntriesDeleted` if another process
 * deleted the segment first.
 */
export async function deleteFirst({ db }: AuditDb, tenantId: string, upTo: Position): Promise<boolean> {
  const chain = await chainOf(db, tenantId);
  if (!chain || chain.base.number >= upTo.number) return false;
  const number = chain.base.number + 1;
  const segment = await segmentAt(db, tenantId, number);
  const entries = segment?.packed.all();
  if (!segment || !entries || segment.previous !== chain.base.hash)
    throw await damaged(db, tenantId, chain.base);
  const position = positionOf(segment);
  if (number === upTo.number && position.hash !== upTo.hash) throw new DamagedChain(tenantId);
  const { index } = await indexOf(entries);
  return db.transaction(async (tx) => {
    const now = await chainOf(tx, tenantId, rowLock(db, 'for update'));
    if (now?.base.number !== chain.base.number) return true;
    await tx.run('delete from audit_segments where tenant_id = $1 and number = $2', [tenantId, number]);
    await deleteIndex(tx, db.dialect, segment, index);
    await tx.run(moveBase, baseAfter(segment));
    return true;
  });
}

const moveBase =
  'update audit_chains set base_number = $2, base_seq = $3, base_hash = $4 where tenant_id = $1';

/** The parameters of `moveBase`. */
function baseAfter(segment: SignedHeader) {
  return [segment.tenantId, segment.number, segment.last, bytesOf(positionOf(segment).hash)];
}

export interface Retention {
  /** The age at which delivered entries are deleted. */
  readonly age: Age;
  /**
   * The last segment of a chain that every sink has received. Returns undefined without sinks: then no entry is deleted.
   */
  readonly deliveredUpTo: (tenantId: string) => Promise<number | undefined>;
  /** Called between segments. Returns false to stop. */
  readonly goOn: () => boolean;
}

/**
 * Deletes segments that are older than the retention and were delivered. Returns the number of shortened chains. If some
 * chains fail, the others are still processed, and the first error is thrown at the end.
 */
export async function deleteDelivered(remover: Remover, retention: Retention): Promise<number> {
  const { audit } = remover;
  const now = await databaseTime(audit.db);
  const errors: unknown[] = [];
  let shortened = audit.db.dialect === 'postgres' ? await emptyMonths(remover, now, retention) : 0;
  for (const chain of await allChains(audit.db)) {
    if (!retention.goOn()) break;
    try {
      if (await shorten(remover, now, chain, retention)) shortened += 1;
    } catch (error) {
      // Another node deletes entries of the chain at the same time.
      if (!(error instanceof EntriesDeleted)) errors.push(error);
    }
  }
  if (errors.length > 0) throw errors[0];
  return shortened;
}

async function shorten(
  remover: Remover,
  now: number,
  chain: Chain,
  { age, deliveredUpTo, goOn }: Retention,
): Promise<boolean> {
  const { audit } = remover;
  const { tenantId, base } = chain;
  const first = await firstHeader(audit.db, chain);
  const old = { before: timeOfAge(now, age), now };
  if (!first || !isOld(first, old)) return false;
  const delivered = await deliveredUpTo(tenantId);
  if (delivered === undefined || delivered <= base.number) return false;
  const cut = await findCut(audit, chain, old, delivered);
  if (!cut) return false;
  for await (const _ of verifiedSegments(audit, chain, cut.last, 'deleted'));
  await recordRemoval(remover, now, tenantId, { first: base.number + 1, last: cut.last });
  while (goOn() && (await deleteFirst(audit, tenantId, cut.last)));
  return true;
}

/**
 * On PostgreSQL, empties the partitions of months in which every segment is old enough and delivered. This takes the
 * same time for any number of rows. Returns the number of shortened chains. Rows of other months are deleted one by one.
 */
async function emptyMonths(remover: Remover, now: number, retention: Retention): Promise<number> {
  let shortened = 0;
  // From the oldest month to the last one.
  for (let later = 1; later < partitions.length; later++) {
    const month = partitionAt(now, later);
    const cuts = await cutsOf(remover.audit, month, timeOfAge(now, retention.age), retention);
    for (const { chain, last } of cuts) {
      if (!retention.goOn()) return shortened;
      const removal = { first: chain.base.number + 1, last: positionOf(last) };
      await recordRemoval(remover, now, chain.tenantId, removal);
    }
    if (cuts.length > 0 && (await emptyMonth(remover.audit.db, month, cuts))) shortened += cuts.length;
  }
  return shortened;
}

/** A chain, and its last segment in a month. */
interface MonthCut {
  readonly chain: Chain;
  readonly last: SignedHeader;
}

/** Where the chains with segments in a month continue after it. Empty if one of them cannot lose these segments. */
async function cutsOf(
  audit: AuditDb,
  month: string,
  before: number,
  { deliveredUpTo, goOn }: Retention,
): Promise<MonthCut[]> {
  const { db } = audit;
  const [segments] = tablesOf(month);
  // In a month that is not old, the first row is found. In a Citus cluster, finding all tenants reads all rows.
  const young = everyTenant(`select 1 as one from ${segments} where sealed_at >= $1 limit 1`);
  if (await db.get<object>(young, [before])) return [];
  const cuts: MonthCut[] = [];
  for await (const tenantId of tenantsIn(db, segments)) {
    const chain = await chainOf(db, tenantId);
    const row = await db.get<HeaderRow>(
      `select ${headerColumns} from ${segments} where tenant_id = $1 order by number desc limit 1`,
      [tenantId],
    );
    if (!chain || !row || Number(row.sealed_at) >= before) return [];
    const last = toHeader(row);
    if (last.number > ((await deliveredUpTo(tenantId)) ?? 0)) return [];
    const sql = `select count(*) as count from ${segments} where tenant_id = $1`;
    const found = await db.get<{ count: DbTime }>(sql, [tenantId]);
    if (Number(found?.count) !== last.number - chain.base.number) return [];
    cuts.push({ chain, last });
  }
  if (cuts.length === 0 || !(await canEmpty(db, month))) return [];
  for (const { chain, last } of cuts) {
    if (!goOn()) return [];
    try {
      for await (const _ of verifiedSegments(audit, chain, positionOf(last), 'deleted'));
    } catch (error) {
      if (error instanceof DamagedChain || error instanceof EntriesDeleted) return [];
      throw error;
    }
  }
  return cuts;
}

function tablesOf(month: string) {
  return [`audit_segments_m${month}`, `audit_index_m${month}`] as const;
}

/** Whether the role has the privilege. Throws if another transaction uses the tables for long, such as a backup. */
async function canEmpty(db: Db, month: string): Promise<boolean> {
  const allowed = tablesOf(month).map((table) => `has_table_privilege('${table}', 'truncate')`);
  const row = await db.get<{ allowed: boolean }>(`select ${allowed.join(' and ')} as allowed`);
  if (row?.allowed) await db.exclusively((tx) => lock(tx, month));
  return row?.allowed === true;
}

/** Requests that read the log wait behind this lock. Their own timeout is longer, so they do not fail. */
async function lock(tx: Queries, month: string): Promise<void> {
  await tx.run("set local lock_timeout = '100ms'");
  await tx.run(`lock table ${tablesOf(month).join(', ')} in access exclusive mode`);
}

/** In one transaction. Returns false if the month or a chain has changed. */
async function emptyMonth(db: Db, month: string, cuts: readonly MonthCut[]): Promise<boolean> {
  const [segments, index] = tablesOf(month);
  const isDistributed = await db.isDistributed?.();
  const changed = new Error('the month has changed');
  const work = async (tx: Queries) => {
    // With one connection to each worker, a chain and its segments change at the same time.
    if (isDistributed) await tx.run("set local citus.multi_shard_modify_mode to 'sequential'");
    for (const { chain, last } of cuts) {
      const { tenantId, base } = chain;
      // Waits for a transaction that seals a segment. A statement that began before does not find the segment.
      await chainOf(tx, tenantId, rowLock(db, 'for update'));
      const isLast = `not exists (select 1 from ${segments} where tenant_id = $1 and number > $2)`;
      const params = [...baseAfter(last), base.number];
      const moved = await tx.run(`${moveBase} and base_number = $5 and ${isLast}`, params);
      if (moved !== 1) throw changed;
    }
    await lock(tx, month);
    let tenants = 0;
    for await (const _ of tenantsIn(
      { all: tx.all, isDistributed: async () => isDistributed === true },
      segments,
    ))
      tenants += 1;
    if (tenants !== cuts.length) throw changed;
    await tx.run(`truncate ${segments}, ${index}`);
    return true;
  };
  return db.exclusively(work, 'slow').catch((error) => {
    if (error === changed) return false;
    throw error;
  });
}
