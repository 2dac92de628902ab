/** The rows of tokens, and the encryption of their data and masked values, which are stored in `token_contents`. */

import type { Queries } from '../db/db.ts';
import { decrypt, encrypt } from '../db/keys/cipher.ts';
import { clause, raw, sql, type TableName } from '../db/statement.ts';
import { defaulted, integer, optional, type RowOf, table, text, time, uuid } from '../db/table.ts';
import { type Awaitable, then } from '../domain/awaitable.ts';
import { timestamp } from '../domain/common-fields.ts';
import type { Owner } from '../domain/grant.ts';
import { JsonText } from '../domain/json-text.ts';
import type { Mask } from '../domain/mask.ts';
import type { SearchTemplates } from '../domain/search.ts';
import type { Metadata } from '../domain/token.ts';
import { notExpired } from './applications.ts';
import type { Reserve } from './records.ts';
import type { StoredToken, TokenContent, TokenRecord } from './store.ts';

export const tokenTable = table('tokens', {
  tenant_id: uuid,
  seq: uuid,
  id: text,
  type: text,
  container: text,
  content_version: integer,
  mask: optional(text),
  search: optional(text),
  /** The version of the search key of its index rows. Null without search templates. */
  search_version: optional(integer),
  /** Who last wrote data and search templates, as `writerOf` names it. Null if not the same. */
  written_by: optional(text),
  metadata: optional(text),
  /** Null if its uses are not limited. */
  max_uses: optional(integer),
  uses: defaulted(integer),
  created_by: optional(uuid),
  created_at: time,
  modified_by: optional(uuid),
  modified_at: optional(time),
  expires_at: optional(time),
  /** In canonical form. */
  container_folded: text,
  data_bytes: integer,
  masked_bytes: integer,
  /** Of all that is stored of the token. */
  bytes: defaulted(integer),
});

/** The columns of `tokens` that only changes and lists need. The ciphertexts are in `token_contents`. */
const unread = ['container_folded', 'data_bytes', 'masked_bytes', 'bytes'] as const;
type Row = RowOf<typeof tokenTable.columns>;
export type TokenRow = Omit<Row, (typeof unread)[number]>;
/** A row with the sizes of its ciphertexts, and of all that is stored of the token. */
export type SizedRow = Omit<Row, 'container_folded'>;

const read = Object.keys(tokenTable.columns) as (keyof Row)[];
export const columns = tokenTable.select(
  't',
  read.filter((name) => !(unread as readonly string[]).includes(name)),
);

/** The ciphertexts of a larger token are read only after memory was reserved for them. */
const largeContent = 65_536;
const size = raw('t.data_bytes + t.masked_bytes');
const ifSmall = (column: string) =>
  clause`case when ${size} <= ${raw(`${largeContent}`)} then ${raw(column)} end`;
export const columnsIfSmall = clause`${columns}, ${size} as size, ${ifSmall('c.data')} as data,
  ${ifSmall('c.masked')} as masked`;

/** A row without the ciphertexts if the token is large. */
export type RowIfSmall = TokenRow & {
  readonly size: number;
  readonly data: Uint8Array | null;
  readonly masked: Uint8Array | null;
};

export const withContents = (table: TableName = raw) =>
  clause`${table('tokens')} t left join ${table('token_contents')} c on c.tenant_id = t.tenant_id and c.seq = t.seq`;

export function toRecord(row: TokenRow): TokenRecord {
  const { id, container, max_uses, seq, written_by: writtenBy } = row;
  return { id, container, max_uses, seq, writtenBy, token: viewOf(row) };
}

/** Leaves out fields without a value. Assignments take a third of the time of conditional spreads. */
export function viewOf(row: TokenRow): TokenRecord['token'] {
  const { id, tenant_id, type, container, mask, search, metadata, modified_at, expires_at } = row;
  const view: Partial<TokenRecord['token']> = { id, tenant_id, type, container };
  if (mask !== null) view.mask = JSON.parse(mask) as Mask;
  if (search !== null) {
    view.search = JSON.parse(search) as SearchTemplates;
    const [kind, application_id] = row.written_by?.split(' ') ?? [];
    if (kind !== undefined && application_id !== undefined)
      view.written_by = { kind: kind as Owner, application_id };
  }
  if (metadata !== null) view.metadata = JSON.parse(metadata) as Metadata;
  if (row.max_uses !== null) {
    view.max_uses = row.max_uses;
    view.uses = row.uses;
  }
  if (row.created_by !== null) view.created_by = row.created_by;
  view.created_at = timestamp(Number(row.created_at));
  if (row.modified_by !== null) view.modified_by = row.modified_by;
  if (modified_at !== null) view.modified_at = timestamp(Number(modified_at));
  if (expires_at !== null) view.expires_at = timestamp(Number(expires_at));
  return view as TokenRecord['token'];
}

export type Part = 'data' | 'masked';

/** The token that a ciphertext belongs to. */
export interface ContentOwner {
  readonly tenant_id: string;
  readonly seq: string;
  readonly id: string;
  readonly content_version: number;
}

export interface Ciphertexts {
  readonly data: Uint8Array;
  readonly masked: Uint8Array | null;
}

/**
 * Binds a ciphertext to its tenant, token, version and part. Someone with access to the database cannot use it as the
 * data of another token, as another version of the same data, or as the masked value.
 */
function contextOf({ tenant_id, seq, id, content_version }: ContentOwner, part: Part): string {
  return `sallyport token ${tenant_id} ${seq} ${id} ${content_version} ${part}`;
}

export function encryptContent(
  key: Uint8Array,
  owner: ContentOwner,
  content: Pick<TokenContent, 'data' | 'masked'>,
): Ciphertexts & { data_bytes: number; masked_bytes: number } {
  const data = encrypt(key, contextOf(owner, 'data'), content.data.text);
  const masked = content.masked ? encrypt(key, contextOf(owner, 'masked'), content.masked.text) : null;
  return { data, masked, data_bytes: data.length, masked_bytes: masked?.length ?? 0 };
}

/** Longer plaintext is sent as bytes. Shorter plaintext takes less time and memory as a string. */
const largePlaintext = 4096;

/** Returns undefined without a masked value. Throws if the ciphertext is missing or was changed. */
export function decryptPart(
  key: Uint8Array,
  owner: ContentOwner,
  part: Part,
  ciphertext: Uint8Array | null,
): JsonText | undefined {
  if (part === 'masked' && ciphertext === null) return undefined;
  const plaintext = ciphertext && decrypt(key, contextOf(owner, part), ciphertext);
  if (plaintext) return new JsonText(plaintext.length > largePlaintext ? plaintext : plaintext.toString());
  throw new Error(`the ${part} of token ${owner.id} cannot be decrypted: it was changed by another program`);
}

function toToken(row: TokenRow & Ciphertexts, key: Uint8Array): StoredToken {
  return {
    ...toRecord(row),
    plaintext: () => decryptPart(key, row, 'data', row.data) as JsonText,
    masked: () => decryptPart(key, row, 'masked', row.masked),
  };
}

const selectLarge = ({ tenant_id, seq }: TokenRow) =>
  sql`select ${columns}, c.data, c.masked from ${withContents()}
    where t.tenant_id = ${tenant_id} and t.seq = ${seq} and ${notExpired('t')}`;

/** Bytes of memory per byte of a token that is read: the ciphertexts, their plaintext, and the response. */
export const contentCost = 3;

/** Reads the ciphertexts of a large token. Returns undefined if it has been deleted. */
export function wholeToken(
  db: Pick<Queries, 'get'>,
  row: RowIfSmall,
  key: Uint8Array,
  reserve: Reserve | undefined,
): Awaitable<StoredToken | undefined> {
  if (row.size <= largeContent) return toToken(row as RowIfSmall & Ciphertexts, key);
  reserve?.(contentCost * row.size);
  const read = db.get<TokenRow & Ciphertexts>(selectLarge(row));
  return then(read, (whole) => whole && toToken(whole, key));
}
