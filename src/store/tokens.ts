import { then } from '../domain/awaitable.ts';
import { timestamp } from '../domain/common-fields.ts';
import { JsonText } from '../domain/json-text.ts';
import { newId } from '../domain/key.ts';
import type { Mask } from '../domain/mask.ts';
import { canonicalContainer } from '../domain/rule.ts';
import type { Metadata } from '../domain/token.ts';
import type { Transform } from '../domain/transform.ts';
import { alive } from './applications.ts';
import { open, seal } from './crypto/cipher.ts';
import type { Keyring } from './crypto/keyring.ts';
import { type DbTime, type Executor, type Queries, rowLock, type Value } from './engine/db.ts';
import { Params } from './engine/sql-params.ts';
import type { Change, ShownToken, StoredToken, TokenContent, TokenQuery, Tokens } from './store.ts';
import { indexAnew, indexToken } from './token-index.ts';
import { findTokens, type Shown } from './token-list/scan.ts';
import { deleteTokens, refuseGrowth, sizeOf, storedBy, writeCharges } from './token-storage.ts';

interface TokenRow {
  tenant_id: string;
  seq: string;
  id: string;
  type: string;
  container: string;
  version: DbTime;
  data: Uint8Array;
  masked: Uint8Array | null;
  mask: string | null;
  metadata: string | null;
  created_by: string | null;
  created_at: DbTime;
  modified_by: string | null;
  modified_at: DbTime | null;
  expires_at: DbTime | null;
}

type DescribedRow = Omit<TokenRow, 'data' | 'masked'>;

const columns = `t.tenant_id, t.seq, t.id, t.type, t.container, t.version, t.data, t.masked, t.mask, t.metadata,
  t.created_by, t.created_at, t.modified_by, t.modified_at, t.expires_at`;

const one = `select ${columns} from tokens t where t.tenant_id = $1 and t.id = $2 and ${alive('t')}`;

export function tokens(db: Executor, keyring: Pick<Keyring, 'of'>): Tokens {
  const locked = `${one} ${rowLock(db, 'for update')}`;

  /** Deferred to the end of a shared transaction, where the charges of one application are added up. */
  const charge = (row: TokenRow, tokens: number, bytes: number) =>
    db.defer(writeCharges[db.dialect], { tenant: row.tenant_id, creator: row.created_by, tokens, bytes });

  return {
    storageUsed: (tenant, application) => storedBy(db, tenant, application),

    create: (tenant, id, content, change) =>
      then(keyring.of(tenant), (key) => {
        const row = newRow(key, tenant, id, content, change);
        const created = db.transaction((tx) => {
          const made = then(insert(tx, row), (inserted) => inserted > 0 || insteadOfExpired(tx, db, row));
          return then(made, (there) => there && then(indexToken(tx, row), () => true));
        });
        const counted = then(created, (there) => there && then(charge(row, 1, sizeOf(row)), () => true));
        return then(counted, (there) => (there ? asWritten(row, content) : undefined));
      }),

    get: (tenant, id) =>
      then(keyring.of(tenant), (key) =>
        then(db.get<TokenRow>(one, [tenant, id]), (row) => row && toToken(row, key)),
      ),

    list: async (tenant, query) => {
      const key = await keyring.of(tenant);
      const found = await findTokens(db, tenant, query);
      const shown = withinBytes(found.shown);
      const next = shown.length < found.shown.length ? shown.at(-1)?.seq : found.next;
      return { ...found, next, rows: await contentsOf(db, tenant, key, shown, query.show) };
    },

    update: async (tenant, id, change, revise, quota) => {
      const key = await keyring.of(tenant);
      const updated = await db.transaction(async (tx) => {
        const old = await tx.get<TokenRow>(locked, [tenant, id]);
        if (!old) return undefined;
        const content = revise(toToken(old, key));
        const row = revisedRow(key, old, content, change);
        const growth = sizeOf(row) - sizeOf(old);
        await refuseGrowth(tx, tenant, row.created_by, growth, quota);
        await update(tx, row);
        await indexAnew(tx, old, row);
        return { row, growth, token: asWritten(row, content) };
      });
      if (updated && updated.growth !== 0) await charge(updated.row, 0, updated.growth);
      return updated?.token;
    },

    delete: async (tenant, id, check) => {
      const key = await keyring.of(tenant);
      const deleted = await db.transaction(async (tx) => {
        const row = await tx.get<TokenRow>(locked, [tenant, id]);
        if (row) check(toToken(row, key));
        if (row) await tx.run('delete from tokens where tenant_id = $1 and seq = $2', [tenant, row.seq]);
        return row;
      });
      if (deleted) await charge(deleted, -1, -sizeOf(deleted));
      return deleted !== undefined;
    },
  };
}

/** The most bytes of a page of tokens. */
const maxPageBytes = 8 * 1024 * 1024;
/** What a token takes at most beside its data, mask and metadata. */
const fixedBytes = 1024;

/** As many as fit into a page, and at least one. */
function withinBytes(shown: readonly Shown[]): readonly Shown[] {
  let bytes = 0;
  const end = shown.findIndex(({ transform, data, masked, rest }, at) => {
    bytes += fixedBytes + Number(rest);
    if (transform !== 'redact') bytes += Number(transform === 'reveal' ? data : masked);
    return bytes > maxPageBytes && at > 0;
  });
  return end < 0 ? shown : shown.slice(0, end);
}

const described = `t.tenant_id, t.seq, t.id, t.type, t.container, t.version, t.mask, t.metadata, t.created_by,
  t.created_at, t.modified_by, t.modified_at, t.expires_at`;
/** No more of the data is read than the transform shows. */
const contents: Record<Transform, { columns: string; part?: Part }> = {
  reveal: { columns: `${described}, t.data as sealed`, part: 'data' },
  mask: { columns: `${described}, t.masked as sealed`, part: 'masked' },
  redact: { columns: `${described}, null as sealed` },
};

/** Reads the tokens that were found. What has changed in between is shown as it is now, or not at all. */
async function contentsOf(
  db: Queries,
  tenant: string,
  key: Uint8Array,
  found: readonly Pick<Shown, 'seq' | 'transform'>[],
  show: TokenQuery['show'],
  attempts = 3,
): Promise<ShownToken[]> {
  const tokens: ShownToken[] = [];
  const changed: Pick<Shown, 'seq' | 'transform'>[] = [];
  for (const [transform, some] of Map.groupBy(found, (one) => one.transform)) {
    const { columns, part } = contents[transform];
    const params = new Params();
    const seqs = some.map(({ seq }) => seq);
    const sql = `select ${columns} from tokens t where t.tenant_id = ${params.add(tenant)}
      and t.seq in ${params.list(seqs)} and ${alive('t')}`;
    for (const row of await db.all<DescribedRow & { sealed: Uint8Array | null }>(sql, params.values)) {
      const now = show(row);
      if (now === transform) {
        const data = part && row.sealed !== null ? opened(key, row, part, row.sealed) : undefined;
        tokens.push({ seq: row.seq, token: shownOf(row), data });
      } else if (now !== undefined) changed.push({ seq: row.seq, transform: now });
    }
  }
  if (changed.length > 0 && attempts > 1)
    tokens.push(...(await contentsOf(db, tenant, key, changed, show, attempts - 1)));
  return tokens.sort((a, b) => (a.seq < b.seq ? 1 : -1));
}

function newRow(
  key: Uint8Array,
  tenant: string,
  id: string,
  content: TokenContent,
  change: Change,
): TokenRow {
  return {
    tenant_id: tenant,
    seq: newId(change.at),
    id,
    version: 1,
    created_by: change.by,
    created_at: change.at,
    modified_by: null,
    modified_at: null,
    ...contentOf(key, placeOf(tenant, id, 1), content),
  };
}

function revisedRow(key: Uint8Array, old: TokenRow, content: TokenContent, change: Change): TokenRow {
  const version = Number(old.version) + 1;
  return {
    ...old,
    version,
    modified_by: change.by,
    modified_at: change.at,
    ...contentOf(key, placeOf(old.tenant_id, old.id, version), content),
  };
}

type Part = 'data' | 'masked';
/** Which tenant, Token, version and part of it a sealed value belongs to. */
type Place = (part: Part) => string;

function placeOf(tenant: string, id: string, version: DbTime): Place {
  return (part) => `sallyport token ${tenant} ${id} ${version} ${part}`;
}

function contentOf(key: Uint8Array, place: Place, content: TokenContent) {
  const { type, container, data, mask, masked, metadata, expiresAt } = content;
  return {
    type,
    container,
    data: seal(key, place('data'), data.text),
    masked: masked === undefined ? null : seal(key, place('masked'), masked.text),
    mask: mask === undefined ? null : JSON.stringify(mask),
    metadata: metadata === undefined ? null : JSON.stringify(metadata),
    expires_at: expiresAt ?? null,
  };
}

const insertion = `insert into tokens (tenant_id, seq, id, type, container, container_folded, version, data, masked,
    mask, metadata, created_by, created_at, expires_at)
  values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) on conflict (tenant_id, id) do nothing`;

function insert(tx: Queries, row: TokenRow) {
  return tx.run(insertion, [
    row.tenant_id,
    row.seq,
    row.id,
    ...contentIn(row),
    row.created_by,
    Number(row.created_at),
    expiry(row),
  ]);
}

/** Whether the id was only taken by a Token that is over, and that a sweep may have removed just now. */
async function insteadOfExpired(tx: Queries, { dialect }: Executor, row: TokenRow): Promise<boolean> {
  const expired = 'delete from tokens where tenant_id = $1 and id = $2 and expires_at <= :now';
  await deleteTokens(tx, dialect, expired, [row.tenant_id, row.id]);
  return (await insert(tx, row)) > 0;
}

function update(tx: Queries, row: TokenRow) {
  return tx.run(
    `update tokens set type = $3, container = $4, container_folded = $5, version = $6, data = $7, masked = $8,
       mask = $9, metadata = $10, modified_by = $11, modified_at = $12, expires_at = $13
     where tenant_id = $1 and seq = $2`,
    [row.tenant_id, row.seq, ...contentIn(row), row.modified_by, Number(row.modified_at), expiry(row)],
  );
}

/** What both statements write, in the order in which both name it. */
function contentIn(row: TokenRow): Value[] {
  const { type, container, version, data, masked, mask, metadata } = row;
  return [type, container, canonicalContainer(container), Number(version), data, masked, mask, metadata];
}

function expiry(row: TokenRow): number | null {
  return row.expires_at === null ? null : Number(row.expires_at);
}

/** As it is kept: what it holds is opened when asked for. */
function toToken(row: TokenRow, key: Uint8Array): StoredToken {
  return {
    id: row.id,
    container: row.container,
    seq: row.seq,
    token: shownOf(row),
    plaintext: () => opened(key, row, 'data', row.data),
    masked: () => (row.masked === null ? undefined : opened(key, row, 'masked', row.masked)),
  };
}

function opened(key: Uint8Array, row: DescribedRow, part: Part, sealed: Uint8Array): JsonText {
  const plaintext = open(key, placeOf(row.tenant_id, row.id, row.version)(part), sealed);
  if (plaintext) return new JsonText(plaintext.toString());
  throw new Error(`the ${part} of Token ${row.id} does not open: its row was changed outside the program`);
}

/** As it was just written, which need not be opened. */
function asWritten(row: TokenRow, { data, masked }: TokenContent): StoredToken {
  return {
    id: row.id,
    container: row.container,
    seq: row.seq,
    token: shownOf(row),
    plaintext: () => data,
    masked: () => masked,
  };
}

/** Without fields that have no value. One after the other, which takes a third of the time of a spread for each. */
function shownOf(row: DescribedRow): StoredToken['token'] {
  const { id, tenant_id, type, container, mask, metadata, modified_at, expires_at } = row;
  const shown: Partial<StoredToken['token']> = { id, tenant_id, type, container };
  if (mask !== null) shown.mask = JSON.parse(mask) as Mask;
  if (metadata !== null) shown.metadata = JSON.parse(metadata) as Metadata;
  if (row.created_by !== null) shown.created_by = row.created_by;
  shown.created_at = timestamp(Number(row.created_at));
  if (row.modified_by !== null) shown.modified_by = row.modified_by;
  if (modified_at !== null) shown.modified_at = timestamp(Number(modified_at));
  if (expires_at !== null) shown.expires_at = timestamp(Number(expires_at));
  return shown as StoredToken['token'];
}
