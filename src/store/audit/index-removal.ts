/** Removes deleted entries from the table `audit_index`. */
import type { Db, Queries } from '../engine/db.ts';
import { Params } from '../engine/sql.ts';
import { blockOf, blockSize, type IndexedEntry } from './index-blocks.ts';

/** Terms per statement. */
const maxTerms = 512;

/** Removes positions up to `upTo` from the index, for the terms of these entries. The chain must be locked. */
export async function removeFromIndex(
  tx: Queries,
  dialect: Db['dialect'],
  chain: number,
  entries: readonly IndexedEntry[],
  upTo: number,
): Promise<void> {
  for (const [block, some] of Map.groupBy(entries, ({ seq }) => blockOf(seq))) {
    const terms = [...new Set(some.flatMap((entry) => [...entry.terms]))].sort((a, b) => a - b);
    for (let at = 0; at < terms.length; at += maxTerms)
      await removeTerms(tx, dialect, { chain, block }, terms.slice(at, at + maxTerms), upTo);
  }
}

interface Block {
  readonly chain: number;
  readonly block: number;
}

async function removeTerms(
  tx: Queries,
  dialect: Db['dialect'],
  block: Block,
  terms: readonly number[],
  upTo: number,
): Promise<void> {
  const removed = upTo - block.block * blockSize + 1;
  if (removed >= blockSize) return deleteTerms(tx, block, terms);
  const params = new Params();
  const rows = await tx.all<{ term: number; offsets: Uint8Array }>(
    `select term, offsets from audit_index where chain = ${params.add(block.chain)}
     and block = ${params.add(block.block)} and term in ${params.list(terms)}`,
    params.values,
  );
  const rest = rows.map(({ term, offsets }) => ({ term, offsets: offsetsFrom(offsets, removed) }));
  await deleteTerms(
    tx,
    block,
    rest.filter(({ offsets }) => offsets.length === 0).map(({ term }) => term),
  );
  await updateTerms(
    tx,
    dialect,
    block,
    rest.filter(({ offsets }) => offsets.length > 0),
  );
}

/** The offsets that are at least `first`. Offsets are in ascending order, two bytes each. */
function offsetsFrom(offsets: Uint8Array, first: number): Uint8Array {
  const view = new DataView(offsets.buffer, offsets.byteOffset, offsets.byteLength);
  let at = 0;
  while (at + 1 < offsets.length && view.getUint16(at) < first) at += 2;
  return offsets.slice(at);
}

async function deleteTerms(tx: Queries, { chain, block }: Block, terms: readonly number[]): Promise<void> {
  if (terms.length === 0) return;
  const params = new Params();
  await tx.run(
    `delete from audit_index where chain = ${params.add(chain)} and block = ${params.add(block)}
     and term in ${params.list(terms)}`,
    params.values,
  );
}

const updateOne = 'update audit_index set offsets = $4 where chain = $1 and block = $2 and term = $3';
const updateMany = `update audit_index as i set offsets = decode(r.offsets, 'hex')
  from json_to_recordset(cast(cast($3 as text) as json)) as r (term integer, offsets text)
  where i.chain = cast($1 as integer) and i.block = cast($2 as integer) and i.term = r.term`;

async function updateTerms(
  tx: Queries,
  dialect: Db['dialect'],
  { chain, block }: Block,
  rows: readonly { readonly term: number; readonly offsets: Uint8Array }[],
): Promise<void> {
  if (rows.length === 0) return;
  if (dialect === 'postgres') {
    const list = rows.map(({ term, offsets }) => ({ term, offsets: offsets.toHex() }));
    await tx.run(updateMany, [chain, block, JSON.stringify(list)]);
    return;
  }
  for (const { term, offsets } of rows) await tx.run(updateOne, [chain, block, term, offsets]);
}
