/**
 * Moves a tenant to another installation. At any time, at most one of them serves the tenant:
 *
 * 1. `freeze` in the old one: requests get 503, and changes that are under way are committed or fail.
 * 2. `receive` in the new one copies all rows in one transaction. Requests get 503 there, too.
 * 3. `leave` in the old one: requests get 421 from now on. This cannot be undone.
 * 4. `open` in the new one.
 *
 * Each step can be repeated after an interruption. Until step 3, `cancel` undoes the freeze.
 */

import { hasChain, tenantTables } from '../audit/log.ts';
import type { Proof, ReleasedChain } from '../audit/proof.ts';
import { type Db, type DbTime, type Queries, rowLock } from '../db/db.ts';
import { type Keyring, lockCurrentMaster, type MasterKeys, slotOf, wrapKey } from '../db/keys/keyring.ts';
import { keysOfTables, tablesOf } from '../db/migrate.ts';
import { databaseTime } from '../db/sql.ts';
import { type ColumnType, clause, raw, sql, target, tuple, type Value } from '../db/statement.ts';
import { nextTurn } from '../domain/steps.ts';
import { columnsOf } from './copy-to-postgres.ts';

/**
 * Tables with rows of tenants that are not copied row by row. The data key is wrapped again, and the audit log is signed
 * again. Positions of sinks belong to an installation. Locks have no rows.
 */
export const notCopied: readonly string[] = ['data_keys', 'search_locks', ...tenantTables];

export interface MoveState {
  readonly tag: string;
  /** When the tenant was frozen, for a move from or to this installation. */
  readonly movingAt: number | undefined;
  readonly movedAt: number | undefined;
  /** Whether this is a copy that `receive` made and `open` has not opened. */
  readonly isArriving: boolean;
}

/** The new installation has another tenant with the same tag or id, or has had this tenant before. */
export class TenantExists extends Error {}

/** The tenant is not in the state that a step needs: another process has canceled or finished the move. */
export class MoveInterrupted extends Error {}

/** All rows of a frozen tenant. */
export interface LeavingTenant extends MoveState {
  readonly id: string;
  readonly movingAt: number;
  readonly dataKey: Uint8Array;
  readonly searchKey: { readonly search_version: number; readonly reindexing: number };
  readonly chain: ReleasedChain;
  rows(table: string): AsyncIterable<Row[]>;
}

export interface TenantMoves {
  /** Undefined if the installation never had the tenant, or if it was deleted. */
  state(id: string): Promise<MoveState | undefined>;
  /** Throws `TenantExists` unless `receive` can create the tenant. */
  requireAbsent(id: string, tag: string): Promise<void>;
  /**
   * When this resolves, no change of a request can be committed. A frozen tenant stays frozen; with `renew` it gets
   * another `movingAt`, so that copies in other installations can no longer be opened. Throws `MoveInterrupted` if the
   * tenant is arriving here.
   */
  freeze(id: string, renew?: boolean): Promise<void>;
  /** Serves a frozen tenant again. Returns false if it is not frozen, or if it has left. */
  cancel(id: string): Promise<boolean>;
  /** The rows of a frozen tenant. Throws `DamagedChain` if its audit log does not verify. */
  read(id: string): Promise<LeavingTenant>;
  /** Copies all rows in one transaction, and returns their number by table. */
  receive(tenant: LeavingTenant, onTable?: (table: string) => void): Promise<Record<string, number>>;
  /** Throws `MoveInterrupted` if the tenant is not frozen since `movingAt`. */
  leave(id: string, movingAt: number): Promise<void>;
  /** Deletes the copy of this freeze, unless it was opened. The old installation must have canceled the move before. */
  discard(id: string, movingAt: number | undefined): Promise<boolean>;
  /** Serves a tenant that `receive` has copied. Returns false if it is served already. */
  open(id: string): Promise<boolean>;
}

type Row = Record<string, Value>;

interface Moving {
  readonly db: Db;
  readonly keys: Keyring;
  readonly masters: MasterKeys;
  readonly audit: Pick<Proof, 'release' | 'adopt'>;
}

export function tenantMoves(moving: Moving): TenantMoves {
  const { db } = moving;
  return {
    state: (id) => stateOf(db, id),
    requireAbsent: (id, tag) => requireAbsent(db, id, tag),
    freeze: (id, renew) => freeze(moving, id, renew),
    cancel: (id) => db.transaction((tx) => thaw(tx, id, false)),
    read: (id) => read(moving, id),
    receive: (tenant, onTable) => receive(moving, tenant, onTable),
    leave: async (id, movingAt) => {
      if (
        (await db.run(sql`
          update tenant_tags set moved_at = :now where id = ${id} and moving_at = ${movingAt} and moved_at is null`)) ===
        0
      )
        throw new MoveInterrupted('the move was canceled');
    },
    discard: (id, movingAt) =>
      db.exclusively(async (tx) => {
        const state = await stateOf(tx, id);
        if (!state?.isArriving || state.movingAt !== movingAt) return false;
        await deleteRows(db, tx, id);
        return true;
      }, 'slow'),
    open: (id) => db.transaction((tx) => thaw(tx, id, true)),
  };
}

interface TagRow {
  readonly tag: string;
  readonly moving_at: DbTime | null;
  readonly moved_at: DbTime | null;
  readonly frozen: number | null;
}

async function stateOf(db: Pick<Queries, 'get'>, id: string): Promise<MoveState | undefined> {
  const row = await db.get<TagRow>(sql`
    select tag, moving_at, moved_at, (select frozen from data_keys where tenant_id = ${id}) as frozen
    from tenant_tags where id = ${id}`);
  if (!row) return undefined;
  const time = (value: DbTime | null) => (value === null ? undefined : Number(value));
  const isArriving = row.frozen === arriving;
  return { tag: row.tag, movingAt: time(row.moving_at), movedAt: time(row.moved_at), isArriving };
}

/** Values of `data_keys.frozen`. */
const [leaving, arriving] = [1, 2];

/** A copy of an earlier move that was canceled does not count. */
async function requireAbsent(db: Pick<Queries, 'get'>, id: string, tag: string): Promise<void> {
  const taken = await db.get<{ id: string }>(sql`select id from tenant_tags where tag = ${tag}`);
  if (taken && taken.id !== id) throw new TenantExists(`another tenant has the tag ${tag}`);
  if ((await stateOf(db, id))?.isArriving) return;
  if (taken || (await db.get(sql`select 1 as one from tenants where id = ${id}`)))
    throw new TenantExists('it has this tenant');
  if (await hasChain(db, id))
    throw new TenantExists('it has an audit log of this tenant, which was there before');
}

/**
 * New requests are refused from the first commit on. The second transaction waits for the changes of requests that were
 * authenticated before: they lock the row until their commit. It would wait for ever for a tenant that gets new ones.
 */
async function freeze({ db, keys }: Moving, id: string, renew = false): Promise<void> {
  await keys.dataKey(id);
  await db.transaction(async (tx) => {
    const now = await databaseTime(tx);
    const before = await stateOf(tx, id);
    if (before?.isArriving) throw new MoveInterrupted('the tenant is still arriving here');
    if (before?.movedAt !== undefined) throw new MoveInterrupted('the tenant has left');
    const old = before?.movingAt;
    const movingAt = old === undefined ? now : renew ? Math.max(now, old + 1) : old;
    await tx.run(sql`update tenant_tags set moving_at = ${movingAt} where id = ${id}`);
    await tx.run(sql`update tenants set disabled_at = ${movingAt}
      where id = ${id} and (disabled_at is null or disabled_at = ${old})`);
  });
  await db.exclusively(async (tx) => {
    await tx.get(sql`select 1 as one from data_keys where tenant_id = ${id} ${rowLock(db, 'for update')}`);
    await tx.run(sql`update data_keys set frozen = ${leaving} where tenant_id = ${id}`);
  });
}

/** A tenant that was disabled before it was frozen stays disabled. */
async function thaw(tx: Queries, id: string, isArriving: boolean): Promise<boolean> {
  const state = await stateOf(tx, id);
  if (state?.movingAt === undefined || state.movedAt !== undefined) return false;
  if (state.isArriving !== isArriving) return false;
  await tx.run(sql`
    update tenants set disabled_at = null where id = ${id} and disabled_at = ${state.movingAt}`);
  await tx.run(sql`update data_keys set frozen = 0 where tenant_id = ${id}`);
  await tx.run(sql`update tenant_tags set moving_at = null where id = ${id}`);
  return true;
}

async function read({ db, keys, audit }: Moving, id: string): Promise<LeavingTenant> {
  const state = await stateOf(db, id);
  if (state?.movingAt === undefined) throw new MoveInterrupted('the move was canceled');
  const searchKey = await db.get<LeavingTenant['searchKey']>(sql`
    select search_version, reindexing from data_keys where tenant_id = ${id}`);
  return {
    ...state,
    id,
    movingAt: state.movingAt,
    dataKey: await keys.dataKey(id),
    searchKey: searchKey as LeavingTenant['searchKey'],
    chain: await audit.release(id),
    rows: (table) => rowsOf(db, id, table),
  };
}

/** A row can have a megabyte. */
const pageSize = 100;

/** Reads a table by its primary key, in the order of this database. */
async function* rowsOf(db: Db, id: string, table: string): AsyncGenerator<Row[]> {
  const [tenantColumn = '', ...others] = keysOfTables(db.dialect).get(table) ?? [];
  const key = raw(others.join(', '));
  let after: Value[] = [];
  for (;;) {
    const more = after.length > 0 && clause`and (${key}) > ${tuple(after)}`;
    const page = await db.all<Row>(sql`select * from ${raw(table)} where ${raw(tenantColumn)} = ${id} ${more}
      ${others.length > 0 && clause`order by ${key}`} limit ${pageSize}`);
    if (page.length > 0) yield page;
    const last = page.at(-1);
    if (!last || page.length < pageSize || others.length === 0) return;
    after = others.map((name) => last[name] as Value);
    await nextTurn();
  }
}

async function receive(
  { db, masters, audit }: Moving,
  tenant: LeavingTenant,
  onTable: (table: string) => void = () => {},
): Promise<Record<string, number>> {
  const { id, tag, movingAt, dataKey, searchKey, chain } = tenant;
  return db.exclusively(async (tx) => {
    await requireAbsent(tx, id, tag);
    const tables = await deleteRows(db, tx, id);
    await tx.run(sql`insert into tenant_tags (tag, id, moving_at) values (${tag}, ${id}, ${movingAt})`);
    const counts: Record<string, number> = {};
    for (const table of ['tenants', ...tables]) {
      if (notCopied.includes(table)) continue;
      onTable(table);
      counts[table] = await insertRows(db, tx, table, tenant.rows(table));
    }
    const master = masters.find(await lockCurrentMaster(tx));
    if (!master) throw new Error('the master key of the new installation was rotated during the move');
    const { search_version, reindexing } = searchKey;
    await tx.run(sql`insert into data_keys (tenant_id, wrapped, master_id, search_version, reindexing, frozen)
      values (${id}, ${wrapKey(slotOf(id), dataKey, master)}, ${master.id}, ${search_version}, ${reindexing},
      ${arriving})`);
    onTable('the audit log');
    await audit.adopt(tx, chain);
    return counts;
  }, 'slow');
}

/** Returns every table with the column `tenant_id`, in an order in which foreign keys refer to earlier tables. */
async function deleteRows(db: Db, tx: Queries, id: string): Promise<string[]> {
  const tables: string[] = [];
  for (const table of tablesOf(db.dialect))
    if ('tenant_id' in (await typesOf(db, tx, table))) tables.push(table);
  for (const table of tables.toReversed())
    await tx.run(sql`delete from ${raw(table)} where tenant_id = ${id}`);
  for (const table of ['tenants', 'tenant_tags'])
    await tx.run(sql`delete from ${raw(table)} where id = ${id}`);
  return tables;
}

/** Only PostgreSQL needs the types. */
async function typesOf(db: Db, tx: Queries, table: string): Promise<Record<string, ColumnType>> {
  const columns = db.isEmbedded
    ? await tx.all<{ name: string; type: ColumnType }>(sql`
      select name, type from pragma_table_info(${table})`)
    : await columnsOf(tx, table);
  return Object.fromEntries(columns.map(({ name, type }) => [name, type]));
}

async function insertRows(db: Db, tx: Queries, table: string, pages: AsyncIterable<Row[]>): Promise<number> {
  const types = await typesOf(db, tx, table);
  const columns = Object.keys(types);
  const rows = target<Row>(table, types);
  let count = 0;
  for await (const page of pages) {
    // The installations may have the columns in another order.
    const inOrder = (row: Row) => Object.fromEntries(columns.map((name) => [name, row[name] ?? null]));
    await tx.insert(rows, page.map(inOrder));
    count += page.length;
  }
  return count;
}
