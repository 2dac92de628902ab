/**
 * Finds the tokens of a list in bounded steps. Candidates come from the index with the fewest entries, newest first.
 * Each is checked by the same decision as a single read. When the budget is used up, the page is short and the list
 * continues with the next request. So the cost of a request does not depend on how many tokens are hidden.
 */

import { all, Params, padded } from '../../db/sql.ts';
import { firstIdAt } from '../../domain/key.ts';
import type { Allowed } from '../../domain/policy.ts';
import { nextTurn } from '../../domain/steps.ts';
import { notExpired } from '../applications.ts';
import { countBudget, maxId, scanBudget } from '../bounded-list.ts';
import type { DecidedBy, TokenFilter, TokenQuery } from '../store.ts';
import { metadataDigest } from '../token-index.ts';
import { hasTerm, type Term } from '../token-search.ts';
import { type Budget, countRanges, type Range, type Scan } from './ranges.ts';
import {
  everything,
  inContainer,
  isEverything,
  ofType,
  type Source,
  sourceOf,
  withEntry,
} from './sources.ts';

const defaultBudget: Budget = { scan: scanBudget, count: countBudget, chunk: 512, probe: 128 };

/** A token that may be listed, without its content. `data`, `masked` and `rest` are sizes in bytes. */
export interface Candidate extends DecidedBy {
  readonly seq: string;
  readonly data: number | string;
  readonly masked: number | string;
  readonly rest: number | string;
}

export interface VisibleToken extends Candidate {
  readonly verdict: Allowed;
}

export interface FoundTokens {
  readonly tokens: readonly VisibleToken[];
  /** The next page starts below this `seq`; undefined at the end of the list. */
  readonly next: string | undefined;
  /**
   * The number of tokens in the whole list. Undefined without a page number, or if the budget did not suffice to count
   * them.
   */
  readonly total: number | undefined;
  /** Whether the budget was used up before the page was reached. */
  readonly tooDeep: boolean;
}

export async function findTokens(
  db: Scan['db'],
  tenant: string,
  query: TokenQuery,
  budget = defaultBudget,
  terms?: readonly Term[],
): Promise<FoundTokens> {
  const { filter, decide, size, page } = query;
  // The time of creation is the first part of `seq`.
  const { createdAfter = 0, createdBefore } = filter;
  const to = createdBefore === undefined ? maxId : firstIdAt(createdBefore);
  const scan = { db, tenant, budget, from: firstIdAt(createdAfter), to, terms };
  const before = query.before !== undefined && query.before < to ? query.before : to;
  const skip = page === undefined ? 0 : (page - 1) * size;
  const countable = page === undefined ? undefined : countableRanges(query);
  await nextTurn();
  const counted = countable && (await countRanges(scan, countable));
  const none = { tokens: [], next: undefined, tooDeep: false };
  if (query.visible.scopes.length === 0) return { ...none, total: page && 0 };
  if (counted !== undefined && skip >= counted) return { ...none, total: counted };

  const walk = walkThrough(scan, filter, await sourceOf(scan, { ...query, before }));
  const limit =
    counted !== undefined
      ? Math.max(counted * readsPerEntry, budget.scan)
      : countable
        ? budget.count
        : budget.scan;
  const wanted = skip + size + 1;
  /** Whether the page is full and no total has to be counted. */
  const isEnough = (matches: number) => matches >= wanted && (page === undefined || countable !== undefined);
  const shown: VisibleToken[] = [];
  let [matches, below]: [number, string | undefined] = [0, before];
  while (below !== undefined && walk.spent < limit && !isEnough(matches)) {
    const step = await walk.step(below, walk.spent === 0 ? size + 1 : budget.chunk, limit);
    for (const candidate of step.candidates) {
      const verdict = decide(candidate);
      if (!verdict) continue;
      matches++;
      if (matches > skip && matches <= wanted) shown.push({ ...candidate, verdict });
    }
    below = step.end;
  }
  const rest = shown.length > size ? shown[size - 1]?.seq : below;
  return {
    tokens: shown.slice(0, size),
    next: rest,
    total: counted ?? (page !== undefined && below === undefined ? matches : undefined),
    tooDeep: skip > 0 && matches <= skip && below !== undefined,
  };
}

/**
 * The budget per counted token that is enough to reach the end of the list. A token counts when its index entry is read
 * and again as a candidate, and steps are uneven.
 */
const readsPerEntry = 4;

/**
 * Ranges that do not overlap and whose entries are exactly the tokens of the list, so that the tokens can be counted
 * without checking each one. Returns undefined if such ranges do not exist.
 */
function countableRanges({ visible: { scopes, exact }, filter }: TokenQuery): Range[] | undefined {
  const { ids, type, metadata = {} } = filter;
  const filters = [...(type === undefined ? [] : [ofType(type)]), ...Object.entries(metadata).map(withEntry)];
  if (!exact || ids) return undefined;
  if (scopes.some(isEverything)) return filters.length <= 1 ? [filters[0] ?? everything] : undefined;
  return filters.length === 0 && scopes.every(({ id }) => !id) ? scopes.flatMap(inContainer) : undefined;
}

/** Finds candidates step by step. `spent` is the part of the budget that was used. */
function walkThrough(scan: Scan, filter: TokenFilter, source: Source) {
  /** The budget that one candidate uses: its row, and an index entry for each metadata pair of the filter. */
  const cost = 1 + pairsOf(filter).length + (scan.terms?.length ?? 0);
  const walk = { spent: 0, step };

  async function step(before: string, limit: number, budget: number) {
    if (walk.spent > 0) await nextTurn();
    const max = Math.min(limit, scan.budget.chunk, Math.ceil((budget - walk.spent) / cost));
    const { seqs, end, read } = await source(before, max);
    const some = seqs.slice(0, max);
    walk.spent += Math.max(1, read, some.length * cost);
    const candidates = await candidatesOf(scan, some, filter);
    return { candidates, end: some.length < seqs.length ? some.at(-1) : end };
  }

  return walk;
}

function pairsOf({ metadata = {} }: TokenFilter): readonly [name: string, value: string][] {
  return padded(Object.entries(metadata));
}

/** Tokens that have not expired and pass the filter, newest first. */
async function candidatesOf(
  { db, tenant, terms = [] }: Scan,
  seqs: readonly string[],
  filter: TokenFilter,
): Promise<Candidate[]> {
  if (seqs.length === 0) return [];
  const params = new Params();
  const owner = params.add(tenant);
  const pairs = pairsOf(filter).map(
    (entry) => `(select 1 from token_metadata p where p.tenant_id = ${owner}
      and p.digest = ${params.add(metadataDigest(entry))} and p.seq = t.seq) = 1`,
  );
  const where = all(
    `t.tenant_id = ${owner}`,
    `t.seq in ${params.list(seqs)}`,
    notExpired('t'),
    filter.type !== undefined && `t.type = ${params.add(filter.type)}`,
    ...pairs,
    ...terms.map((term) => hasTerm(params, owner, term)),
  );
  const sql = `select t.seq, t.id, t.container, t.max_uses, t.data_bytes as data, t.masked_bytes as masked,
      coalesce(octet_length(t.mask), 0) + coalesce(octet_length(t.search), 0)
        + coalesce(octet_length(t.metadata), 0) as rest
    from tokens t where ${where} order by t.seq desc`;
  return db.all<Candidate>(sql, params.values);
}
