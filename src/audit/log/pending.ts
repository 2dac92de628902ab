/** Writes entries to `audit_pending`, and reads those that are not sealed yet. */

import { type Db, type DbTime, type Queries, rowLock } from '../../db/db.ts';
import { numberIn } from '../../db/sql.ts';
import { clause, raw, sql, target } from '../../db/statement.ts';
import { Failure, fail } from '../../domain/error.ts';
import { nilTenant } from '../../domain/key.ts';
import { type NewEntry, systemTenant } from '../records.ts';
import { type AuditDb, type Chain, type ChainRow, chainColumns, toChain } from './chain.ts';
import { type AuditEntry, format, macOf, newEntryId } from './entry.ts';
import { maxBytes, maxEntries } from './segment.ts';

type PendingInsert = {
  readonly tenant_id: string;
  readonly id: string;
  readonly at: number;
  readonly format: number;
  readonly mac: Uint8Array;
  readonly entry: string;
};

const pending = target<PendingInsert>('audit_pending', {
  tenant_id: 'uuid',
  id: 'uuid',
  at: 'bigint',
  format: 'smallint',
  mac: 'bytea',
  entry: 'text',
});

/**
 * Writes entries in the transaction of a change. Throws `unavailable` if they cannot be written, so that the change
 * fails.
 */
export type EntryWriter = (tx: Queries, entries: readonly NewEntry[]) => Promise<void>;

async function insertPending(tx: Queries, rows: readonly PendingInsert[]): Promise<void> {
  await tx.insert(pending, rows);
}

/**
 * Inserts entries about changes, unless their tenant moves to another installation: then the change must not be
 * committed, because it could be missing there. On PostgreSQL the lock lasts until the commit, and the move waits for
 * it.
 */
async function insertChanges(tx: Queries, rows: readonly PendingInsert[]): Promise<void> {
  // On SQLite, changes of several tenants share a transaction. Elsewhere, one tenant and the system do.
  const tenants = Map.groupBy(rows, ({ tenant_id }) => tenant_id);
  const system = tenants.get(systemTenant) ?? [];
  if (tenants.size === 0 || system.length === rows.length) return insertPending(tx, rows);
  tenants.delete(systemTenant);
  for (const [at, [tenant, some]] of [...tenants].entries()) {
    const onlyIf = sql`select 1 as one from data_keys
      where tenant_id = ${tenant} and frozen = 0 ${rowLock(tx, 'for key share')}`;
    if (!(await tx.insert(pending, at === 0 ? [...some, ...system] : some, onlyIf)))
      throw await closed(tx, tenant);
  }
}

/** The tenant was deleted after the caller was authenticated. Otherwise it moves, or its data key could not be stored. */
async function closed(tx: Queries, tenant: string): Promise<Failure> {
  const exists = await tx.get(sql`select 1 as one from tenants where id = ${tenant} and deleted_at is null`);
  return exists ? fail('unavailable', { expected: true }) : fail('unauthenticated');
}

/**
 * Create one writer and use it for all changes, so that the deferred entries of a transaction are inserted in one
 * batch. `written` is called with the tenant of each entry. With `ofRequests`, throws `unavailable` for a tenant that
 * moves.
 */
export function entryWriter(
  { keys }: AuditDb,
  written: (tenantId: string) => void,
  ofRequests = false,
): EntryWriter {
  const insert = ofRequests ? insertChanges : insertPending;
  return async (tx, entries) => {
    const chainKeys = await keys();
    const rows = entries.map(({ tenantId: tenant_id = systemTenant, at, ...entry }) => {
      const row = { id: newEntryId(at), at, text: JSON.stringify(entry) };
      written(tenant_id);
      return { tenant_id, id: row.id, at, format, mac: macOf(chainKeys, tenant_id, row), entry: row.text };
    });
    try {
      await insert(tx, rows);
    } catch (error) {
      throw error instanceof Failure ? error : fail('unavailable', { cause: error });
    }
  };
}

interface PendingRow {
  readonly id: string;
  readonly at: DbTime;
  readonly format: number;
  readonly mac: Uint8Array;
  readonly entry: string;
}

export type PendingEntry = AuditEntry & { readonly format: number };

function toEntry({ id, at, format, mac, entry }: PendingRow): PendingEntry {
  return { id, at: Number(at), format, mac, text: entry };
}

export interface NextPending {
  readonly entries: readonly PendingEntry[];
  /** Whether a segment has no space for more entries, so that some may remain. */
  readonly isFull: boolean;
}

/** Entries per statement. They can be large. */
const pageSize = 128;

/** The entries of the next segment: the oldest ones, in the order of their ids. */
export async function nextPending(db: Pick<Queries, 'all'>, tenantId: string): Promise<NextPending> {
  const entries: PendingEntry[] = [];
  let bytes = 0;
  const isFull = () => entries.length === maxEntries || bytes >= maxBytes;
  for (let after: string | undefined; ; after = entries.at(-1)?.id) {
    const rows = await db.all<PendingRow>(sql`
      select id, at, format, mac, entry from audit_pending where tenant_id = ${tenantId}
       ${after !== undefined && clause`and id > ${after}`} order by id limit ${raw(`${pageSize}`)}`);
    for (const row of rows) {
      if (isFull() || row.format !== (entries[0] ?? row).format) return { entries, isFull: true };
      entries.push(toEntry(row));
      bytes += Buffer.byteLength(row.entry);
    }
    if (isFull() || rows.length < pageSize) return { entries, isFull: isFull() };
  }
}

export interface PendingPage {
  /** Newest first. */
  readonly entries: readonly PendingEntry[];
  /** The chain at the same time: it has none of these entries. Undefined if the tenant has no sealed entries. */
  readonly chain: Chain | undefined;
}

/**
 * The newest pending entries, at most `limit`; with `upTo`, only those with this id or a lower one. One statement reads
 * them together with the end of the chain.
 */
export async function newestPending(
  db: Pick<Queries, 'all'>,
  tenantId: string,
  limit: number,
  upTo?: string,
): Promise<PendingPage | undefined> {
  type Row = PendingRow & { [K in (typeof chainColumns)[number] as `c_${K}`]: ChainRow[K] | null };
  const columns = chainColumns.map((name) => `c.${name} as c_${name}`).join(', ');
  const rows = await db.all<Row>(sql`select p.id, p.at, p.format, p.mac, p.entry, ${raw(columns)}
    from audit_pending p left join audit_chains c on c.tenant_id = p.tenant_id
    where p.tenant_id = ${tenantId} ${upTo !== undefined && clause`and p.id <= ${upTo}`}
      order by p.id desc limit ${limit}`);
  const [row] = rows;
  if (!row) return undefined;
  const chain = Object.fromEntries(chainColumns.map((name) => [name, row[`c_${name}`]]));
  return {
    entries: rows.map(toEntry),
    chain: chain.tenant_id === null ? undefined : toChain(chain as unknown as ChainRow),
  };
}

/** Tenants that one statement finds. In a Citus cluster, each statement reads all shards. */
const tenantsPerStatement = { one: 100, cluster: 1000 };

/**
 * The tenants with pending entries, in the order of ids. Reads one row of each, except in a Citus cluster, where a
 * recursive query cannot ask all workers.
 */
export async function* tenantsIn(db: Pick<Db, 'all' | 'isDistributed'>): AsyncGenerator<string> {
  const isDistributed = await db.isDistributed?.();
  const limit = tenantsPerStatement[isDistributed ? 'cluster' : 'one'];
  for (let after: string | undefined = nilTenant; after !== undefined; ) {
    const isFirst = after === nilTenant;
    const first = clause`from audit_pending where tenant_id ${raw(isFirst ? '>=' : '>')} ${after} order by tenant_id limit`;
    const found: { readonly tenant_id: string }[] = await db.all(
      isDistributed
        ? sql`select distinct tenant_id ${first} ${limit}`
        : sql`with recursive found (tenant_id) as (
             select * from (select tenant_id ${first} 1) as first_one union all
             select (select tenant_id from audit_pending where tenant_id > found.tenant_id order by tenant_id limit 1)
               from found where found.tenant_id is not null
           ) select tenant_id from found where tenant_id is not null limit ${limit}`,
    );
    for (const { tenant_id } of found) yield tenant_id;
    after = found[limit - 1]?.tenant_id;
  }
}

export async function countPending(db: Pick<Queries, 'get'>, max: number): Promise<number> {
  const some = sql`select count(*) as value from (select 1 as one from audit_pending limit ${max}) as pending`;
  return numberIn(db, some);
}
