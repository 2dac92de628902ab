/** The index tables of tokens: by container and by metadata. */

import { createHash } from 'node:crypto';
import type { Executor, Queries } from '../db/db.ts';
import { clause, list, Param, padded, sql, target } from '../db/statement.ts';
import { canonicalContainer } from '../domain/rule.ts';
import type { Metadata } from '../domain/token.ts';
import { notExpired } from './applications.ts';
import { maxId } from './lists/page.ts';
import type { TokenCountScan, TokenCounts } from './store.ts';

interface Indexed {
  readonly tenant_id: string;
  readonly seq: string;
  readonly container: string;
  readonly metadata: string | null;
}

const containerTable = target<ReturnType<typeof containerRows>[number]>('token_containers', {
  tenant_id: 'uuid',
  container: 'text',
  own: 'integer',
  seq: 'uuid',
});
const metadataTable = target<ReturnType<typeof metadataRows>[number]>('token_metadata', {
  tenant_id: 'uuid',
  digest: 'text',
  seq: 'uuid',
});

export async function indexContainers(tx: Queries, ...tokens: readonly Indexed[]): Promise<void> {
  await tx.insert(containerTable, tokens.flatMap(containerRows));
}

export async function indexMetadata(tx: Queries, ...tokens: readonly Indexed[]): Promise<void> {
  await tx.insert(metadataTable, tokens.flatMap(metadataRows));
}

/**
 * Deletes the contents and the index rows of deleted tokens. On SQLite, foreign keys and a trigger delete them. Call
 * this after the tokens were deleted, because before that another transaction could add rows.
 */
export async function deleteTokenRows(
  tx: Queries,
  tokens: readonly Pick<Indexed, 'tenant_id' | 'seq'>[],
): Promise<void> {
  if (tx.isEmbedded) return;
  for (const [tenant, deleted] of Map.groupBy(tokens, ({ tenant_id }) => tenant_id)) {
    const seqs = deleted.map(({ seq }) => seq);
    // Uses one tenant with a list of seqs. With a list of pairs, PostgreSQL would scan the whole table while it is
    // small.
    const [owner, some] = [new Param(tenant), list(padded(seqs).map((seq) => new Param(seq)))];
    const ofTokens = clause`tenant_id = ${owner} and seq in ${some}`;
    await tx.run(sql`with contents as (delete from token_contents where ${ofTokens}),
        metadata as (delete from token_metadata where ${ofTokens}),
        search as (delete from token_search where ${ofTokens})
      delete from token_containers where ${ofTokens}`);
  }
}

/** Writes only the index whose values have changed. */
export async function updateIndex(tx: Queries, old: Indexed, row: Indexed): Promise<void> {
  const sent: unknown[] = [];
  if (canonicalContainer(old.container) !== canonicalContainer(row.container)) {
    const removed = sql`delete from token_containers where tenant_id = ${old.tenant_id} and own in (0, 1)
      and seq = ${old.seq} and container in ${list(containersOf(old))}`;
    sent.push(tx.run(removed), indexContainers(tx, row));
  }
  if (old.metadata !== row.metadata) {
    const removed = sql`delete from token_metadata where tenant_id = ${old.tenant_id} and seq = ${old.seq}`;
    sent.push(tx.run(removed), indexMetadata(tx, row));
  }
  await Promise.all(sent);
}

function containerRows(row: Indexed) {
  const { tenant_id, seq } = row;
  return containersOf(row).map((container, above) => ({ tenant_id, container, own: above ? 0 : 1, seq }));
}

function metadataRows({ tenant_id, seq, metadata }: Indexed) {
  const entries = Object.entries(JSON.parse(metadata ?? '{}') as Metadata);
  return entries.map((entry) => ({ tenant_id, digest: metadataDigest(entry), seq }));
}

/** 128 bits of a hash without a key, because metadata is stored in plaintext. Filters only compare for equality. */
export function metadataDigest(entry: readonly [name: string, value: string]): string {
  return createHash('sha256').update(JSON.stringify(entry)).digest().toString('base64url', 0, 16);
}

/** The container of the token first, then all containers above it except the root, which contains every token. */
export function containersOf({ container }: Pick<Indexed, 'container'>): string[] {
  const own = canonicalContainer(container);
  const containers = [own];
  for (let end = own.lastIndexOf('/', own.length - 2); end > 0; end = own.lastIndexOf('/', end - 1))
    containers.push(own.slice(0, end + 1));
  return containers;
}

interface Row {
  seq: string;
  /** Null if the token has expired. */
  container: string | null;
  max_uses: number | null;
}

const countedColumns = clause`t.seq, case when ${notExpired('t')} then t.container_folded end as container, t.max_uses`;

/** `start` and `next` are positions: `own`, and the lowest seq that was counted. */
export async function countTokens(
  db: Pick<Executor, 'all'>,
  tenant: string,
  { container, limit, start = `1 ${maxId}` }: TokenCountScan,
): Promise<TokenCounts> {
  const [own, before] = start.split(' ') as [string, string];
  const isRoot = container === '/';
  // The index separates the tokens of the container itself (own = 1) from the tokens below it (own = 0).
  const statement = isRoot
    ? sql`select ${countedColumns} from tokens t
        where t.tenant_id = ${tenant} and t.seq < ${before} order by t.seq desc limit ${limit}`
    : sql`select ${countedColumns} from token_containers i join tokens t on t.tenant_id = i.tenant_id and t.seq = i.seq
        where i.tenant_id = ${tenant} and i.seq < ${before} and i.container = ${container} and i.own = ${Number(own)}
        order by i.seq desc limit ${limit}`;
  const found = await db.all<Row>(statement);
  const counted = found.flatMap(({ container, max_uses }) =>
    container === null ? [] : [{ container, max_uses }],
  );
  const groups = Map.groupBy(counted, ({ container, max_uses }) => `${container} ${max_uses !== null}`);
  const counts = [...groups.values()].map((some) => ({ ...some[0]!, count: some.length }));
  const last = found.length === limit ? found.at(-1)?.seq : undefined;
  const below = isRoot || own === '0' ? undefined : `0 ${maxId}`;
  return { counts, next: last === undefined ? below : `${own} ${last}` };
}
