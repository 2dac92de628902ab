/**
 * The index of the log. An entry has terms: values by which filters find it, stored as hashes. `audit_index` has one
 * row per term and segment. New kinds of terms can be added at any time: they are found in segments that are sealed
 * afterwards.
 */

import type { Db, DbTime, Queries } from '../../db/db.ts';
import { clause, list, raw, sql, target } from '../../db/statement.ts';
import type { Entry } from '../../domain/audit.ts';
import { canonicalContainer } from '../../domain/rule.ts';
import type { Steps } from '../../domain/steps.ts';
import type { AuditFilter } from '../records.ts';
import { compute, type Reader } from './reader.ts';
import { type Range, type SegmentHeader, sha256 } from './segment.ts';

/** The terms of an entry, hashed. Some may be there twice. */
export function termsOf(entry: Entry): number[] {
  const { actor, operation, entity, resource, result, request_id, purpose } = entry;
  const terms: number[] = [];
  const add = (text: string) => terms.push(hash(text));
  for (const id of resource?.ids ?? []) add(`id:${id}`);
  if (entity) add(`id:${entity.id}`);
  for (const container of containersOf(resource?.container)) add(`container:${container}`);
  if (actor.id !== undefined) add(`actor:${actor.id}`);
  if (actor.application_id !== undefined) add(`actor:${actor.application_id}`);
  if (actor.authorized_by !== undefined) add(`authorizer:${actor.authorized_by}`);
  if (actor.subject !== undefined) add(`subject:${actor.subject}`);
  const { person } = actor;
  if (person) add(`person:${person.subject}`);
  if (person?.email !== undefined) add(`person:${person.email}`);
  if (entry.use) add(`destination:${entry.use.destination}`);
  if (purpose !== undefined) add(`purpose:${purpose}`);
  if (request_id !== undefined) add(`request:${request_id}`);
  add(`operation:${operation}`);
  // Most entries are successes, so an index of them would be as long as the log.
  if (result !== 'success') add(`result:${result}`);
  return terms;
}

/** The terms that an entry must have to match the filter. The term that probably has the fewest entries is first. */
export function termsFor(filter: AuditFilter): number[] {
  const { token, entity, actor, authorizer, operation, container, result, request_id, subject, purpose } =
    filter;
  const path = container === undefined ? '/' : canonicalContainer(container);
  const texts = [
    request_id !== undefined && `request:${request_id}`,
    token !== undefined && `id:${token}`,
    entity !== undefined && `id:${entity}`,
    subject !== undefined && `subject:${subject}`,
    filter.person !== undefined && `person:${filter.person}`,
    result !== undefined && result !== 'success' && `result:${result}`,
    actor !== undefined && `actor:${actor}`,
    authorizer !== undefined && `authorizer:${authorizer}`,
    filter.destination !== undefined && `destination:${filter.destination}`,
    purpose !== undefined && `purpose:${purpose}`,
    operation !== undefined && `operation:${operation}`,
    path !== '/' && `container:${path}`,
  ];
  return texts.filter((text) => text !== false).map(hash);
}

/** A signed 32-bit number, to fit the column `term`. */
function hash(text: string): number {
  return Bun.hash.xxHash32(text) | 0;
}

/** The container and all containers above it except the root, in canonical form. */
function containersOf(container: string | undefined): string[] {
  if (container === undefined) return [];
  const path = canonicalContainer(container);
  const containers: string[] = [];
  for (let end = path.indexOf('/', 1); end > 0; end = path.indexOf('/', end + 1))
    containers.push(path.slice(0, end + 1));
  return containers;
}

/**
 * Whether an entry matches the filter, except for its time. Checks all fields, because terms in the index are hashes,
 * which may collide.
 */
export function matches(entry: Entry, filter: AuditFilter): boolean {
  const { actor, operation, entity, resource, decision, result, request_id } = entry;
  const { container } = filter;
  return (
    (filter.token === undefined ||
      (entity?.kind === 'token' && entity.id === filter.token) ||
      (resource?.ids?.includes(filter.token) ?? false)) &&
    (filter.entity === undefined || entity?.id === filter.entity) &&
    (filter.actor === undefined || actor.id === filter.actor || actor.application_id === filter.actor) &&
    (filter.authorizer === undefined || actor.authorized_by === filter.authorizer) &&
    (filter.operation === undefined || operation === filter.operation) &&
    (filter.result === undefined || result === filter.result) &&
    (filter.request_id === undefined || request_id === filter.request_id) &&
    (filter.subject === undefined || actor.subject === filter.subject) &&
    (filter.person === undefined ||
      actor.person?.subject === filter.person ||
      actor.person?.email === filter.person) &&
    (filter.changes !== 'true' || isChange(entry)) &&
    (filter.destination === undefined || entry.use?.destination === filter.destination) &&
    (filter.purpose === undefined || entry.purpose === filter.purpose) &&
    (filter.transform === undefined || decision?.transform === filter.transform) &&
    (container === undefined ||
      (resource?.container !== undefined &&
        canonicalContainer(resource.container).startsWith(canonicalContainer(container))))
  );
}

/** Entries with an entity that change nothing: a creation that found an existing token, and the use of a stored key. */
const unchanging = ['token.search', 'key.break_glass'];

/** Reads and uses of tokens have a resource instead of an entity. */
function isChange({ result, entity, operation }: Entry): boolean {
  return result === 'success' && entity !== undefined && !unchanging.includes(operation);
}

/** Whether a time matches the filter. */
export function isBetween(at: number, { from, to }: AuditFilter): boolean {
  return (from === undefined || at >= from) && (to === undefined || at < to);
}

/** Bytes of a packed row before its offsets, and of an offset. */
const rowBytes = 8;
const offsetBytes = 2;
/** More than any offset. */
const offsetRange = 2 ** 16;

/**
 * The index of a segment: for each term, ascending, the term, the length of its offsets, and the offsets. `index_hash`
 * covers these bytes. `terms` has the terms of each entry.
 */
export function packIndex(terms: readonly (readonly number[])[]): Uint8Array {
  // A term and an offset are one number, so that they can be sorted without a function that compares them.
  const pairs = terms.flatMap((some, offset) => some.map((term) => term * offsetRange + offset));
  const bytes = Buffer.alloc(pairs.length * (rowBytes + offsetBytes));
  let [start, end, before] = [0, 0, Number.NaN];
  for (const pair of Float64Array.from(pairs).sort()) {
    if (pair === before) continue;
    const term = Math.floor(pair / offsetRange);
    if (term !== Math.floor(before / offsetRange)) {
      start = end;
      end = bytes.writeInt32BE(term, start) + 4;
    }
    end = bytes.writeUInt16BE(pair - term * offsetRange, end);
    bytes.writeUInt32BE(end - start - rowBytes, start + 4);
    before = pair;
  }
  return bytes.subarray(0, end);
}

/** The terms of a packed index. */
export function termsIn(index: Uint8Array): Int32Array {
  const view = new DataView(index.buffer, index.byteOffset, index.byteLength);
  const terms = new Int32Array(index.length / (rowBytes + offsetBytes));
  let count = 0;
  for (let at = 0; at < index.length; at += rowBytes + view.getUint32(at + 4))
    terms[count++] = view.getInt32(at);
  return terms.slice(0, count);
}

function indexRows(index: Uint8Array) {
  let end = 0;
  return Array.from(termsIn(index), (term) => {
    const start = end + rowBytes;
    end = start + new DataView(index.buffer, index.byteOffset + end).getUint32(4);
    return { term, offsets: index.subarray(start, end) };
  });
}

/** If another node has sealed the segment first, the caller rolls back. Verification compares the stored rows. */
const stored = target<{ tenant_id: string; term: number; number: number; offsets: Uint8Array }>(
  'audit_index',
  { tenant_id: 'uuid', term: 'integer', number: 'bigint', offsets: 'bytea' },
  'on conflict do nothing',
);

export async function insertIndex(tx: Queries, { tenantId, number }: Key, index: Uint8Array): Promise<void> {
  const rows = indexRows(index).map(({ term, offsets }) => ({ tenant_id: tenantId, term, number, offsets }));
  await tx.insert(stored, rows);
}

/** The values of a JSON list of terms. */
const listed = {
  sqlite: (terms: string) => clause`in (select value from json_each(${terms}))`,
  postgres: (terms: string) => clause`= any(cast(translate(${terms}, '[]', '{}') as integer[]))`,
};
/** The rows of a segment with some terms. */
const rowsOfSegment = (dialect: keyof typeof listed, { tenantId, number }: Key, terms: Int32Array) =>
  clause`audit_index where tenant_id = ${tenantId} and number = ${number} and term ${listed[dialect](`[${terms}]`)}`;

/** Packs the rows of a segment as `packIndex` does. */
const packed = {
  sqlite: `unhex(string_agg(printf('%08x%08x', term & 4294967295, length(offsets)) || hex(offsets), '' order by term))`,
  postgres: `string_agg(int4send(term) || int4send(octet_length(offsets)) || offsets, cast('' as bytea) order by term)`,
};

type Key = Pick<SegmentHeader, 'tenantId' | 'number'>;

/** Whether the stored rows of the segment are its index. `terms` are those of its entries. */
export async function isIndexed(
  { dialect, get }: Pick<Db, 'get' | 'dialect'>,
  segment: Pick<SegmentHeader, 'tenantId' | 'number' | 'index'>,
  terms: Int32Array,
): Promise<boolean> {
  const row = await get<{ packed: Uint8Array | null }>(sql`
    select ${raw(packed[dialect])} as packed from ${rowsOfSegment(dialect, segment, terms)}`);
  return sha256(row?.packed ?? '') === segment.index;
}

/** Callers choose texts with equal hashes, so a range can have many more rows than others. Then it is halved. */
const maxRows = 2 ** 18;

/** The packed rows of segments in a range that have terms in a range. A segment can come several times, in order. */
export async function* storedIndex(
  db: Pick<Db, 'all' | 'dialect'>,
  tenantId: string,
  numbers: Range,
  terms: Range,
  max = maxRows,
): AsyncGenerator<{ readonly number: DbTime; readonly packed: Uint8Array }> {
  const found = await db.all<{ number: DbTime; packed: Uint8Array; count: DbTime }>(sql`
    select number, count(*) as count, ${raw(packed[db.dialect])} as packed from (
       select number, term, offsets from audit_index where tenant_id = ${tenantId}
       and term >= ${terms.first} and term <= ${terms.last} and number >= ${numbers.first}
       and number <= ${numbers.last} limit ${max}
     ) as found group by number`);
  const isCut = found.reduce((sum, { count }) => sum + Number(count), 0) === max;
  if (!isCut || terms.first === terms.last) return yield* found;
  const last = Math.floor((terms.first + terms.last) / 2);
  yield* storedIndex(db, tenantId, numbers, { first: terms.first, last }, max);
  yield* storedIndex(db, tenantId, numbers, { first: last + 1, last: terms.last }, max);
}

/** Deletes the rows of a segment. */
export async function deleteIndex(tx: Queries, segment: Key, index: Uint8Array): Promise<void> {
  await tx.run(sql`delete from ${rowsOfSegment(tx.dialect, segment, termsIn(index))}`);
}

/** The entries of a segment that have some terms. */
export interface Hits {
  readonly number: number;
  /** Ascending. */
  readonly offsets: readonly number[];
}

/** At most `limit` segments that have the term, from the start (`asc`) or the end (`desc`) of the range. */
export async function segmentsWith(
  db: Reader,
  tenantId: string,
  term: number,
  { first, last }: Range,
  order: 'asc' | 'desc',
  limit: number,
): Promise<Hits[]> {
  const rows = await db.all<HitRow>(sql`select number, offsets from audit_index
     where tenant_id = ${tenantId} and term = ${term} and number >= ${first} and number <= ${last}
    order by number ${raw(order)} limit ${limit}`);
  return compute(db, hitsOf(rows));
}

/** Returns those hits that also have all of `terms`. */
export async function intersect(
  db: Reader,
  tenantId: string,
  terms: readonly number[],
  hits: readonly Hits[],
): Promise<Hits[]> {
  let common = [...hits];
  for (const term of terms) {
    const found = await hitsAt(db, tenantId, term, common);
    common = await compute(db, commonHits(common, found));
    if (common.length === 0) return [];
  }
  return common;
}

function* commonHits(hits: readonly Hits[], others: readonly Hits[]): Steps<Hits[]> {
  const offsetsOf = new Map(others.map(({ number, offsets }) => [number, offsets]));
  const common: Hits[] = [];
  for (const { number, offsets } of hits) {
    yield;
    const [both] = divided(offsets, offsetsOf.get(number));
    if (both.length > 0) common.push({ number, offsets: both });
  }
  return common;
}

/** The offsets that are also in the second list, and the others. Both lists are ascending. */
export function divided(
  offsets: readonly number[],
  others: readonly number[] = [],
): readonly [both: number[], rest: number[]] {
  const [both, rest]: [number[], number[]] = [[], []];
  let next = 0;
  for (const offset of offsets) {
    while (next < others.length && (others[next] as number) < offset) next++;
    (others[next] === offset ? both : rest).push(offset);
  }
  return [both, rest];
}

/** The entries with a term, in the segments of `hits`. */
export async function hitsAt(
  db: Reader,
  tenantId: string,
  term: number,
  hits: readonly Pick<Hits, 'number'>[],
): Promise<Hits[]> {
  const rows = await db.all<HitRow>(sql`select number, offsets from audit_index where tenant_id = ${tenantId}
    and term = ${term} and number in ${list(hits.map(({ number }) => number))}`);
  return compute(db, hitsOf(rows));
}

interface HitRow {
  readonly number: DbTime;
  readonly offsets: Uint8Array;
}

function* hitsOf(rows: readonly HitRow[]): Steps<Hits[]> {
  const hits: Hits[] = [];
  for (const { number, offsets } of rows) {
    yield;
    const bytes = new DataView(offsets.buffer, offsets.byteOffset, offsets.byteLength);
    const list = Array.from({ length: offsets.length >> 1 }, (_, at) => bytes.getUint16(2 * at));
    hits.push({ number: Number(number), offsets: list });
  }
  return hits;
}
