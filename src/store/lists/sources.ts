/** Reads the candidates of a list in steps, in its order, from the index that has the fewest of them. */

import { type Clause, clause, list, type Piece, sql } from '../../db/statement.ts';
import type { Bound, Scope } from '../../domain/scope.ts';
import type { TokenQuery } from '../store.ts';
import { metadataDigest } from '../token-index.ts';
import { inOrder } from './page.ts';
import { type Range, readEach, readRanges, type TokenScan, type Values } from './ranges.ts';

/** All candidates after `start`, up to `end`, in order. If `end` is undefined, no more follow. */
interface Batch {
  readonly seqs: readonly string[];
  readonly end: string | undefined;
  /** How many index entries were read. */
  readonly read: number;
}

/** Reads about `limit` entries of each range. `start` must be the `end` of the previous call, or come before it. */
export type Source = (start: string, limit: number) => Promise<Batch>;

export const everything: Range = { kind: 'all', values: [] };
export const ofType = (type: string): Range => ({ kind: 'type', values: [type] });
export const withEntry = (entry: [name: string, value: string]): Range => ({
  kind: 'metadata',
  values: [metadataDigest(entry)],
});
export const isEverything = ({ container, id }: Scope) => !container && !id;

/** The tokens in a container, and those below it unless the scope is exact. */
export function inContainer({ container }: Scope): Range[] {
  const { value, exact } = container as Bound;
  return (exact ? ['1'] : ['1', '0']).map((own) => ({ kind: 'container', values: [value, own] }));
}

/**
 * Chooses the source that gets furthest with a few entries. Every source has all tokens of the list. The indexes of
 * types and metadata also have tokens that the caller may not see, and a page that ends early would reveal that they
 * exist. So these indexes are used only for callers that may see every token.
 */
export async function sourceOf(
  scan: TokenScan,
  { visible, filter }: TokenQuery,
  start: string,
): Promise<Source> {
  if (filter.ids) return source(scan, [], await seqsOfIds(scan, filter.ids));
  const ofScopes = await sourceOfScopes(scan, visible.scopes);
  const types = filter.type === undefined ? [] : [ofType(filter.type)];
  const entries = Object.entries(filter.metadata ?? {}).map(withEntry);
  if (
    scan.terms ||
    types.length + entries.length === 0 ||
    !visible.exact ||
    !visible.scopes.some(isEverything)
  )
    return ofScopes;
  let [best, end] = [ofScopes, (await ofScopes(start, scan.budget.probe)).end];
  for (const ranges of [types, entries]) {
    const probes = await readRanges(scan, ranges, start, scan.budget.probe);
    for (const [at, seqs] of probes.entries()) {
      const last = seqs.length < scan.budget.probe ? undefined : (seqs.at(-1) as string);
      if (end === undefined || (last !== undefined && !scan.direction.precedes(end, last))) continue;
      [best, end] = [source(scan, [ranges[at] as Range]), last];
    }
  }
  return best;
}

async function sourceOfScopes(scan: TokenScan, all: readonly Scope[]): Promise<Source> {
  const indexed = await seqsOfTerms(scan, all);
  const scopes = all.filter((_, at) => indexed[at] === undefined);
  if (scopes.some(isEverything)) return source(scan, [everything]);
  const ids = scopes.flatMap(({ id }) => (id?.exact ? [id.value] : []));
  const prefixes = scopes.filter(({ id }) => id && !id.exact);
  const few = await seqsOfPrefixes(scan, prefixes);
  const many = prefixes.filter((_, at) => few[at] === undefined);
  if (many.some(({ container }) => !container)) return source(scan, [everything]);
  const ranges = [...many, ...scopes.filter(({ id }) => !id)].flatMap(inContainer);
  const some = [...indexed, ...few].flatMap((seqs) => seqs ?? []);
  return source(scan, ranges, [...(await seqsOfIds(scan, ids)), ...some]);
}

/**
 * Merges ranges of one kind, and the tokens in `some`. Each range is read in parts. A batch ends where the first of
 * these parts ends; entries after that are buffered for the next call. If there are many ranges, each has only a few
 * tokens of a page, so the first parts are small. With each call, the parts are four times as large.
 */
function source(scan: TokenScan, ranges: readonly Range[], some: readonly string[] = []): Source {
  const buffers = ranges.map((range) => ({ range, seqs: [] as readonly string[], isRead: false }));
  const { direction, last } = scan;
  const { precedes } = direction;
  const sorted = (seqs: readonly string[]) => inOrder(direction, seqs, (seq) => seq);
  let part = 0;
  return async (start, limit) => {
    for (const buffer of buffers) buffer.seqs = buffer.seqs.filter((seq) => precedes(start, seq));
    const empty = buffers.filter(({ seqs, isRead }) => seqs.length === 0 && !isRead);
    part = Math.max(4 * part, 4 + Math.ceil((2 * limit) / ranges.length));
    const each = Math.max(1, Math.min(limit, part, Math.floor(scan.budget.scan / ranges.length)));
    const unread = empty.map(({ range }) => range);
    const entries = await readRanges(scan, unread, start, each);
    for (const [at, buffer] of empty.entries()) {
      buffer.seqs = entries[at] as string[];
      buffer.isRead = buffer.seqs.length < each;
    }
    const [end] = sorted(buffers.flatMap(({ seqs, isRead }) => (isRead ? [] : [seqs.at(-1) as string])));
    const found = [
      ...some.filter((seq) => precedes(start, seq) && !precedes(last, seq)),
      ...buffers.flatMap(({ seqs }) => seqs),
    ];
    const complete = end === undefined ? found : found.filter((seq) => !precedes(end, seq));
    return { seqs: sorted([...new Set(complete)]), end, read: entries.flat().length };
  };
}

async function seqsOfIds(scan: TokenScan, ids: readonly string[]): Promise<string[]> {
  if (ids.length === 0) return [];
  const found = await scan.db.all<{ seq: string }>(sql`
    select t.seq from tokens t where t.tenant_id = ${scan.tenant} and t.id in ${list([...new Set(ids)])}`);
  return found.map(({ seq }) => seq);
}

/**
 * For each scope, all tokens in its container that have one of the search terms. Undefined if there are too many with
 * each term. Then the tokens of the scope are read and checked one by one.
 */
async function seqsOfTerms(scan: TokenScan, scopes: readonly Scope[]): Promise<(string[] | undefined)[]> {
  const found: (string[] | undefined)[] = scopes.map(() => undefined);
  for (const digests of scan.terms ?? []) {
    const open = scopes.flatMap((_, at) => (found[at] ? [] : [at]));
    // The oldest digest is read first: tokens move from older ones. "!" sorts before all characters of containers.
    const bounds = open.flatMap((at) => {
      const { value, exact } = scopes[at]?.container ?? { value: '/', exact: false };
      return digests.map((digest) => [digest, value, exact ? `${value}!` : `${value}~`]);
    });
    const seqs = await readFew(
      scan,
      (limit, digest, from, to) => clause`select r.seq from token_search r where r.tenant_id = ${scan.tenant}
        and r.digest = ${digest} and r.container >= ${from} and r.container < ${to} limit ${limit}`,
      bounds,
    );
    for (const [n, at] of open.entries()) {
      const each = seqs.slice(n * digests.length, (n + 1) * digests.length);
      if (each.every((some) => some !== undefined)) found[at] = each.flat();
    }
  }
  return found;
}

/** For each scope, all tokens whose id has its prefix; undefined if there are too many. */
function seqsOfPrefixes(scan: TokenScan, scopes: readonly Scope[]): Promise<(string[] | undefined)[]> {
  /** Every character of ids and containers sorts before "~". */
  const bounds = scopes.map(({ id }) => [(id as Bound).value, `${(id as Bound).value}~`]);
  const query = (limit: number, from: Piece, to: Piece) => clause`select t.seq from tokens t
    where t.tenant_id = ${scan.tenant} and t.id >= ${from} and t.id < ${to} limit ${limit}`;
  return readFew(scan, query, bounds);
}

/** Runs a query for each of the bounds. Undefined where it returns more rows than its part of the budget. */
async function readFew(
  { db, budget }: TokenScan,
  query: (limit: number, ...values: Values) => Clause,
  bounds: readonly (readonly string[])[],
): Promise<(string[] | undefined)[]> {
  if (bounds.length === 0) return [];
  const limit = Math.max(1, Math.floor(budget.scan / bounds.length));
  const found = await readEach(db, (...values) => query(limit, ...values), bounds);
  return found.map((seqs) => (seqs.length < limit ? seqs : undefined));
}
