/** Where the candidates of a list come from: the index that holds the fewest of them, in steps, newest first. */
import type { Bound, Scope } from '../../domain/scope.ts';
import { top } from '../bounded-list.ts';
import { Params } from '../engine/sql-params.ts';
import type { TokenQuery } from '../store.ts';
import { type Range, readRanges, type Scan } from './ranges.ts';

/** Everything from `before` down to `end` that may be in the list, newest first. No `end` means that is all. */
interface Batch {
  readonly seqs: readonly string[];
  readonly end: string | undefined;
  /** How many index entries were read. */
  readonly read: number;
}

/** Reads about `limit` entries. */
export type Source = (before: string, limit: number) => Promise<Batch>;

export const everything: Range = { kind: 'all', a: '', b: '' };
export const ofType = (type: string): Range => ({ kind: 'type', a: type, b: '' });
export const withEntry = ([name, value]: [string, string]): Range => ({
  kind: 'metadata',
  a: name,
  b: value,
});
export const isEverything = ({ container, id }: Scope) => !container && !id;

/** A container itself, and what lies below it unless the scope is exact. */
export function inContainer({ container }: Scope): Range[] {
  const { value, exact } = container as Bound;
  return (exact ? ['1'] : ['1', '0']).map((own) => ({ kind: 'container', a: value, b: own }));
}

/**
 * Every source holds all tokens of the list. The best one gets furthest with a few entries. The indexes of types and
 * metadata also hold hidden tokens, and a page that ends early would reveal them: only a caller that sees every token
 * is served from those.
 */
export async function sourceOf(scan: Scan, { visible, filter, before = top }: TokenQuery): Promise<Source> {
  if (filter.ids) return fromSet(await seqsOfIds(scan, filter.ids));
  const ofScopes = await sourceOfScopes(scan, visible.scopes);
  const types = filter.type === undefined ? [] : [ofType(filter.type)];
  const entries = Object.entries(filter.metadata ?? {}).map(withEntry);
  if (types.length + entries.length === 0 || !visible.exact || !visible.scopes.some(isEverything))
    return ofScopes;
  let [best, end] = [ofScopes, (await ofScopes(before, scan.budget.probe)).end];
  for (const ranges of [types, entries]) {
    const found = await readRanges(scan, ranges, before, scan.budget.probe);
    for (const [at, seqs] of found.entries()) {
      const last = seqs.length < scan.budget.probe ? '' : (seqs.at(-1) as string);
      if (end === undefined || end <= last) continue;
      [best, end] = [fromRanges(scan, [ranges[at] as Range]), last];
    }
  }
  return best;
}

async function sourceOfScopes(scan: Scan, scopes: readonly Scope[]): Promise<Source> {
  const all = fromRanges(scan, [everything]);
  if (scopes.some(isEverything)) return all;
  const ids = scopes.flatMap(({ id }) => (id?.exact ? [id.value] : []));
  const starts = scopes.filter(({ id }) => id && !id.exact);
  const few = await seqsOfStarts(scan, starts);
  const many = starts.filter((_, at) => few[at] === undefined);
  if (many.some(({ container }) => !container)) return all;
  const ranges = [...many, ...scopes.filter(({ id }) => !id)].flatMap(inContainer);
  const set = [...(await seqsOfIds(scan, ids)), ...few.flatMap((seqs) => seqs ?? [])];
  return merged(fromSet(set), fromRanges(scan, ranges));
}

function merged(a: Source, b: Source): Source {
  return async (before, limit) => {
    const [left, right] = [await a(before, limit), await b(before, limit)];
    const ends = [left.end, right.end].filter((end) => end !== undefined);
    const end = ends.length === 0 ? undefined : (ends.sort().at(-1) as string);
    return { seqs: downTo(end, [...left.seqs, ...right.seqs]), end, read: left.read + right.read };
  };
}

/** Without duplicates, newest first. */
function downTo(end: string | undefined, seqs: readonly string[]): string[] {
  const complete = end === undefined ? seqs : seqs.filter((seq) => seq >= end);
  return [...new Set(complete)].sort().reverse();
}

function fromSet(seqs: readonly string[]): Source {
  const sorted = downTo(undefined, seqs);
  return async (before, limit) => {
    const left = sorted.filter((seq) => seq < before);
    const some = left.slice(0, limit);
    return { seqs: some, end: some.length < left.length ? some.at(-1) : undefined, read: 0 };
  };
}

/**
 * Merges ranges. Of those that are read only in part, the list is complete down to where the first of them ends.
 * Entries below that are buffered for the next call, which must continue where this one ended or above.
 */
function fromRanges(scan: Scan, ranges: readonly Range[]): Source {
  const known = ranges.map((range) => ({ range, seqs: [] as string[], isRead: false }));
  return async (before, limit) => {
    for (const one of known) one.seqs = one.seqs.filter((seq) => seq < before);
    const empty = known.filter(({ seqs, isRead }) => seqs.length === 0 && !isRead);
    const each = Math.max(1, Math.min(limit, Math.floor(scan.budget.scan / ranges.length)));
    const some = empty.map(({ range }) => range);
    const found = await readRanges(scan, some, before, each);
    for (const [at, one] of empty.entries()) {
      one.seqs = found[at] as string[];
      one.isRead = one.seqs.length < each;
    }
    const ends = known.flatMap(({ seqs, isRead }) => (isRead ? [] : [seqs.at(-1) as string]));
    const end = ends.length === 0 ? undefined : ends.sort().at(-1);
    return {
      seqs: downTo(
        end,
        known.flatMap(({ seqs }) => seqs),
      ),
      end,
      read: found.flat().length,
    };
  };
}

async function seqsOfIds(scan: Scan, ids: readonly string[]): Promise<string[]> {
  if (ids.length === 0) return [];
  const params = new Params();
  const sql = `select t.seq from tokens t where t.tenant_id = ${params.add(scan.tenant)}
    and t.id in ${params.list([...new Set(ids)])}`;
  return (await scan.db.all<{ seq: string }>(sql, params.values)).map(({ seq }) => seq);
}

/** Of each start of an id, all tokens that have it; undefined where there are too many. */
async function seqsOfStarts(scan: Scan, scopes: readonly Scope[]): Promise<(string[] | undefined)[]> {
  const limit = Math.max(1, Math.floor(scan.budget.scan / Math.max(1, scopes.length)));
  const starts = scopes.map(({ id }) => (id as Bound).value);
  const found = await readStarts(scan, starts, limit);
  return found.map((seqs) => (seqs.length < limit ? seqs : undefined));
}

/** Every character of an id sorts before "~", so this is all that starts with the value. */
const starting = (from: string, to: string) =>
  `select t.seq from tokens t where t.tenant_id = $1 and t.id >= ${from} and t.id < ${to} limit $2`;
const oneStart = starting('$3', '$4');
const manyStarts = `select s.number, e.seq
  from json_to_recordset(cast(cast($3 as text) as json)) as s (number integer, a text, b text)
  cross join lateral (${starting('s.a', 's.b')}) e`;

async function readStarts(scan: Scan, starts: readonly string[], limit: number): Promise<string[][]> {
  const found: string[][] = starts.map(() => []);
  if (scan.db.dialect === 'postgres' && starts.length > 1) {
    const json = JSON.stringify(starts.map((start, number) => ({ number, a: start, b: `${start}~` })));
    const rows = await scan.db.all<{ number: number; seq: string }>(manyStarts, [scan.tenant, limit, json]);
    for (const { number, seq } of rows) found[number]?.push(seq);
    return found;
  }
  for (const [number, start] of starts.entries()) {
    const rows = await scan.db.all<{ seq: string }>(oneStart, [scan.tenant, limit, start, `${start}~`]);
    found[number] = rows.map(({ seq }) => seq);
  }
  return found;
}
