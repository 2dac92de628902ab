/** The table `audit_index`: which entries of a block have a term. */
import { type Awaitable, then } from '../../domain/awaitable.ts';
import type { Db, Queries } from '../engine/db.ts';
import { Params } from '../engine/sql.ts';

/** Entries per block. */
export const blockSize = 1024;

export function blockOf(seq: number): number {
  return Math.floor(seq / blockSize);
}

export interface IndexRow {
  readonly term: number;
  readonly block: number;
  readonly offsets: Uint8Array;
}

export interface IndexedEntry {
  readonly seq: number;
  readonly terms: ReadonlySet<number>;
}

/** Returns one row per term and block. The entries must be in ascending order. */
export function rowsFor(entries: readonly IndexedEntry[]): IndexRow[] {
  const offsets = new Map<number, { term: number; block: number; bytes: number[] }>();
  for (const { seq, terms } of entries) {
    const block = blockOf(seq);
    const offset = seq % blockSize;
    for (const term of terms) {
      const key = block * 2 ** 32 + term;
      const known = offsets.get(key);
      if (known) known.bytes.push(offset >> 8, offset & 255);
      else offsets.set(key, { term, block, bytes: [offset >> 8, offset & 255] });
    }
  }
  const rows = [...offsets.values()].sort((a, b) => a.term - b.term || a.block - b.block);
  return rows.map(({ term, block, bytes }) => ({ term, block, offsets: Uint8Array.from(bytes) }));
}

const insertOne = 'insert into audit_index (chain, term, block, offsets) values ($1, $2, $3, $4)';
const insertMany = `insert into audit_index (chain, term, block, offsets)
  select cast($1 as integer), term, block, decode(offsets, 'hex')
  from json_to_recordset(cast(cast($2 as text) as json)) as rows (term integer, block integer, offsets text)`;
const onConflict = 'on conflict (chain, term, block) do update set offsets =';

/** If the row exists, `append` adds the new offsets to it, and `replace` overwrites its offsets. */
const append = {
  sqlite: `${insertOne} ${onConflict} cast(audit_index.offsets || excluded.offsets as blob)`,
  postgres: `${insertMany} ${onConflict} audit_index.offsets || excluded.offsets`,
};
const replace = {
  sqlite: `${insertOne} ${onConflict} excluded.offsets`,
  postgres: `${insertMany} ${onConflict} excluded.offsets`,
};

/** Adds new entries to the index. The chain must be locked. Each entry must be added only once, in ascending order. */
export function addToIndex(
  tx: Queries,
  dialect: Db['dialect'],
  chain: number,
  entries: readonly IndexedEntry[],
): Promise<void> {
  return writeRows(tx, dialect, append, chain, rowsFor(entries));
}

/** Overwrites rows of the index. The chain must be locked. */
export function replaceRows(
  tx: Queries,
  dialect: Db['dialect'],
  chain: number,
  rows: readonly IndexRow[],
): Promise<void> {
  return writeRows(tx, dialect, replace, chain, rows);
}

async function writeRows(
  tx: Queries,
  dialect: Db['dialect'],
  upsert: Readonly<Record<Db['dialect'], string>>,
  chain: number,
  rows: readonly IndexRow[],
): Promise<void> {
  if (rows.length === 0) return;
  if (dialect === 'postgres') {
    const list = rows.map((row) => ({ ...row, offsets: row.offsets.toHex() }));
    await tx.run(upsert.postgres, [chain, JSON.stringify(list)]);
    return;
  }
  for (const { term, block, offsets } of rows) await tx.run(upsert.sqlite, [chain, term, block, offsets]);
}

/** Terms per statement. */
const maxTerms = 512;

/** The offsets of the given terms in one block, by term. */
export async function storedRows(
  db: Pick<Queries, 'all'>,
  chain: number,
  block: number,
  terms: readonly number[],
): Promise<Map<number, Uint8Array>> {
  const found = new Map<number, Uint8Array>();
  for (let at = 0; at < terms.length; at += maxTerms) {
    const params = new Params();
    const rows = await db.all<Omit<IndexRow, 'block'>>(
      `select term, offsets from audit_index where chain = ${params.add(chain)} and block = ${params.add(block)}
       and term in ${params.list(terms.slice(at, at + maxTerms))}`,
      params.values,
    );
    for (const { term, offsets } of rows) found.set(term, offsets);
  }
  return found;
}

export interface Block {
  readonly block: number;
  /** Positions of the entries, ascending. */
  readonly seqs: readonly number[];
}

/** At most `limit` blocks that have the term, from the start (`asc`) or the end (`desc`) of the range. */
export function blocksWith(
  db: Pick<Queries, 'all'>,
  { chain, term }: { readonly chain: number; readonly term: number },
  { first, last }: { readonly first: number; readonly last: number },
  order: 'asc' | 'desc',
  limit: number,
): Awaitable<Block[]> {
  const rows = db.all<Omit<IndexRow, 'term'>>(
    `select block, offsets from audit_index where chain = $1 and term = $2 and block >= $3 and block <= $4
     order by block ${order} limit $5`,
    [chain, term, first, last, limit],
  );
  return then(rows, (found) => found.map(toBlock));
}

/** Returns those positions of `blocks` that have all of `terms`. */
export async function intersect(
  db: Pick<Queries, 'all'>,
  chain: number,
  terms: readonly number[],
  blocks: readonly Block[],
): Promise<Block[]> {
  let common = [...blocks];
  for (const term of terms) {
    const params = new Params();
    const rows = await db.all<Omit<IndexRow, 'term'>>(
      `select block, offsets from audit_index where chain = ${params.add(chain)} and term = ${params.add(term)}
       and block in ${params.list(common.map(({ block }) => block))}`,
      params.values,
    );
    const found = new Map(rows.map(toBlock).map(({ block, seqs }) => [block, new Set(seqs)]));
    common = common
      .map(({ block, seqs }) => ({ block, seqs: seqs.filter((seq) => found.get(block)?.has(seq)) }))
      .filter(({ seqs }) => seqs.length > 0);
    if (common.length === 0) return [];
  }
  return common;
}

function toBlock({ block, offsets }: Pick<IndexRow, 'block' | 'offsets'>): Block {
  const bytes = new DataView(offsets.buffer, offsets.byteOffset, offsets.byteLength);
  const seqs = Array.from(
    { length: offsets.length >> 1 },
    (_, at) => block * blockSize + bytes.getUint16(2 * at),
  );
  return { block, seqs };
}
