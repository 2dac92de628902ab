/**
 * Moves entries from `audit_pending` to the hash chain of their tenant. One transaction assigns their positions,
 * extends the hash chain, signs checkpoints and updates the index.
 */
import type { Awaitable } from '../../domain/awaitable.ts';
import { type Db, type DbTime, type Queries, rowLock } from '../engine/db.ts';
import { inserter } from '../engine/sql.ts';
import { maxForeignSeq } from './entry-id.ts';
import {
  type ChainKeys,
  checkpointFormat,
  checkpointInterval,
  checkpointText,
  genesis,
  isSigned,
  link,
  linkedFormat,
  type SignedCheckpoint,
  signText,
  systemTenant,
} from './hash-chain.ts';
import { addToIndex, type IndexedEntry } from './index-blocks.ts';
import { pack } from './pack.ts';
import { type Chain, chainOf, lastCheckpoint } from './rows.ts';
import { indexTerms } from './terms.ts';

/**
 * Returns a function that chains at most `limit` pending entries: of one tenant, or of all tenants in turn. That
 * function returns the number of chained entries.
 */
export function chainAppender(
  db: Db,
  chainKeys: () => Awaitable<ChainKeys>,
): (limit: number, tenantId?: string) => Promise<number> {
  /** The last tenant that was processed. The next call continues with the tenant after it. */
  let last = beforeFirst;

  /** Starts after `last` and wraps around to it, so that a busy tenant does not delay the others. */
  async function appendAll(tx: Queries, keys: ChainKeys, limit: number): Promise<number> {
    const end = last;
    let total = 0;
    const appendBetween = async (after: string, upTo: string) => {
      for (let tenant = await nextTenant(tx, after); total < limit; tenant = await nextTenant(tx, tenant)) {
        if (tenant === undefined || tenant > upTo) return;
        total += await appendPending(tx, db.dialect, keys, tenant, limit - total, 'for update skip locked');
        last = tenant;
      }
    };
    await appendBetween(end, lastUuid);
    await appendBetween(beforeFirst, end);
    return total;
  }

  return async (limit, tenantId) => {
    const [where, values] = tenantId === undefined ? ['', []] : ['where tenant_id = $1', [tenantId]];
    if (!(await db.get(`select 1 as one from audit_pending ${where} limit 1`, values))) return 0;
    const keys = await chainKeys();
    return db.transaction((tx) =>
      tenantId === undefined
        ? appendAll(tx, keys, limit)
        : appendPending(tx, db.dialect, keys, tenantId, limit, 'for update'),
    );
  };
}

const beforeFirst = '';
const lastUuid = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

/** The next tenant with pending entries, in the order of ids. */
async function nextTenant(tx: Queries, after: string): Promise<string | undefined> {
  const [where, values] = after === beforeFirst ? ['', []] : ['where tenant_id > $1', [after]];
  const sql = `select tenant_id from audit_pending ${where} order by tenant_id limit 1`;
  return (await tx.get<{ tenant_id: string }>(sql, values))?.tenant_id;
}

interface PendingRow {
  readonly id: DbTime;
  readonly at: DbTime;
  readonly format: number;
  readonly mac: Uint8Array | null;
  readonly entry: string;
}

/** Maximum bytes of entries per transaction. A single entry may be larger. */
const maxBytes = 4 * 1024 * 1024;

/** Deletes the oldest pending entries of a tenant and returns them. */
const takePending = `delete from audit_pending where tenant_id = $1 and id in (
    select id from (
      select id, sum(octet_length(entry)) over (order by id) - octet_length(entry) as bytes_before
      from (select id, entry from audit_pending where tenant_id = $1 order by id limit $2) as first_rows
    ) as sums where bytes_before < ${maxBytes}
  ) returning id, at, format, mac, entry`;

/** Returns the number of chained entries: 0 if `lock` skips locked rows and another node has locked the chain. */
async function appendPending(
  tx: Queries,
  dialect: Db['dialect'],
  keys: ChainKeys,
  tenantId: string,
  limit: number,
  lock: 'for update' | 'for update skip locked',
): Promise<number> {
  const chain = await lockChain(tx, dialect, tenantId, lock);
  if (!chain) return 0;
  const pending = await tx.all<PendingRow>(takePending, [tenantId, limit]);
  if (pending.length === 0) return 0;
  pending.sort((a, b) => Number(a.id) - Number(b.id));
  await append(tx, dialect, keys, chain, pending);
  return pending.length;
}

/**
 * Locks the row of a chain, and creates it first if necessary. Returns undefined if `lock` skips locked rows and
 * another node has locked it.
 */
async function lockChain(
  tx: Queries,
  dialect: Db['dialect'],
  tenantId: string,
  lock: 'for update' | 'for update skip locked',
): Promise<Chain | undefined> {
  const locked = await chainOf(tx, tenantId, rowLock({ dialect }, lock));
  if (locked) return locked;
  await tx.run(
    `insert into audit_chains
       (tenant_id, seq, hash, max_delay, base_seq, base_hash, recorded_seq, recorded_at)
     values ($1, 0, $2, 0, 0, $2, 0, 0) on conflict (tenant_id) do nothing`,
    [tenantId, genesis],
  );
  return chainOf(tx, tenantId, rowLock({ dialect }, lock));
}

type AuditInsert = {
  readonly seq: number;
  readonly at: number;
  readonly chain: number;
  readonly request: number | null;
  readonly format: number;
  readonly mac: Uint8Array | null;
  readonly entry: Uint8Array;
};

const insertRows = inserter<AuditInsert>('audit', {
  seq: 'bigint',
  at: 'bigint',
  chain: 'integer',
  request: 'integer',
  format: 'smallint',
  mac: 'bytea',
  entry: 'bytea',
});

/** Used instead of the MAC for a row that another program has inserted without one. */
const noMac = new Uint8Array();

async function append(
  tx: Queries,
  dialect: Db['dialect'],
  keys: ChainKeys,
  chain: Chain,
  pending: readonly PendingRow[],
): Promise<void> {
  let { hash, maxDelay } = chain;
  let latest = await latestTime(tx, keys, chain);
  const linked = await linkToSystem(tx, chain.tenantId);
  let seq = await lastPosition(tx, chain);
  const checkpoints: SignedCheckpoint[] = [];
  const entries: IndexedEntry[] = [];
  const rows = pending.map(({ format, mac, entry: text, ...row }, index) => {
    const at = Number(row.at);
    seq += 1;
    hash = link(keys, hash, seq, mac ?? noMac);
    latest = Math.max(latest, at);
    maxDelay = Math.max(maxDelay, latest - at);
    if (seq % checkpointInterval === 0 || index === pending.length - 1) {
      const checkpoint = { ...linked, tenantId: chain.tenantId, seq, at: latest, hash };
      checkpoints.push({ ...checkpoint, signature: signText(keys, checkpointText(checkpoint)) });
    }
    const { terms, request } = indexTerms(text);
    entries.push({ seq, terms });
    return { seq, at, chain: chain.number, request, format, mac, entry: pack(text) };
  });
  await insertRows[dialect](tx, rows);
  await addToIndex(tx, dialect, chain.number, entries);
  await replaceCheckpoints(tx, dialect, chain, checkpoints);
  await tx.run('update audit_chains set seq = $2, hash = $3, max_delay = $4 where number = $1', [
    chain.number,
    seq,
    hash,
    maxDelay,
  ]);
}

/** The latest time of the chain's entries, from its last checkpoint if that is valid. */
async function latestTime(tx: Queries, keys: ChainKeys, chain: Chain): Promise<number> {
  if (chain.seq === 0) return 0;
  const last = await lastCheckpoint(tx, chain);
  if (last?.seq === chain.seq && isSigned(keys, last)) return last.at;
  // Another program has changed the checkpoints. `audit verify` reports this.
  const row = await tx.get<{ at: DbTime | null }>('select max(at) as at from audit where chain = $1', [
    chain.number,
  ]);
  return Number(row?.at ?? 0);
}

/** The current end of the system chain, to be signed by a checkpoint of another chain. */
async function linkToSystem(
  tx: Queries,
  tenantId: string,
): Promise<Pick<SignedCheckpoint, 'format' | 'system'>> {
  if (tenantId === systemTenant) return { format: checkpointFormat };
  const { seq, hash } = (await chainOf(tx, systemTenant)) ?? { seq: 0, hash: genesis };
  return { format: linkedFormat, system: { seq, hash } };
}

/**
 * The last position that is in use. If another program has inserted rows after the end of the chain, new entries get
 * positions after those rows. `audit verify` reports the inserted rows.
 */
async function lastPosition(tx: Queries, { number, seq }: Chain): Promise<number> {
  const taken = await tx.get<{ row: DbTime | null; checkpoint: DbTime | null }>(
    `select (select max(seq) from audit where chain = $1 and seq <= ${maxForeignSeq}) as row,
       (select max(seq) from audit_checkpoints where chain = $1 and seq <= ${maxForeignSeq}) as checkpoint`,
    [number],
  );
  return Math.max(seq, Number(taken?.row ?? 0), Number(taken?.checkpoint ?? 0));
}

type CheckpointInsert = Omit<SignedCheckpoint, 'tenantId' | 'system'> & {
  readonly chain: number;
  readonly system_seq: number | null;
  readonly system_hash: Uint8Array | null;
};

const insertCheckpoints = inserter<CheckpointInsert>('audit_checkpoints', {
  seq: 'bigint',
  at: 'bigint',
  chain: 'integer',
  format: 'smallint',
  hash: 'bytea',
  signature: 'bytea',
  system_seq: 'bigint',
  system_hash: 'bytea',
});

async function replaceCheckpoints(
  tx: Queries,
  dialect: Db['dialect'],
  chain: Chain,
  checkpoints: readonly SignedCheckpoint[],
): Promise<void> {
  if (chain.seq % checkpointInterval !== 0)
    await tx.run('delete from audit_checkpoints where chain = $1 and seq = $2', [chain.number, chain.seq]);
  const rows = checkpoints.map(({ seq, at, format, hash, signature, system }) => {
    const [system_seq, system_hash] = [system?.seq ?? null, system?.hash ?? null];
    return { seq, at, chain: chain.number, format, hash, signature, system_seq, system_hash };
  });
  await insertCheckpoints[dialect](tx, rows);
}
