/** Reads the ends of the chains, and their segments. */

import type { Db, DbTime, Queries } from '../../db/db.ts';
import type { ChainKeys } from '../../db/keys/keyring.ts';
import { list, none, raw, sql } from '../../db/statement.ts';
import { genesis, type Head, type Position } from '../records.ts';
import {
  type HeaderRow,
  headerColumns,
  hexOf,
  PackedEntries,
  type Range,
  type SegmentRow,
  type SignedHeader,
  toHeader,
} from './segment.ts';

/** What every part of the audit log needs. */
export interface AuditDb {
  readonly db: Db;
  readonly keys: () => Promise<ChainKeys>;
}

/** A row of `audit_chains`. */
export interface Chain extends Head {
  /** The position of the last entry. */
  readonly seq: number;
  readonly sealed_at: number;
  readonly max_delay: number;
  /** The last deleted segment. Number 0 if none was deleted. */
  readonly base: Position;
  /** The last entry of that segment. */
  readonly baseSeq: number;
}

/** The columns of `ChainRow`. */
export const chainColumns = [
  'tenant_id',
  'number',
  'seq',
  'hash',
  'sealed_at',
  'max_delay',
  'base_number',
  'base_seq',
  'base_hash',
] as const;

export type ChainRow = {
  readonly [C in (typeof chainColumns)[number]]: C extends 'tenant_id'
    ? string
    : C extends 'hash' | 'base_hash'
      ? Uint8Array
      : DbTime;
};

/** Returns undefined if the tenant has no sealed entries. `lock` is appended to the statement. */
export async function chainOf(
  db: Pick<Queries, 'get'>,
  tenantId: string,
  lock = none,
): Promise<Chain | undefined> {
  const row = await db.get<ChainRow>(sql`
    select ${raw(chainColumns.join(', '))} from audit_chains where tenant_id = ${tenantId} ${lock}`);
  return row && toChain(row);
}

/** All chains, sorted by tenant. The system chain is first. */
export async function allChains(db: Pick<Queries, 'all'>): Promise<Chain[]> {
  const rows = await db.all<ChainRow>(
    `select ${chainColumns.join(', ')} from audit_chains order by tenant_id`,
  );
  return rows.map(toChain);
}

export function toChain(row: ChainRow): Chain {
  return {
    tenantId: row.tenant_id,
    number: Number(row.number),
    seq: Number(row.seq),
    hash: hexOf(row.hash),
    sealed_at: Number(row.sealed_at),
    max_delay: Number(row.max_delay),
    base: { number: Number(row.base_number), hash: hexOf(row.base_hash) },
    baseSeq: Number(row.base_seq),
  };
}

/** The chain of a tenant that has no sealed entries. */
export function emptyChain(tenantId: string): Chain {
  return { tenantId, ...genesis, seq: 0, sealed_at: 0, max_delay: 0, base: genesis, baseSeq: 0 };
}

/** A stored segment, whose entries are decompressed when they are read. */
export interface StoredSegment extends SignedHeader {
  readonly packed: PackedEntries;
}

/** At most `limit` rows of a chain with numbers in the range. */
function rowsIn<R>(
  db: Pick<Queries, 'all'>,
  columns: string,
  tenantId: string,
  { first, last }: Range,
  order: 'asc' | 'desc',
  limit: number,
) {
  return db.all<R>(sql`select ${raw(columns)} from audit_segments
     where tenant_id = ${tenantId} and number >= ${first} and number <= ${last}
    order by number ${raw(order)} limit ${limit}`);
}

type Page = [tenantId: string, range: Range, order: 'asc' | 'desc', limit: number];

/** At most `limit` segments of a chain with numbers in the range. */
export async function segmentsIn(db: Pick<Queries, 'all'>, ...page: Page): Promise<StoredSegment[]> {
  const rows = await rowsIn<SegmentRow>(db, `${headerColumns}, entries`, ...page);
  return rows.map(toStored);
}

/** Segments per statement. */
const pageSize = 8;

/** The stored segments of a chain with numbers in the range, oldest first. */
export async function* eachSegment(
  db: Pick<Queries, 'all'>,
  tenantId: string,
  { first, last }: Range,
): AsyncGenerator<StoredSegment> {
  for (let next: number | undefined = first; next !== undefined; ) {
    const page: StoredSegment[] = await segmentsIn(db, tenantId, { first: next, last }, 'asc', pageSize);
    yield* page;
    const end: StoredSegment | undefined = page[pageSize - 1];
    next = end && end.number + 1;
  }
}

export async function segmentAt(
  db: Pick<Queries, 'all'>,
  tenantId: string,
  number: number,
): Promise<StoredSegment | undefined> {
  return (await segmentsIn(db, tenantId, { first: number, last: number }, 'asc', 1))[0];
}

/** The segments with these numbers, newest first. */
export async function segmentsAt(
  db: Pick<Queries, 'all'>,
  tenantId: string,
  numbers: readonly number[],
): Promise<StoredSegment[]> {
  const rows = await db.all<SegmentRow>(sql`
    select ${raw(headerColumns)}, entries from audit_segments where tenant_id = ${tenantId}
     and number in ${list(numbers)} order by number desc`);
  return rows.map(toStored);
}

function toStored(row: SegmentRow): StoredSegment {
  const header = toHeader(row);
  return { ...header, packed: new PackedEntries(header, row.entries) };
}

/** Bytes of memory that the segments take, with the chunks that were decompressed. */
export function heldBytes(segments: readonly StoredSegment[]): number {
  return segments.reduce((sum, { packed }) => sum + packed.heldBytes, 0);
}

/** Like `segmentsIn`, without the entries. */
export async function headersIn(db: Pick<Queries, 'all'>, ...page: Page): Promise<SignedHeader[]> {
  return (await rowsIn<HeaderRow>(db, headerColumns, ...page)).map(toHeader);
}

export async function headerAt(
  db: Pick<Queries, 'all'>,
  tenantId: string,
  number: number,
): Promise<SignedHeader | undefined> {
  return (await headersIn(db, tenantId, { first: number, last: number }, 'asc', 1))[0];
}

/** The oldest segment that is stored. */
export async function firstHeader(
  db: Pick<Queries, 'all'>,
  { tenantId, base, number }: Chain,
): Promise<SignedHeader | undefined> {
  return (await headersIn(db, tenantId, { first: base.number + 1, last: number }, 'asc', 1))[0];
}

/** The first segment with a `sealed_at` of at least `time`. Undefined if no segment has one. */
export async function firstSealedAt(
  db: Pick<Queries, 'get'>,
  tenantId: string,
  time: number,
): Promise<number | undefined> {
  const row = await db.get<{ number: DbTime }>(sql`select number from audit_segments
     where tenant_id = ${tenantId}
     and sealed_at >= ${Math.min(Math.max(Math.trunc(time), 0), Number.MAX_SAFE_INTEGER)}
    order by sealed_at, number limit 1`);
  return row && Number(row.number);
}
