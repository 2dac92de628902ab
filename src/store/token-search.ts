/**
 * The search index of tokens. Values are stored as an HMAC under the search key of the tenant, which is derived from its
 * data key and a version. A rotation increments the version; tokens are then indexed again in the background. Until all
 * are, searches look for the digests of both versions. Transactions that write digests lock the version, so that no
 * older digest is written after a rotation.
 */

import { createHmac } from 'node:crypto';
import { type Db, type Queries, rowLock } from '../db/db.ts';
import type { Keyring } from '../db/keys/keyring.ts';
import { everyTenant, type Params } from '../db/sql.ts';
import { target } from '../db/statement.ts';
import { canonicalContainer } from '../domain/rule.ts';
import { renderSearch, type SearchTemplates, type SearchValues } from '../domain/search.ts';
import { columns, decryptPart, type TokenRow } from './token-row.ts';

/** The digests of one name and value, by version of the key, oldest first. */
export type Term = readonly string[];

/** The versions of the search key that the index has, oldest first. The last one is for new rows. */
export async function searchVersions(tx: Pick<Queries, 'get'>, tenant: string, lock = ''): Promise<number[]> {
  const row = await tx.get<{ search_version: number; reindexing: number }>(
    `select search_version, reindexing from data_keys where tenant_id = $1 ${lock}`,
    [tenant],
  );
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

/** Indexes the values of a token with the version in its row. */
export async function indexSearch(
  tx: Queries,
  dataKey: Uint8Array,
  row: TokenRow,
  values: SearchValues = {},
): Promise<void> {
  const { tenant_id, seq, search_version } = row;
  if (search_version === null) return;
  const container = canonicalContainer(row.container);
  const digests = termsOf(dataKey, tenant_id, [search_version], values).flat();
  await tx.insert(
    searchTable,
    digests.map((digest) => ({ tenant_id, digest, container, seq })),
  );
}

/** Replaces the index rows of a changed token. Without `values`, those that it has move with it. */
export async function updateSearch(
  tx: Queries,
  dataKey: Uint8Array,
  old: TokenRow,
  row: TokenRow,
  values: SearchValues | undefined,
): Promise<void> {
  const ofToken = [row.tenant_id, row.seq];
  if (values === undefined && row.search !== null) {
    const own = canonicalContainer(row.container);
    if (own === canonicalContainer(old.container)) return;
    const sql = 'update token_search set container = $3 where tenant_id = $1 and seq = $2';
    await tx.run(sql, [...ofToken, own]);
    return;
  }
  if (old.search !== null)
    await tx.run('delete from token_search where tenant_id = $1 and seq = $2', ofToken);
  await indexSearch(tx, dataKey, row, values);
}

/** Makes other transactions that call this for the same value and container wait until this one ends. */
export async function lockValue(tx: Queries, tenant: string, container: string, term: Term): Promise<void> {
  if (tx.isEmbedded) return;
  const key = [tenant, term.at(-1) as string, container];
  await tx.run(
    'insert into search_locks (tenant_id, digest, container) values ($1, $2, $3) on conflict do nothing',
    key,
  );
  await tx.run('delete from search_locks where tenant_id = $1 and digest = $2 and container = $3', key);
}

/** SQL for whether the token `t` is indexed with the term. */
export function hasTerm(params: Params, tenant: string, term: Term): string {
  return `(select 1 from token_search p where p.tenant_id = ${tenant} and p.digest in ${params.list(term)}
    and p.container = t.container_folded and p.seq = t.seq limit 1) = 1`;
}

/** Returns false if the previous rotation has not ended, or if the tenant never had a data key. */
export async function rotateSearchKey(tx: Pick<Queries, 'run'>, tenant: string): Promise<boolean> {
  const sql = `update data_keys set search_version = search_version + 1, reindexing = 1
    where tenant_id = $1 and reindexing = 0`;
  return (await tx.run(sql, [tenant])) > 0;
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
  const rotated = await db.all<{ tenant_id: string; search_version: number }>(
    everyTenant('select tenant_id, search_version from data_keys where reindexing = 1 limit 100'),
  );
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
  const outdated = await tx.all<TokenRow & { data_bytes: number }>(
    `select ${columns}, t.data_bytes from tokens t where t.tenant_id = $1 and t.search_version < $2
     limit $3 ${rowLock(tx, 'for update skip locked')}`,
    [tenant, version, maxTokens],
  );
  let [indexed, bytes] = [0, 0];
  for (const old of outdated) {
    bytes += old.data_bytes;
    if (indexed++ > 0 && bytes > maxBytes) return indexed - 1;
    const content = await tx.get<{ data: Uint8Array }>(
      'select data from token_contents where tenant_id = $1 and seq = $2',
      [tenant, old.seq],
    );
    const data = decryptPart(key, old, 'data', content?.data ?? null)?.value();
    const values = renderSearch(JSON.parse(old.search as string) as SearchTemplates, data);
    await updateSearch(tx, key, old, { ...old, search_version: version }, values);
    const sql = 'update tokens set search_version = $3 where tenant_id = $1 and seq = $2';
    await tx.run(sql, [tenant, old.seq, version]);
  }
  return indexed;
}

/** Does nothing if a token is left. */
async function endRotation(db: Db, tenant: string, version: number): Promise<void> {
  await db.run(
    `update data_keys set reindexing = 0 where tenant_id = $1 and search_version = $2 and (select 1 from tokens t
       where t.tenant_id = $1 and t.search_version < $2 limit 1) is null`,
    [tenant, version],
  );
}
