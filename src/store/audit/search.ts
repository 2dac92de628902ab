/**
 * Searches one chain. The index suggests candidates, which are then compared with the filter. A page examines a limited
 * number of candidates, regardless of the filter and the length of the log.
 */
import type { LogEntry } from '../../domain/audit.ts';
import type { Awaitable } from '../../domain/awaitable.ts';
import { type Failure, fail } from '../../domain/error.ts';
import { nextTurn } from '../../domain/steps.ts';
import type { Db, DbTime } from '../engine/db.ts';
import { Params } from '../engine/sql.ts';
import type { AuditFilter, LogPage, LogWindow } from '../store.ts';
import { entryId, positionOf } from './entry-id.ts';
import { type ChainKeys, isSigned } from './hash-chain.ts';
import { blockOf, blockSize, blocksWith, intersect } from './index-blocks.ts';
import {
  type Chain,
  type ChainedRow,
  type CheckpointRow,
  checkpointColumns,
  type StoredRow,
  storedColumns,
  toChainedRow,
  toCheckpoint,
  toLogEntry,
} from './rows.ts';
import { isBetween, matches, requestHash, termsFor } from './terms.ts';

/** Maximum number of entries that one page examines, and of characters of JSON that it returns. */
export const maxExamined = 2000;
const maxPageBytes = 4 * 1024 * 1024;

/** Maximum number of rows of `audit`, and of `audit_index`, per statement. */
const maxRows = 250;
const maxBlocks = 16;
/** Reading a row of the index counts as examining this many entries. */
const blockCost = 10;

/**
 * Characters of entries that are parsed before other requests can be handled, and the cost of an entry in addition to
 * its characters.
 */
const maxUnpaused = 200_000;
const entryCost = 1000;

type Reader = Pick<Db, 'get' | 'all'>;

/** Positions above `after` and up to `upTo`. */
interface Span {
  readonly after: number;
  readonly upTo: number;
}

export async function search(
  db: Reader,
  chainKeys: () => Awaitable<ChainKeys>,
  chain: Chain,
  filter: AuditFilter,
  window: LogWindow,
): Promise<LogPage> {
  const { limit } = window;
  const order = window.after === undefined ? 'desc' : 'asc';
  const span = await spanOf(db, chainKeys, chain, filter, window);
  const entries: LogEntry[] = [];
  let [examined, bytes, unpaused] = [0, 0, 0];
  for await (const { rows, cost, end } of candidates(db, chain, filter, span, order, limit)) {
    for (const row of rows) {
      unpaused += row.entryText.length + entryCost;
      if (unpaused > maxUnpaused) {
        unpaused = 0;
        await nextTurn();
      }
      const entry = toLogEntry(row);
      if (!isBetween(row.at, filter) || !matches(entry, filter)) continue;
      bytes += row.entryText.length;
      if (entries.length === limit || (bytes > maxPageBytes && entries.length > 0))
        return { entries, next: entries.at(-1)?.id };
      entries.push(entry);
    }
    examined += cost;
    if (examined >= maxExamined) return { entries, next: await idAt(db, chain, end) };
  }
  return { entries };
}

async function spanOf(
  db: Reader,
  chainKeys: () => Awaitable<ChainKeys>,
  chain: Chain,
  filter: AuditFilter,
  window: LogWindow,
): Promise<Span> {
  const { before, after } = window;
  const time = await spanOfTime(db, chainKeys, chain, filter);
  if (after !== undefined)
    return { ...time, after: Math.max(time.after, await checkAfter(db, chain, after)) };
  const start = before === undefined ? undefined : positionOf(before, chain.tenantId);
  return start ? { ...time, upTo: Math.min(time.upTo, start.seq - 1) } : time;
}

/**
 * The positions of entries that may match the times of the filter. A checkpoint has the latest time of all entries up
 * to it, so entries up to a checkpoint before `from` are too old. Entries after a checkpoint are at most `maxDelay`
 * older than its time. A checkpoint without a valid signature does not limit the search.
 */
export async function spanOfTime(
  db: Reader,
  chainKeys: () => Awaitable<ChainKeys>,
  chain: Chain,
  { from, to }: AuditFilter,
): Promise<Span> {
  const seqOf = async (where: string, order: string, time: number) => {
    const row = await db.get<CheckpointRow>(
      `select ${checkpointColumns} from audit_checkpoints
       where chain = $1 and ${where} order by at ${order}, seq ${order} limit 1`,
      [chain.number, Math.min(Math.trunc(time), Number.MAX_SAFE_INTEGER)],
    );
    const checkpoint = row && toCheckpoint(chain.tenantId, row);
    return checkpoint && isSigned(await chainKeys(), checkpoint) ? checkpoint.seq : undefined;
  };
  const first = from === undefined ? undefined : await seqOf('at < $2', 'desc', from);
  const last = to === undefined ? undefined : await seqOf('at >= $2', 'asc', to + chain.maxDelay);
  return { after: Math.max(chain.baseSeq, first ?? 0), upTo: last ?? Number.MAX_SAFE_INTEGER };
}

/**
 * Returns the position of the entry with the id `after`. Throws `validation_failed` if the id is not of this chain, or
 * if entries after it were archived.
 */
async function checkAfter(db: Reader, chain: Chain, after: string): Promise<number> {
  const position = positionOf(after, chain.tenantId);
  const at = position && (await timeAt(db, chain, position.seq));
  if (!position || position.seq > chain.seq || (at !== undefined && at !== position.at))
    throw invalidAfter('must be the id of an entry of this log');
  if (position.seq < chain.baseSeq) throw invalidAfter('is too old: entries after it were archived');
  return position.seq;
}

function invalidAfter(message: string): Failure {
  return fail('validation_failed', { errors: { after: [message] } });
}

async function timeAt(db: Reader, { number }: Chain, seq: number): Promise<number | undefined> {
  const row = await db.get<{ at: DbTime }>('select at from audit where chain = $1 and seq = $2', [
    number,
    seq,
  ]);
  return row && Number(row.at);
}

async function idAt(db: Reader, chain: Chain, seq: number): Promise<string> {
  return entryId((await timeAt(db, chain, seq)) ?? 0, seq, chain.tenantId);
}

interface Candidates {
  readonly rows: readonly ChainedRow[];
  readonly cost: number;
  /** All candidates up to this position, in the order of the search, were returned. */
  readonly end: number;
}

type Order = 'asc' | 'desc';

function candidates(
  db: Reader,
  chain: Chain,
  filter: AuditFilter,
  span: Span,
  order: Order,
  limit: number,
): AsyncGenerator<Candidates> {
  if (filter.request_id !== undefined) {
    const hash = requestHash(filter.request_id);
    return byRequest(db, chain, hash, span, order, limit);
  }
  const [term, ...others] = termsFor(filter);
  if (term === undefined) return scan(db, chain, span, order, limit);
  return byTerm(db, chain, [term, ...others], span, order, limit);
}

/** Reads the rows of a range in order. */
async function* scan(
  db: Reader,
  { number, tenantId }: Chain,
  { after, upTo }: Span,
  order: Order,
  limit: number,
): AsyncGenerator<Candidates> {
  for (let size = firstRows(limit); after < upTo; ) {
    const found = await db.all<StoredRow>(
      `select ${storedColumns} from audit where chain = $1 and seq > $2 and seq <= $3
       order by seq ${order} limit $4`,
      [number, after, upTo, size],
    );
    const rows = found.map((row) => toChainedRow(tenantId, row));
    const last = rows.at(-1);
    if (!last) return;
    yield { rows, cost: rows.length, end: last.seq };
    if (rows.length < size) return;
    size = fittingRows(rows);
    if (order === 'asc') after = last.seq;
    else upTo = last.seq - 1;
  }
}

/** Rows of the first statement. An entry about an update can have 128 KiB, and takes up to 4 ms. */
function firstRows(limit: number): number {
  return Math.min(limit + 1, 3);
}

/** Rows of the next statement: more than of the last one, if reading them takes a few milliseconds at most. */
function fittingRows(rows: readonly ChainedRow[]): number {
  const characters = rows.reduce((sum, { entryText }) => sum + entryText.length, 0);
  const fitting = Math.floor((maxUnpaused * rows.length) / Math.max(characters, 1));
  return Math.max(1, Math.min(maxRows, 8 * rows.length, fitting));
}

/**
 * Reads the entries with the hash of a request id. The first statement reads nothing but the index: if it also selected
 * the entries, SQLite would read the whole chain in the order of the primary key instead.
 */
async function* byRequest(
  db: Reader,
  chain: Chain,
  hash: number,
  { after, upTo }: Span,
  order: Order,
  limit: number,
): AsyncGenerator<Candidates> {
  for (let size = firstRows(limit); after < upTo; ) {
    const found = await db.all<{ seq: DbTime }>(
      `select seq from audit where chain = $1 and request = $2 and seq > $3 and seq <= $4
       order by seq ${order} limit $5`,
      [chain.number, hash, after, upTo, size],
    );
    const seqs = found.map(({ seq }) => Number(seq));
    const last = seqs.at(-1);
    if (last === undefined) return;
    const rows = await rowsAt(db, chain, seqs, order);
    yield { rows, cost: seqs.length, end: last };
    if (seqs.length < size) return;
    size = fittingRows(rows);
    if (order === 'asc') after = last;
    else upTo = last - 1;
  }
}

/** Reads the entries that have all terms, block by block. */
async function* byTerm(
  db: Reader,
  chain: Chain,
  [term, ...others]: readonly [number, ...number[]],
  { after, upTo }: Span,
  order: Order,
  limit: number,
): AsyncGenerator<Candidates> {
  const span = { first: blockOf(after), last: blockOf(Math.min(upTo, chain.seq)) };
  let size = firstRows(limit);
  while (span.first <= span.last) {
    const blocks = await blocksWith(db, { chain: chain.number, term }, span, order, maxBlocks);
    const last = blocks.at(-1);
    if (!last) return;
    const common = await intersect(db, chain.number, others, blocks);
    const seqs = common.flatMap(({ seqs }) => (order === 'asc' ? seqs : seqs.toReversed()));
    const wanted = seqs.filter((seq) => seq > after && seq <= upTo);
    while (wanted.length > 0) {
      const some = wanted.splice(0, size);
      const rows = await rowsAt(db, chain, some, order);
      yield { rows, cost: some.length, end: some.at(-1) as number };
      size = fittingRows(rows);
    }
    if (blocks.length < maxBlocks) return;
    const end = order === 'asc' ? (last.block + 1) * blockSize - 1 : last.block * blockSize;
    yield { rows: [], cost: blocks.length * blockCost, end: Math.min(end, chain.seq) };
    if (order === 'asc') span.first = last.block + 1;
    else span.last = last.block - 1;
  }
}

async function rowsAt(
  db: Reader,
  { number, tenantId }: Chain,
  seqs: readonly number[],
  order: Order,
): Promise<ChainedRow[]> {
  const params = new Params();
  const rows = await db.all<StoredRow>(
    `select ${storedColumns} from audit where chain = ${params.add(number)} and seq in ${params.list(seqs)}
     order by seq ${order}`,
    params.values,
  );
  return rows.map((row) => toChainedRow(tenantId, row));
}
