/**
 * Finds the tokens of a list in bounded steps. Candidates come from the index with the fewest entries, in the order of the list.
 * Each is checked by the same decision as a single read. When the budget is used up, the page is short and the list
 * continues with the next request. So the cost of a request does not depend on how many tokens are hidden.
 */

import type { Queries } from '../../db/db.ts';
import { all, type Clause, clause, list as listOf, Param, padded, sql } from '../../db/statement.ts';
import { firstIdAt } from '../../domain/key.ts';
import type { Allowed } from '../../domain/policy.ts';
import type { Transform } from '../../domain/rule.ts';
import { nextTurn } from '../../domain/steps.ts';
import { notExpired } from '../applications.ts';
import type {
  DecidedBy,
  ListedToken,
  ListPage,
  Reserve,
  TokenFilter,
  TokenQuery,
  TokenSeqs,
} from '../store.ts';
import { metadataDigest } from '../token-index.ts';
import { columns, decryptPart, type Part, type TokenRow, viewOf, withContents } from '../token-row.ts';
import { hasTerm, searchVersions, type Term, termsOf } from '../token-search.ts';
import {
  batchesOf,
  countBudget,
  directionOf,
  type Found,
  type FoundPage,
  findPage,
  inOrder,
  maxId,
  readBatches,
  type Step,
  scanBudget,
} from './page.ts';
import { type Budget, countRanges, type Range, type TokenScan } from './ranges.ts';
import { everything, inContainer, isEverything, ofType, sourceOf, withEntry } from './sources.ts';

const defaultBudget: Budget = { scan: scanBudget, count: countBudget, chunk: 512, probe: 128 };

/** A token that may be listed, without its content. `data`, `masked` and `rest` are sizes in bytes. */
interface Candidate extends DecidedBy, Found {
  readonly data: number | string;
  readonly masked: number | string;
  readonly rest: number | string;
}

interface VisibleToken extends Candidate {
  readonly verdict: Allowed;
}

type Database = TokenScan['db'];

/** Returns one page, with fewer tokens than `size` if their data is large. */
export async function listTokens(
  db: Database,
  tenant: string,
  key: Uint8Array,
  query: TokenQuery,
): Promise<ListPage<ListedToken>> {
  const { rows: found, ...list } = await find(db, tenant, key, query);
  const page = withinBytes(found, query.reserve);
  const isCut = page.length < found.length;
  const next = isCut ? page.at(-1)?.seq : list.next;
  return { ...list, next, isCut, rows: await readTokens(db, tenant, key, page, query) };
}

async function find(
  db: Database,
  tenant: string,
  key: Uint8Array,
  query: TokenQuery,
): Promise<FoundPage<VisibleToken>> {
  const { equals } = query.filter;
  if (!equals) return findTokens(db, tenant, query);
  for (;;) {
    const versions = await searchVersions(db, tenant);
    const found = await findTokens(db, tenant, query, undefined, termsOf(key, tenant, versions, equals));
    // If a rotation began during the search, some tokens may have been indexed with its key before they were read.
    if ((await searchVersions(db, tenant)).at(-1) === versions.at(-1)) return found;
  }
}

/** Returns tokens with at most 8 MiB in the database, and at least one if there is any. */
export async function findSeqs(db: Database, tenant: string, query: TokenQuery): Promise<TokenSeqs> {
  const { rows: found, next } = await findTokens(db, tenant, query);
  const bytesOf = ({ data, masked, rest }: Candidate) =>
    fixedBytes + Number(data) + Number(masked) + Number(rest);
  const [{ rows } = { rows: [] }] = batchesOf(found, bytesOf, maxPageBytes);
  return { seqs: rows.map(({ seq }) => seq), next: rows.length < found.length ? rows.at(-1)?.seq : next };
}

export async function findTokens(
  db: Database,
  tenant: string,
  query: TokenQuery,
  budget = defaultBudget,
  terms?: readonly Term[],
): Promise<FoundPage<VisibleToken>> {
  const { filter, decide, size, page, order } = query;
  const direction = directionOf(query);
  // The time of creation is the first part of `seq`.
  const { createdAfter = 0, createdBefore } = filter;
  const to = createdBefore === undefined ? maxId : firstIdAt(createdBefore);
  const from = firstIdAt(createdAfter);
  const [first, last] = order === 'oldest' ? [from, to] : [to, from];
  const scan = { db, tenant, budget, direction, first, last, terms };
  const start = query.start !== undefined && direction.precedes(first, query.start) ? query.start : first;
  const skip = page === undefined ? 0 : (page - 1) * size;
  const countable = page === undefined ? undefined : countableRanges(query);
  await nextTurn();
  const counted = countable && (await countRanges(scan, countable));
  const none = { rows: [], next: undefined, tooDeep: false };
  if (query.visible.scopes.length === 0) return { ...none, total: page && 0 };
  if (counted !== undefined && skip >= counted) return { ...none, total: counted };

  const source = await sourceOf(scan, query, start);
  const limit =
    counted !== undefined
      ? Math.max(counted * readsPerEntry, budget.scan)
      : countable
        ? budget.count
        : budget.scan;
  /** The budget that one candidate uses: its row, and an index entry for each metadata pair of the filter. */
  const cost = 1 + pairsOf(filter).length + (terms?.length ?? 0);
  let spent = 0;

  async function step(after: string, skip: number, max: number): Promise<Step<VisibleToken>> {
    const few = Math.min(spent === 0 ? size + 1 : budget.chunk, budget.chunk);
    const entries = Math.min(few, Math.ceil((limit - spent) / cost));
    const { seqs, end, read } = await source(after, entries);
    const some = seqs.slice(0, entries);
    const examined = Math.max(1, read, some.length * cost);
    spent += examined;
    const found: VisibleToken[] = [];
    let matches = 0;
    for (const candidate of await candidatesOf(scan, some, filter)) {
      const verdict = decide(candidate);
      if (verdict && matches++ >= skip && found.length < max) found.push({ ...candidate, verdict });
    }
    return { found, matches, examined, end: some.length < seqs.length ? some.at(-1) : end };
  }

  const total = counted ?? (countable ? 'too many' : undefined);
  return findPage({ limit, total, step }, start, query);
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
  const { ids, type, metadata = {}, equals, expiresBefore, createdBy } = filter;
  const filters = [...(type === undefined ? [] : [ofType(type)]), ...Object.entries(metadata).map(withEntry)];
  if (!exact || ids || equals || createdBy || expiresBefore !== undefined) return undefined;
  if (scopes.some(isEverything)) return filters.length <= 1 ? [filters[0] ?? everything] : undefined;
  return filters.length === 0 && scopes.every(({ id }) => !id) ? scopes.flatMap(inContainer) : undefined;
}

function pairsOf({ metadata = {} }: TokenFilter): readonly [name: string, value: string][] {
  return padded(Object.entries(metadata));
}

/** Tokens that have not expired and pass the filter, in the order of the list. */
async function candidatesOf(
  { db, tenant, direction, terms = [] }: TokenScan,
  seqs: readonly string[],
  filter: TokenFilter,
): Promise<Candidate[]> {
  if (seqs.length === 0) return [];
  const [owner, expiry] = [new Param(tenant), new Param(filter.expiresBefore ?? null)];
  const pairs = pairsOf(filter).map(
    (entry) => clause`(select 1 from token_metadata p where p.tenant_id = ${owner}
      and p.digest = ${metadataDigest(entry)} and p.seq = t.seq) = 1`,
  );
  const where = all(
    clause`t.tenant_id = ${owner}`,
    clause`t.seq in ${listOf(seqs)}`,
    notExpired('t'),
    filter.type !== undefined && clause`t.type = ${filter.type}`,
    filter.createdBy !== undefined && clause`t.created_by = ${filter.createdBy}`,
    // With `coalesce`, no database chooses the index of expiries, which also has hidden tokens.
    filter.expiresBefore !== undefined && clause`coalesce(t.expires_at, ${expiry}) < ${expiry}`,
    ...pairs,
    ...terms.map((term) => hasTerm(owner, term)),
  );
  return db.all<Candidate>(sql`
    select t.seq, t.id, t.container, t.max_uses, t.data_bytes as data, t.masked_bytes as masked,
        coalesce(octet_length(t.mask), 0) + coalesce(octet_length(t.search), 0)
          + coalesce(octet_length(t.metadata), 0) as rest
      from tokens t where ${where} order by t.seq ${direction.sorted}`);
}

const maxPageBytes = 8 * 1024 * 1024;
/** An upper bound for the size of a token without data, mask and metadata. */
const fixedBytes = 1024;

/** As many tokens as fit into a page, and at least one, for which `reserve` is called. */
function withinBytes(shown: readonly VisibleToken[], reserve?: Reserve): readonly VisibleToken[] {
  let bytes = 0;
  for (const [at, one] of shown.entries()) {
    const more = fixedBytes + Number(one.rest) + bytesToRead(one);
    if (bytes + more > maxPageBytes && at > 0) return withinBytes(shown.slice(0, at), reserve);
    bytes += more;
  }
  // The ciphertexts of one batch are in memory at a time.
  reserve?.(bytes + Math.min(bytes, batchBytes));
  return shown;
}

/** Reading and decrypting this many bytes takes a few milliseconds. Other requests are handled in between. */
const batchBytes = 1024 * 1024;

/** The size of the ciphertext that is shown. */
function bytesToRead({ verdict: { transform }, data, masked }: VisibleToken): number {
  return transform === 'redact' ? 0 : Number(transform === 'reveal' ? data : masked);
}

/** Each transform reads only the ciphertext that it shows. */
const selections: Record<Transform, { rows: Clause; part?: Part }> = {
  reveal: { rows: clause`select ${columns}, c.data as ciphertext from ${withContents()}`, part: 'data' },
  mask: { rows: clause`select ${columns}, c.masked as ciphertext from ${withContents()}`, part: 'masked' },
  redact: { rows: clause`select ${columns}, null as ciphertext from tokens t` },
};

/** Reads the tokens that were found, as their verdicts show them. A token that was moved since is decided about again. */
async function readTokens(
  db: Pick<Queries, 'all'>,
  tenant: string,
  key: Uint8Array,
  found: readonly VisibleToken[],
  { decide, order }: Pick<TokenQuery, 'decide' | 'order'>,
  attempts = 3,
): Promise<ListedToken[]> {
  const bySeq = new Map(found.map((one) => [one.seq, one]));
  const moved: VisibleToken[] = [];
  const byTransform = Map.groupBy(found, ({ verdict }) => verdict.transform);
  const batches = [...byTransform.values()].flatMap((some) => batchesOf(some, bytesToRead, batchBytes));

  function read(batch: readonly VisibleToken[]) {
    const [{ verdict }] = batch as [VisibleToken];
    return db.all<TokenRow & { ciphertext: Uint8Array | null }>(sql`
      ${selections[verdict.transform].rows}
        where t.tenant_id = ${tenant} and t.seq in ${listOf(batch.map(({ seq }) => seq))} and ${notExpired('t')}`);
  }

  function toToken(row: TokenRow & { ciphertext: Uint8Array | null }): ListedToken | undefined {
    const { seq, id, container, max_uses } = row;
    const one = bySeq.get(seq) as VisibleToken;
    const isMoved = container !== one.container || max_uses !== one.max_uses || id !== one.id;
    const verdict = isMoved ? decide(row) : one.verdict;
    if (verdict?.transform === one.verdict.transform) {
      const { part } = selections[verdict.transform];
      return { seq, token: viewOf(row), data: part && decryptPart(key, row, part, row.ciphertext), verdict };
    }
    if (verdict) moved.push({ ...one, id, container, max_uses, verdict });
    return undefined;
  }

  const tokens = await readBatches(batches, batchBytes / 8, read, toToken);
  if (moved.length > 0 && attempts > 1)
    tokens.push(...(await readTokens(db, tenant, key, moved, { decide, order }, attempts - 1)));
  return inOrder(directionOf({ order }), tokens, ({ seq }) => seq);
}
