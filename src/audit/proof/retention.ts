/**
 * Deletes the oldest segments of a chain. Before that, they must be archived or delivered, they must verify, and an
 * entry of the chain must record the deletion. See archive.ts for archives.
 */

import { isDeepStrictEqual } from 'node:util';
import { type Db, rowLock } from '../../db/db.ts';
import { databaseTime } from '../../db/sql.ts';
import { sql } from '../../db/statement.ts';
import { byOperator } from '../../domain/audit.ts';
import { type Age, timeOfAge } from '../../domain/duration.ts';
import { inTurns } from '../../domain/steps.ts';
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
import type { EntryWriter } from '../log/pending.ts';
import { indexOf, type Sealer } from '../log/seal.ts';
import { searchBackwards } from '../log/search.ts';
import { bytesOf, positionOf, type SegmentHeader } from '../log/segment.ts';
import { deleteIndex } from '../log/terms.ts';
import type { Position } from '../records.ts';
import { checkSegments, type SegmentSource } from './check.ts';
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

function isOld({ earliest_at, latest_at }: SegmentHeader, { before, now }: Old): boolean {
  if (latest_at <= now) return latest_at < before;
  return earliest_at < before || earliest_at > now;
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
  async function* stored(): AsyncGenerator<SegmentSource> {
    const range = { first: base.number + 1, last: end.number };
    for await (const { packed, ...segment } of eachSegment(db, tenantId, range))
      yield { segment, content: packed };
  }
  let last = base;
  for await (const checked of checkSegments(await keys(), base, stored())) {
    const { segment: header, problems, position } = checked;
    if (!header || problems.length > 0) throw await damaged(db, tenantId, base, done);
    last = position;
    yield { header, entries: checked.entries as readonly AuditEntry[] };
  }
  if (last.number !== end.number || last.hash !== end.hash) throw await damaged(db, tenantId, base, done);
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
  const entries = segment && (await inTurns(segment.packed.read()));
  if (!segment || entries?.length !== segment.packed.length || segment.previous !== chain.base.hash)
    throw await damaged(db, tenantId, chain.base);
  const position = positionOf(segment);
  if (number === upTo.number && position.hash !== upTo.hash) throw new DamagedChain(tenantId);
  const { index } = await indexOf(entries);
  return db.transaction(async (tx) => {
    const now = await chainOf(tx, tenantId, rowLock(db, 'for update'));
    if (now?.base.number !== chain.base.number) return true;
    await tx.run(sql`delete from audit_segments where tenant_id = ${tenantId} and number = ${number}`);
    await deleteIndex(tx, segment, index);
    await tx.run(sql`update audit_chains set base_number = ${number}, base_seq = ${segment.last},
      base_hash = ${bytesOf(position.hash)} where tenant_id = ${tenantId}`);
    return true;
  });
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
  let shortened = 0;
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
