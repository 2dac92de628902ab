import { then } from '../domain/awaitable.ts';
import { timestamp } from '../domain/field.ts';
import { newId } from '../domain/key.ts';
import type { Mask } from '../domain/mask.ts';
import { canonicalContainer } from '../domain/rule.ts';
import type { Metadata } from '../domain/token.ts';
import { alive } from './applications.ts';
import { open, seal } from './cipher.ts';
import type { Moment, Queries, Room, Value } from './db.ts';
import type { Keyring } from './keyring.ts';
import type { Change, StoredToken, TokenContent, Tokens } from './store.ts';
import { pageOfTokens, selectTokens } from './token-scan.ts';
import { Params } from './where.ts';

interface TokenRow {
  tenant_id: string;
  seq: string;
  id: string;
  type: string;
  container: string;
  version: Moment;
  data: Uint8Array;
  masked: Uint8Array | null;
  mask: string | null;
  metadata: string | null;
  created_by: string | null;
  created_at: Moment;
  modified_by: string | null;
  modified_at: Moment | null;
  expires_at: Moment | null;
}

const columns = `t.tenant_id, t.seq, t.id, t.type, t.container, t.version, t.data, t.masked, t.mask, t.metadata,
  t.created_by, t.created_at, t.modified_by, t.modified_at, t.expires_at`;

export function tokens(db: Room, keyring: Pick<Keyring, 'of'>): Tokens {
  const one = `select ${columns} from tokens t where t.tenant_id = $1 and t.id = $2 and ${alive('t')}`;
  const locked = db.dialect === 'postgres' ? `${one} for update` : one;

  return {
    create: async (tenant, id, content, change) => {
      const key = await keyring.of(tenant);
      return db.transaction(async (tx) => {
        const row = newRow(key, tenant, id, content, change);
        const made = (await insert(tx, row)) > 0 || (await insteadOfExpired(tx, row));
        if (!made) return undefined;
        await index(tx, row, content);
        return toToken(row, key);
      });
    },

    get: (tenant, id) =>
      then(keyring.of(tenant), (key) =>
        then(db.get<TokenRow>(one, [tenant, id]), (row) => row && toToken(row, key)),
      ),

    list: async (tenant, scopes, filter, window) => {
      const params = new Params();
      const sql = pageOfTokens(params, columns, tenant, scopes, filter, window);
      const asked = Promise.try(() => db.all<TokenRow>(sql, params.values));
      const [key, rows] = await Promise.all([keyring.of(tenant), asked]);
      return rows.map((row) => toToken(row, key));
    },

    count: (tenant, scopes, filter) => {
      const params = new Params();
      const sql = `select count(*) as count from (${selectTokens(params, tenant, scopes, filter)}) as shown`;
      return then(db.get<{ count: Moment }>(sql, params.values), (row) => Number(row?.count));
    },

    update: async (tenant, id, change, revise) => {
      const key = await keyring.of(tenant);
      return db.transaction(async (tx) => {
        const old = await tx.get<TokenRow>(locked, [tenant, id]);
        if (!old) return undefined;
        const content = revise(toToken(old, key));
        const row = revisedRow(key, old, content, change);
        await update(tx, row);
        await tx.run('delete from token_containers where seq = $1', [row.seq]);
        await tx.run('delete from token_metadata where seq = $1', [row.seq]);
        await index(tx, row, content);
        return toToken(row, key);
      });
    },

    delete: async (tenant, id, check) => {
      const key = await keyring.of(tenant);
      return db.transaction(async (tx) => {
        const row = await tx.get<TokenRow>(locked, [tenant, id]);
        if (!row) return false;
        check(toToken(row, key));
        return (await tx.run('delete from tokens where tenant_id = $1 and seq = $2', [tenant, row.seq])) > 0;
      });
    },
  };
}

function newRow(
  key: Uint8Array,
  tenant: string,
  id: string,
  content: TokenContent,
  change: Change,
): TokenRow {
  const row = { tenant_id: tenant, seq: newId(change.at), id, version: 1 };
  return {
    ...row,
    ...contentOf(key, row, content),
    created_by: change.by,
    created_at: change.at,
    modified_by: null,
    modified_at: null,
  };
}

function revisedRow(key: Uint8Array, old: TokenRow, content: TokenContent, change: Change): TokenRow {
  const row = { ...old, version: Number(old.version) + 1 };
  return { ...row, ...contentOf(key, row, content), modified_by: change.by, modified_at: change.at };
}

/** Which tenant, Token, version and part of it a sealed value belongs to. */
function placeOf(row: Pick<TokenRow, 'tenant_id' | 'id' | 'version'>, part: 'data' | 'masked'): string {
  return `sallyport token ${row.tenant_id} ${row.id} ${row.version} ${part}`;
}

function contentOf(
  key: Uint8Array,
  row: Pick<TokenRow, 'tenant_id' | 'id' | 'version'>,
  content: TokenContent,
) {
  const sealed = (part: 'data' | 'masked', value: unknown) =>
    seal(key, placeOf(row, part), Buffer.from(JSON.stringify(value)));
  return {
    type: content.type,
    container: content.container,
    data: sealed('data', content.data),
    masked: content.mask === undefined ? null : sealed('masked', content.masked),
    mask: content.mask === undefined ? null : JSON.stringify(content.mask),
    metadata: content.metadata === undefined ? null : JSON.stringify(content.metadata),
    expires_at: content.expiresAt ?? null,
  };
}

function insert(tx: Queries, row: TokenRow) {
  return tx.run(
    `insert into tokens (tenant_id, seq, id, type, container, container_folded, version, data, masked, mask,
       metadata, created_by, created_at, expires_at)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) on conflict (tenant_id, id) do nothing`,
    [
      row.tenant_id,
      row.seq,
      row.id,
      row.type,
      row.container,
      canonicalContainer(row.container),
      Number(row.version),
      row.data,
      row.masked,
      row.mask,
      row.metadata,
      row.created_by,
      Number(row.created_at),
      expiry(row),
    ],
  );
}

/** Whether the id was only taken by a Token that is over. */
async function insteadOfExpired(tx: Queries, row: TokenRow): Promise<boolean> {
  const expired = 'delete from tokens where tenant_id = $1 and id = $2 and expires_at <= :now';
  return (await tx.run(expired, [row.tenant_id, row.id])) > 0 && (await insert(tx, row)) > 0;
}

function update(tx: Queries, row: TokenRow) {
  return tx.run(
    `update tokens set type = $3, container = $4, container_folded = $5, version = $6, data = $7, masked = $8,
       mask = $9, metadata = $10, modified_by = $11, modified_at = $12, expires_at = $13
     where tenant_id = $1 and seq = $2`,
    [
      row.tenant_id,
      row.seq,
      row.type,
      row.container,
      canonicalContainer(row.container),
      Number(row.version),
      row.data,
      row.masked,
      row.mask,
      row.metadata,
      row.modified_by,
      Number(row.modified_at),
      expiry(row),
    ],
  );
}

function expiry(row: TokenRow): number | null {
  return row.expires_at === null ? null : Number(row.expires_at);
}

/** What lists find it by: every container it lies in, and its metadata. */
async function index(
  tx: Queries,
  { tenant_id, seq, id }: TokenRow,
  { container, metadata }: TokenContent,
): Promise<void> {
  const own = canonicalContainer(container);
  const containers = [...containersAbove(own), own].map((at) => [tenant_id, at, at === own ? 1 : 0, seq, id]);
  await insertAll(tx, 'token_containers (tenant_id, container, own, seq, id)', containers);
  const fields = Object.entries(metadata ?? {}).map(([name, value]) => [tenant_id, name, value, seq]);
  await insertAll(tx, 'token_metadata (tenant_id, name, value, seq)', fields);
}

/** 8, 4, 2 or 1 at a time, so that there are few statements to keep prepared. */
async function insertAll(tx: Queries, into: string, rows: readonly Value[][]): Promise<void> {
  for (let at = 0, some = 8; at < rows.length; at += some) {
    while (some > rows.length - at) some /= 2;
    const params = new Params();
    const values = rows
      .slice(at, at + some)
      .map((row) => `(${row.map((value) => params.add(value)).join(', ')})`);
    await tx.run(`insert into ${into} values ${values.join(', ')}`, params.values);
  }
}

/** Without the root, in which everything lies. */
function containersAbove(container: string): string[] {
  const segments = container.split('/').slice(1, -2);
  return segments.map((_, depth) => `/${segments.slice(0, depth + 1).join('/')}/`);
}

function toToken(row: TokenRow, key: Uint8Array): StoredToken {
  const opened = (part: 'data' | 'masked', sealed: Uint8Array): unknown => {
    const plaintext = open(key, placeOf(row, part), sealed);
    if (!plaintext)
      throw new Error(
        `the ${part} of Token ${row.id} does not open: its row was changed outside the program`,
      );
    return JSON.parse(Buffer.from(plaintext).toString());
  };
  const { masked } = row;
  return {
    id: row.id,
    container: row.container,
    seq: row.seq,
    token: {
      id: row.id,
      tenant_id: row.tenant_id,
      type: row.type,
      container: row.container,
      ...(row.mask !== null && { mask: JSON.parse(row.mask) as Mask }),
      ...(row.metadata !== null && { metadata: JSON.parse(row.metadata) as Metadata }),
      ...(row.created_by !== null && { created_by: row.created_by }),
      created_at: timestamp(Number(row.created_at)),
      ...(row.modified_by !== null && { modified_by: row.modified_by }),
      ...(row.modified_at !== null && { modified_at: timestamp(Number(row.modified_at)) }),
      ...(row.expires_at !== null && { expires_at: timestamp(Number(row.expires_at)) }),
    },
    plaintext: () => opened('data', row.data),
    masked: () => (masked === null ? undefined : opened('masked', masked)),
  };
}
