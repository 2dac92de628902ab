/**
 * The search index of tokens. Values are stored as an HMAC under the search key of the tenant, which is derived from its
 * data key and a version. A rotation increments the version; tokens are then indexed again in the background. Until all
 * are, searches look for the digests of both versions. Transactions that write digests lock the version, so that no
 * older digest is written after a rotation.
 */

import { createHmac } from 'node:crypto';
import { type Db, type Queries, rowLock } from '../db/db.ts';
import type { Keyring } from '../db/keys/keyring.ts';
import { everyTenant } from '../db/sql.ts';
import { type Clause, clause, list, none, Param, sql, target } from '../db/statement.ts';
import { canonicalContainer } from '../domain/rule.ts';
import { renderSearch, type SearchTemplates, type SearchValues } from '../domain/search.ts';
import { columns, decryptPart, type TokenRow } from './token-row.ts';

/** The digests of one name and value, by version of the key, oldest first. */
export type Term = readonly string[];

/** The versions of the search key that the index has, oldest first. The last one is for new rows. */
export async function searchVersions(
  tx: Pick<Queries, 'get'>,
  tenant: string,
  lock = none,
): Promise<number[]> {
  const row = await tx.get<{ search_version: number; reindexing: number }>(sql`
    select search_version, reindexing from data_keys where tenant_id = ${tenant} ${lock}`);
  if (!row) throw new Error('the tenant has no data key: it was deleted by another program');
  return row.reindexing ? [row.search_version - 1, row.search_version] : [row.search_version];
}

/** Like `searchVersions`. A rotation waits until the transaction ends. */
export function lockSearchVersions(tx: Queries, tenant: string): Promise<number[]> {
  return searchVersions(tx, tenant, rowLock(tx, 'for share'));
}

export function termsOf(
  dataKey: Uint8Array,
  tenant: string,
  versions: readonly number[],
  values: SearchValues,
): Term[] {
  const keys = versions.map((version) => hmac(dataKey, `sallyport search key ${tenant} ${version}`));
  return Object.entries(values).map((entry) =>
    keys.map((key) => hmac(key, JSON.stringify(entry)).toString('base64url')),
  );
}

export function hmac(key: Uint8Array, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest();
}

const searchTable = target<Record<'tenant_id' | 'digest' | 'container' | 'seq', string>>('token_search', {
  tenant_id: 'uuid',
  digest: 'text',
  container: 'text',
  seq: 'uuid',
});

type IndexedValues = readonly [row: TokenRow, values: SearchValues | undefined];

/** Indexes the values of tokens with the version in their rows. */
export async function indexSearch(
  tx: Queries,
  dataKey: Uint8Array,
  ...tokens: readonly IndexedValues[]
): Promise<void> {
  const rows = tokens.flatMap(([{ tenant_id, seq, search_version, container: given }, values = {}]) => {
    if (search_version === null) return [];
    const container = canonicalContainer(given);
    const digests = termsOf(dataKey, tenant_id, [search_version], values).flat();
    return digests.map((digest) => ({ tenant_id, digest, container, seq }));
  });
  if (rows.length > 0) await tx.insert(searchTable, rows);
}

/** Replaces the index rows of a changed token. Without `values`, those that it has move with it. */
export async function updateSearch(
  tx: Queries,
  dataKey: Uint8Array,
  old: TokenRow,
  row: TokenRow,
  values: SearchValues | undefined,
): Promise<void> {
  const ofToken = clause`tenant_id = ${row.tenant_id} and seq = ${row.seq}`;
  if (values === undefined && row.search !== null) {
    const own = canonicalContainer(row.container);
    if (own === canonicalContainer(old.container)) return;
    await tx.run(sql`update token_search set container = ${own} where ${ofToken}`);
    return;
  }
  if (old.search !== null) await tx.run(sql`delete from token_search where ${ofToken}`);
  await indexSearch(tx, dataKey, [row, values]);
}

/** Makes other transactions that call this for the same value and container wait until this one ends. */
export async function lockValue(tx: Queries, tenant: string, container: string, term: Term): Promise<void> {
  if (tx.isEmbedded) return;
  const digest = term.at(-1);
  await tx.run(sql`
    insert into search_locks (tenant_id, digest, container) values (${tenant}, ${digest}, ${container})
      on conflict do nothing`);
  await tx.run(sql`
    delete from search_locks where tenant_id = ${tenant} and digest = ${digest} and container = ${container}`);
}

/** SQL for whether the token `t` is indexed with the term. */
export function hasTerm(tenant: Param, term: Term): Clause {
  return clause`(select 1 from token_search p where p.tenant_id = ${tenant} and p.digest in ${list(term)}
    and p.container = t.container_folded and p.seq = t.seq limit 1) = 1`;
}

/** Returns false if the previous rotation has not ended, or if the tenant never had a data key. */
export async function rotateSearchKey(tx: Pick<Queries, 'run'>, tenant: string): Promise<boolean> {
  return (
    (await tx.run(sql`update data_keys set search_version = search_version + 1, reindexing = 1
      where tenant_id = ${tenant} and reindexing = 0`)) > 0
  );
}

/** Limits of one transaction. */
const maxTokens = 50;
const maxBytes = 256 * 1024;
/** How long to pause, as a multiple of the time that a call has taken. */
const pauseFactor = 3;

/**
 * Indexes tokens with the current search key, some of each tenant whose key was rotated. Returns their number. Skips
 * tokens that another transaction has locked, and pauses before it returns. Any node may call this.
 */
export async function reindexTokens(db: Db, dataKey: Keyring['dataKey']): Promise<number> {
  const rotated = await db.all<{ tenant_id: string; search_version: number }>(sql`
    select tenant_id, search_version from data_keys where reindexing = 1 limit 100 ${everyTenant}`);
  const began = performance.now();
  let total = 0;
  for (const { tenant_id: tenant, search_version: version } of rotated) {
    const key = await dataKey(tenant);
    const indexed = await db.transaction((tx) => reindexSome(tx, key, tenant, version));
    if (indexed === 0) await endRotation(db, tenant, version);
    total += indexed;
  }
  // Requests get most of the time of the database until the next call.
  if (total > 0) await Bun.sleep(pauseFactor * (performance.now() - began));
  return total;
}

async function reindexSome(tx: Queries, key: Uint8Array, tenant: string, version: number): Promise<number> {
  const outdated = await tx.all<TokenRow & { data_bytes: number }>(sql`
    select ${columns}, t.data_bytes from tokens t where t.tenant_id = ${tenant} and t.search_version < ${version}
     limit ${maxTokens} ${rowLock(tx, 'for update skip locked')}`);
  let [indexed, bytes] = [0, 0];
  for (const old of outdated) {
    bytes += old.data_bytes;
    if (indexed++ > 0 && bytes > maxBytes) return indexed - 1;
    const content = await tx.get<{ data: Uint8Array }>(sql`
      select data from token_contents where tenant_id = ${tenant} and seq = ${old.seq}`);
    const data = decryptPart(key, old, 'data', content?.data ?? null)?.value();
    const values = renderSearch(JSON.parse(old.search as string) as SearchTemplates, data);
    await updateSearch(tx, key, old, { ...old, search_version: version }, values);
    await tx.run(sql`
      update tokens set search_version = ${version} where tenant_id = ${tenant} and seq = ${old.seq}`);
  }
  return indexed;
}

/** Does nothing if a token is left. */
async function endRotation(db: Db, tenant: string, version: number): Promise<void> {
  const owner = new Param(tenant);
  await db.run(sql`update data_keys set reindexing = 0
    where tenant_id = ${owner} and search_version = ${version} and (select 1 from tokens t
     where t.tenant_id = ${owner} and t.search_version < ${version} limit 1) is null`);
}
