import { type Executor, type Queries, rowLock } from '../db/db.ts';
import type { Keyring } from '../db/keys/keyring.ts';
import {
  all,
  type Bound,
  type Clause,
  clause,
  list,
  lookup,
  Param,
  raw,
  sql,
  type TableName,
} from '../db/statement.ts';
import { bytes, optional, table, uuid } from '../db/table.ts';
import type { JsonText } from '../domain/json-text.ts';
import { newId } from '../domain/key.ts';
import { modificationTime, tokenVersion } from '../domain/row-version.ts';
import { canonicalContainer } from '../domain/rule.ts';
import type { SearchValues } from '../domain/search.ts';
import { pauses } from '../domain/steps.ts';
import {
  chargeOf,
  checkGrowth,
  deleteAllowed,
  deleteTokens,
  storageUsedBy,
  storedBytes,
  writeCharges,
} from './application-storage.ts';
import { notExpired } from './applications.ts';
import { findSeqs, listTokens } from './lists/tokens.ts';
import type { Reserve } from './records.ts';
import type {
  Change,
  LockedToken,
  TokenContent,
  TokenLocation,
  TokenRecord,
  TokenRevision,
  Tokens,
} from './store.ts';
import {
  containersOf,
  countTokens,
  deleteTokenRows,
  indexContainers,
  indexMetadata,
  updateIndex,
} from './token-index.ts';
import {
  type Ciphertexts,
  columns,
  columnsIfSmall,
  contentCost,
  decryptPart,
  encryptContent,
  type Part,
  type RowIfSmall,
  type SizedRow,
  type TokenRow,
  tokenTable,
  toRecord,
  wholeToken,
  withContents,
} from './token-row.ts';
import {
  hasTerm,
  indexSearch,
  lockSearchVersions,
  lockValue,
  type Term,
  termsOf,
  updateSearch,
} from './token-search.ts';

export const contentsTable = table('token_contents', {
  tenant_id: uuid,
  seq: uuid,
  masked: optional(bytes),
  data: bytes,
});

const lookupOf = <R>(selected: Clause, from: (table: TableName) => Clause) =>
  lookup<R>(
    'text',
    (key, tenant, table) => clause`select t.id as key, ${selected} from ${from(table)}
      where t.id = ${key} and t.tenant_id = ${tenant} and ${notExpired('t')}`,
  );
const tokenById = lookupOf<RowIfSmall>(columnsIfSmall, withContents);
const recordById = lookupOf<TokenRow>(columns, (table) => clause`${table('tokens')} t`);

export function tokens(db: Executor, dataKey: Keyring['dataKey']): Tokens {
  /** Deferred to the end of the transaction, where all charges of one application are added up. */
  const charge = (...charged: Parameters<typeof chargeOf>) => db.defer(writeCharges, chargeOf(...charged));

  return {
    storageUsed: (tenant, application) => storageUsedBy(db, tenant, application),

    create: async (tenant, id, content, change) => {
      const key = await dataKey(tenant);
      const created = newRow(key, tenant, id, content, change);
      const row = await db.transaction(async (tx) => {
        const row = { ...created, search_version: await searchVersion(tx, tenant, content) };
        if (!(await insert(tx, row)) && !(await insertInsteadOfExpired(tx, row))) return undefined;
        await indexMetadata(tx, row);
        await indexSearch(tx, key, [row, content.searchValues]);
        return row;
      });
      if (!row) return undefined;
      await charge(row, 1, row.bytes);
      return toRecord(row);
    },

    createAll: async (tenant, tokens, change, quota) => {
      const made = await createAll(db, await dataKey(tenant), tenant, tokens, change, quota);
      if ('taken' in made) return made;
      if (made.rows[0]) await charge(made.rows[0], made.rows.length, made.bytes);
      return { created: made.rows.map(toRecord) };
    },

    findEqual: async (tenant, container, values, writers, reserve) => {
      const key = await dataKey(tenant);
      return db.transaction(async (tx) => {
        const row = await lockEqual(tx, key, tenant, container, values, writers);
        return row && wholeToken(tx, row, key, reserve);
      });
    },

    get: async (tenant, id, reserve) => {
      const key = await dataKey(tenant);
      const row = await db.lookup(tokenById, id, tenant);
      return row && wholeToken(db, row, key, reserve);
    },

    version: async (tenant, id) => {
      const row = await db.lookup(recordById, id, tenant);
      return row && tokenVersion(toRecord(row));
    },

    locate: (tenant, ids) => locate(db, tenant, ids),
    count: (tenant, scan) => countTokens(db, tenant, scan),
    list: async (tenant, query) => listTokens(db, tenant, await dataKey(tenant), query),
    find: (tenant, query) => findSeqs(db, tenant, query),
    deleteAll: (tenant, seqs, mayDelete) => deleteAllowed(db, tenant, seqs, mayDelete),

    update: async (tenant, id, change, revise, quota, reserve) => {
      const key = await dataKey(tenant);
      const updated = await db.transaction(async (tx) => {
        const old = await lock(tx, tenant, id);
        if (!old) return undefined;
        const revision = await revise(lockedToken(tx, old, key, reserve));
        return writeRevision(tx, key, old, revision, change, quota);
      });
      if (updated?.growth) await charge(updated.row, 0, updated.growth);
      return updated && toRecord(updated.row);
    },

    delete: async (tenant, id, check) => {
      const deleted = await withLocked(db, tenant, id, check, remove);
      if (deleted) await charge(deleted, -1, -deleted.bytes);
      return deleted !== undefined;
    },

    spendUse: async (tenant, id, check) => {
      const spent = await withLocked(db, tenant, id, check, spend);
      if (spent?.deleted) await charge(spent.deleted, -1, -spent.deleted.bytes);
      return spent?.left;
    },
  };
}

async function lock(tx: Queries, tenant: string, id: string): Promise<SizedRow | undefined> {
  return tx.get<SizedRow>(sql`select ${columns}, t.data_bytes, t.masked_bytes, t.bytes from tokens t
    where t.tenant_id = ${tenant} and t.id = ${id} and ${notExpired('t')} ${rowLock(tx, 'for update')}`);
}

/** Locks the token and checks it, then changes it. Returns undefined if it does not exist. */
function withLocked<T>(
  db: Executor,
  tenant: string,
  id: string,
  check: (current: TokenRecord) => void,
  change: (tx: Queries, row: SizedRow) => Promise<T>,
): Promise<T | undefined> {
  return db.transaction(async (tx) => {
    const row = await lock(tx, tenant, id);
    if (!row) return undefined;
    check(toRecord(row));
    return change(tx, row);
  });
}

async function remove(tx: Queries, row: SizedRow): Promise<SizedRow> {
  await tx.run(sql`delete from tokens where tenant_id = ${row.tenant_id} and seq = ${row.seq}`);
  await deleteTokenRows(tx, [row]);
  return row;
}

async function spend(tx: Queries, row: SizedRow) {
  const left = (row.max_uses ?? 0) - row.uses - 1;
  if (left <= 0) return { left: 0, deleted: await remove(tx, row) };
  await tx.run(sql`
    update tokens set uses = uses + 1 where tenant_id = ${row.tenant_id} and seq = ${row.seq}`);
  return { left, deleted: undefined };
}

async function locate(db: Queries, tenant: string, ids: readonly string[]): Promise<TokenLocation[]> {
  return db.all<TokenLocation>(sql`select t.id, t.type, t.container, t.max_uses, t.created_by from tokens t
    where t.tenant_id = ${tenant} and t.id in ${list(ids)} and ${notExpired('t')}`);
}

/** Returns the new row, and by how many bytes it is larger. */
async function writeRevision(
  tx: Queries,
  key: Uint8Array,
  old: SizedRow,
  revision: TokenRevision,
  change: Change,
  quota: number | undefined,
): Promise<{ row: SizedRow; growth: number }> {
  const { tenant_id: tenant } = old;
  const indexes = revision.data !== undefined || revision.search === undefined;
  const search_version = indexes ? await searchVersion(tx, tenant, revision) : old.search_version;
  const row = { ...revisedRow(key, old, revision, change), search_version };
  const growth = row.bytes - old.bytes;
  await checkGrowth(tx, tenant, row.created_by, growth, quota);
  const values = indexes ? (revision.searchValues ?? {}) : undefined;
  const writes = [update(tx, old, row), updateIndex(tx, old, row), updateSearch(tx, key, old, row, values)];
  await Promise.all(writes);
  return { row, growth };
}

/** The version of the search key for a token. Null without templates. */
async function searchVersion(
  tx: Queries,
  tenant: string,
  { search }: Pick<TokenRevision, 'search'>,
): Promise<number | null> {
  return search ? ((await lockSearchVersions(tx, tenant)).at(-1) as number) : null;
}

async function lockEqual(
  tx: Queries,
  key: Uint8Array,
  tenant: string,
  container: string,
  values: SearchValues,
  writers: readonly string[],
): Promise<RowIfSmall | undefined> {
  const own = canonicalContainer(container);
  const terms = termsOf(key, tenant, await lockSearchVersions(tx, tenant), values);
  for (const term of terms) await lockValue(tx, tenant, own, term);
  const owner = new Param(tenant);
  const [first, ...others] = terms as [Term, ...Term[]];
  return tx.get<RowIfSmall>(sql`select ${columnsIfSmall} from token_search s
      join tokens t on t.tenant_id = s.tenant_id and t.seq = s.seq
      left join token_contents c on c.tenant_id = t.tenant_id and c.seq = t.seq
    where s.tenant_id = ${owner} and s.container = ${own} and s.digest in ${list(first)}
      and (t.written_by in ${list(writers)} or t.written_by like 'management %')
      and ${all(notExpired('t'), ...others.map((term) => hasTerm(owner, term)))}
    order by s.seq desc limit 1`);
}

type NewTokenRow = Omit<ReturnType<typeof newRow>, 'search_version'> & Pick<SizedRow, 'search_version'>;

function newRow(
  key: Uint8Array,
  tenant: string,
  id: string,
  content: TokenContent,
  { by, at }: Change,
  seq = newId(at),
) {
  const owner = { tenant_id: tenant, seq, id, content_version: 1 };
  return sized({
    ...owner,
    ...fieldsOf(content),
    search_version: null,
    max_uses: content.maxUses ?? null,
    uses: 0,
    created_by: by,
    created_at: at,
    modified_by: null,
    modified_at: null,
    ...encryptContent(key, owner, content),
  });
}

function sized<R extends Parameters<typeof storedBytes>[0]>(row: R): R & { bytes: number } {
  return { ...row, bytes: storedBytes(row) };
}
type WholeRow = SizedRow & Ciphertexts;

/** The row after an update. It has ciphertexts only if they change. */
function revisedRow(
  key: Uint8Array,
  old: SizedRow,
  { data, masked, ...fields }: TokenRevision,
  { by, at }: Change,
): SizedRow | WholeRow {
  const modified_at = modificationTime(old.modified_at, at);
  const row = { ...old, ...fieldsOf(fields), modified_by: by, modified_at };
  if (data === undefined) return sized(fields.mask === undefined ? { ...row, masked_bytes: 0 } : row);
  const owner = { ...row, content_version: old.content_version + 1 };
  return sized({ ...owner, ...encryptContent(key, owner, { data, masked }) });
}

function fieldsOf(content: Omit<TokenRevision, 'data' | 'masked'>) {
  const { type, container, mask, search, writtenBy, metadata, expiresAt } = content;
  return {
    type,
    container,
    mask: mask === undefined ? null : JSON.stringify(mask),
    search: search === undefined ? null : JSON.stringify(search),
    written_by: writtenBy ?? null,
    metadata: metadata === undefined ? null : JSON.stringify(metadata),
    expires_at: expiresAt ?? null,
  };
}

const unlessTaken = 'on conflict (tenant_id, id) do nothing';

function createdColumns(row: SizedRow) {
  const { tenant_id, seq, id, created_by, created_at, max_uses } = row;
  return { tenant_id, seq, id, created_by, created_at, max_uses, ...changeable(row) };
}

const newTokens = tokenTable.target(
  Object.keys(tokenTable.columns).filter(
    (name) => !['modified_by', 'modified_at', 'uses'].includes(name),
  ) as (keyof ReturnType<typeof createdColumns>)[],
  unlessTaken,
);
const newContents = contentsTable.target(['tenant_id', 'seq', 'masked', 'data']);

/** How many tokens are encrypted and written together. On SQLite, statements block the process. */
function rowsAtOnce({ isEmbedded }: Queries): number {
  return isEmbedded ? 8 : 25;
}

function createAll(
  db: Executor,
  key: Uint8Array,
  tenant: string,
  tokens: Parameters<Tokens['createAll']>[1],
  change: Change,
  quota: number | undefined,
): Promise<{ rows: NewTokenRow[]; bytes: number } | { taken: Set<string> }> {
  return db.transaction(async (tx) => {
    const searchable = tokens.find(({ content }) => content.search)?.content;
    const version = searchable ? await searchVersion(tx, tenant, searchable) : null;
    const seqs = tokens.map(() => newId(change.at)).sort();
    const rows: NewTokenRow[] = [];
    const writing: Promise<boolean>[] = [];
    const pause = pauses();
    // In the order of their ids, so that transactions cannot deadlock.
    const ordered = tokens.map((token, at) => ({ ...token, at, seq: seqs[at] as string }));
    ordered.sort((a, b) => (a.id < b.id ? -1 : 1));
    for (let from = 0; from < ordered.length; from += rowsAtOnce(tx)) {
      const some = ordered.slice(from, from + rowsAtOnce(tx)).map(({ id, content, at, seq }) => {
        const row = newRow(key, tenant, id, content, change, seq);
        rows[at] = { ...row, search_version: content.search ? version : null };
        return [rows[at], content] as const;
      });
      const written = insertAll(tx, key, some);
      // A server writes them while the next ones are encrypted. Errors are thrown below.
      if (tx.isEmbedded) await written;
      else written.catch(() => undefined);
      writing.push(written);
      await pause();
    }
    if (!(await Promise.all(writing)).every(Boolean)) return { taken: await takenIds(tx, tenant, rows) };
    const bytes = rows.reduce((sum, row) => sum + row.bytes, 0);
    await checkGrowth(tx, tenant, change.by, bytes, quota);
    return { rows, bytes };
  });
}

/** Inserts tokens of one tenant with all their rows. If it returns false, an id is taken: roll the transaction back. */
async function insertAll(
  tx: Queries,
  key: Uint8Array,
  tokens: readonly (readonly [NewTokenRow, TokenContent])[],
): Promise<boolean> {
  const rows = tokens.map(([row]) => row);
  const inserted = insertRows(tx, rows);
  // Only SQLite checks that the token of a row exists.
  if (tx.isEmbedded && !(await inserted)) return false;
  const [isInserted] = await Promise.all([
    inserted,
    tx.insert(
      newContents,
      rows.map(({ tenant_id, seq, masked, data }) => ({ tenant_id, seq, masked, data })),
    ),
    indexContainers(tx, ...rows),
    indexMetadata(tx, ...rows),
    indexSearch(tx, key, ...tokens.map(([row, { searchValues }]) => [row, searchValues] as const)),
  ]);
  return isInserted;
}

/** Replaces expired tokens with the same ids. Returns false if an id is taken by a valid token. */
async function insertRows(tx: Queries, rows: readonly NewTokenRow[]): Promise<boolean> {
  const inColumns = rows.map((row) => {
    const created = createdColumns(row);
    return Object.fromEntries(newTokens.columns.map(([name]) => [name, created[name]])) as typeof created;
  });
  const missing = rows.length - (await tx.insert(newTokens, inColumns));
  if (missing === 0) return true;
  const [ids, tenant] = [rows.map(({ id }) => id), rows[0]?.tenant_id];
  await deleteTokens(
    tx,
    clause`delete from tokens where tenant_id = ${tenant} and id in ${list(ids)} and expires_at <= :now`,
  );
  return (await tx.insert(newTokens, inColumns)) === missing;
}

/** The ids that other tokens have. */
async function takenIds(tx: Queries, tenant: string, rows: readonly NewTokenRow[]): Promise<Set<string>> {
  const own = rows.filter(Boolean);
  const ids = list(own.map(({ id }) => id));
  const stored = await tx.all<{ id: string; seq: string }>(sql`
    select id, seq from tokens where tenant_id = ${tenant} and id in ${ids}`);
  const seqs = new Set(own.map(({ seq }) => seq));
  return new Set(stored.filter(({ seq }) => !seqs.has(seq)).map(({ id }) => id));
}

/** Inserts the token and its containers. Returns false if the id is taken. */
async function insert(tx: Queries, row: WholeRow): Promise<boolean> {
  const { tenant_id, seq, masked, data } = row;
  const inserted = tokenTable.insert(createdColumns(row), unlessTaken);
  if (tx.writesTogether) return (await tx.run(insertTogether(inserted, row))) > 0;
  if ((await tx.run(inserted)) === 0) return false;
  const contents = contentsTable.insert({ tenant_id, seq, masked, data });
  await Promise.all([tx.run(contents), indexContainers(tx, row)]);
  return true;
}

/** A statement that inserts a token, its contents and its containers. */
function insertTogether([insertToken, params]: Bound, row: WholeRow): Bound {
  const [masked, data, containers] = [1, 2, 3].map((at) => `$${params.length + at}`);
  const sql = `with inserted as (${insertToken} returning tenant_id, seq),
  contents as (insert into token_contents (tenant_id, seq, masked, data)
    select tenant_id, seq, cast(${masked} as bytea), cast(${data} as bytea) from inserted)
  insert into token_containers (tenant_id, container, own, seq)
    select tenant_id, above.container, case position when 1 then 1 else 0 end, seq
    from inserted, json_array_elements_text(cast(cast(${containers} as text) as json)) with ordinality as above (container, position)`;
  return [sql, [...params, row.masked, row.data, JSON.stringify(containersOf(row))]];
}

/**
 * Deletes an expired token with the same id, then inserts again. Also succeeds if a sweep has removed the expired token
 * since the first attempt. Returns false if the id is taken by a valid token.
 */
async function insertInsteadOfExpired(tx: Queries, row: WholeRow): Promise<boolean> {
  const { tenant_id, id } = row;
  await deleteTokens(
    tx,
    clause`delete from tokens where tenant_id = ${tenant_id} and id = ${id} and expires_at <= :now`,
  );
  return insert(tx, row);
}

async function update(tx: Queries, old: SizedRow, row: SizedRow | WholeRow): Promise<void> {
  const { tenant_id, seq, modified_by, modified_at } = row;
  const key = { tenant_id, seq };
  await tx.run(tokenTable.update(key, { modified_by, modified_at, ...changeable(row) }));
  if ('data' in row) {
    if ((await tx.run(contentsTable.update(key, { masked: row.masked, data: row.data }))) === 0)
      throw new Error(`the contents of token ${row.id} are missing: another program has deleted them`);
  } else if (old.masked_bytes > row.masked_bytes) await tx.run(contentsTable.update(key, { masked: null }));
}

/** The columns that both `insert` and `update` write. */
function changeable(row: SizedRow) {
  const { type, container, content_version, data_bytes, masked_bytes, bytes, expires_at } = row;
  const { mask, search, search_version, written_by, metadata } = row;
  return {
    ...{ type, container, container_folded: canonicalContainer(container), content_version },
    ...{ data_bytes, masked_bytes, bytes, mask, search, search_version, written_by, metadata },
    expires_at: expires_at === null ? null : Number(expires_at),
  };
}

/** The lock on the row in `tokens` also protects the contents, because they are written only under this lock. */
function lockedToken(tx: Queries, row: SizedRow, key: Uint8Array, reserve: Reserve | undefined): LockedToken {
  const read = async (part: Part) => {
    reserve?.(contentCost * (part === 'data' ? row.data_bytes : row.masked_bytes));
    const content = await tx.get<{ ciphertext: Uint8Array | null }>(sql`
      select ${raw(part)} as ciphertext from token_contents where tenant_id = ${row.tenant_id} and seq = ${row.seq}`);
    return decryptPart(key, row, part, content?.ciphertext ?? null);
  };
  return {
    ...toRecord(row),
    plaintext: () => read('data') as Promise<JsonText>,
    masked: async () => (row.mask === null ? undefined : read('masked')),
  };
}
