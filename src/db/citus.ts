/**
 * Distributes the tables over the servers of a Citus cluster. Rows of a tenant are together on one server: tables with
 * a column `tenant_id`, and `tenants` itself, are divided by tenant into co-located shards. Every server has a copy of
 * `tenant_tags`. The other tables remain on the coordinator. See docs/decisions/0032-citus.md.
 */

import { type Db, DbUnavailable, type Queries } from './db.ts';
import { advisoryLocks } from './postgres/postgres-exclusive.ts';
import { sql } from './statement.ts';

/** A table of Sallyport. The values of `is` and `wanted` are a distribution column, `reference` or `local`. */
export interface Placement {
  readonly name: string;
  readonly is: string;
  readonly wanted: string;
  /** Tables with the same number are co-located. Null for a local table. */
  readonly group: number | null;
}

const referenceTable = 'tenant_tags';

const placements = (names: readonly string[]) => `select c.relname as name, p.colocationid as group,
    case when p.partmethod = 'h' then column_to_column_name(p.logicalrelid, p.partkey)
      when p.repmodel = 't' then 'reference' when p.logicalrelid is null then 'local' else 'other' end as is,
    case when c.relname = 'tenants' then 'id' when c.relname = '${referenceTable}' then 'reference'
      when exists (select 1 from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant_id') then 'tenant_id'
      else 'local' end as wanted
  from pg_class c left join pg_dist_partition p on p.logicalrelid = c.oid
  where c.oid in (${names.map((name) => `to_regclass('${name}')`).join(', ')})`;

/** Where the tables are, in the order of `names`. Tables that do not exist are left out. */
export async function readPlacements(
  db: Pick<Queries, 'all'>,
  names: readonly string[],
): Promise<Placement[]> {
  const rows = await db.all<Placement>(placements(names));
  return rows.toSorted((a, b) => names.indexOf(a.name) - names.indexOf(b.name));
}

/** Tables that are elsewhere than they should be, or are not co-located with `tenants`. */
export function misplacedOf(tables: readonly Placement[]): Placement[] {
  const group = tables.find(({ name }) => name === 'tenants')?.group;
  return tables.filter(
    (table) => table.is !== table.wanted || (/id$/.test(table.wanted) && table.group !== group),
  );
}

export const undoPlacement = 'undo it with undistribute_table, or use a new database';

export function placementHint(misplaced: readonly Placement[]): string {
  if (misplaced.some(({ is }) => is !== 'local')) return undoPlacement;
  return 'run `sallyport migrate` with the URL of the role that owns the tables';
}

/** The tables are distributed in a way that this function does not change. */
export class WrongPlacement extends Error {}

/**
 * Distributes the tables that are not distributed yet, in one transaction, with their rows. `names` are in an order in
 * which foreign keys refer to earlier tables. If none is missing, takes no lock and needs no privilege. Throws
 * `WrongPlacement` if another program has distributed a table otherwise.
 */
export async function distributeTables(db: Db, names: readonly string[]): Promise<void> {
  const missing = misplacedOf(await readPlacements(db, names));
  if (missing.length > 0) await distribute(db, names);
}

async function distribute(db: Db, names: readonly string[]): Promise<void> {
  await db.exclusively(async (tx) => {
    const misplaced = misplacedOf(await readPlacements(tx, names));
    const wrong = misplaced.find(({ is }) => is !== 'local');
    if (wrong) throw new WrongPlacement(describeMisplaced([wrong]));
    // Foreign keys connect the tables, so one connection to each worker must create all shards.
    await tx.run("set local citus.multi_shard_modify_mode to 'sequential'");
    for (const { name, wanted } of misplaced) await tx.get(distribution(name, wanted));
    // Otherwise the rows that were copied to the workers also remain on the disk of the coordinator.
    for (const { name, wanted } of misplaced)
      if (wanted !== 'reference')
        await tx.get(`select truncate_local_data_after_distributing_table('${name}')`);
  }, 'slow');
}

/**
 * Shards on this worker that lack the setting of `tenant_id` in schema.postgres.sql, which Citus does not copy: new ones,
 * and those that were moved to it.
 */
const incomplete = (names: readonly string[]) => `from pg_index i join pg_class c on c.oid = i.indrelid
  join pg_attribute a on a.attrelid = c.oid and a.attnum = i.indkey[0]
  where i.indisprimary and i.indnkeyatts > 1 and a.attname = 'tenant_id'
    and regexp_replace(c.relname, '_\\d+$', '') in ('${names.join("', '")}') and c.relname ~ '_\\d+$'
    and not coalesce('n_distinct=1' = any(a.attoptions), false)`;

const isOwner = `select pg_has_role(relowner, 'usage') as owns from pg_class where oid = to_regclass('tenants')`;

/**
 * Makes this setting on the shards that lack it, if the role owns the tables. Leaves workers that cannot be reached to a
 * later start.
 */
export async function alterShards(db: Db, names: readonly string[]): Promise<void> {
  const found = `select 1 from run_command_on_workers($run$ select count(*) ${incomplete(names)} $run$)
    where success and result <> '0'`;
  const alter = `select run_command_on_workers($run$ do $do$ declare shard regclass; begin
      for shard in select c.oid ${incomplete(names)} loop
        execute format('alter table %s alter column tenant_id set (n_distinct = 1)', shard);
      end loop;
    end $do$ $run$)`;
  try {
    if (!(await db.get(found)) || !(await db.get<{ owns: boolean }>(isOwner))?.owns) return;
    await db.exclusively(async (tx) => {
      // The statements would wait for a move, which sets the option of its shards afterwards.
      if ((await tx.get<{ idle: boolean }>(noMove))?.idle) await tx.get(alter);
    }, 'slow');
  } catch (error) {
    if (!(error instanceof DbUnavailable)) throw error;
  }
}

const noMove = `select pg_try_advisory_xact_lock(${advisoryLocks.moving}) as idle`;

function distribution(name: string, wanted: string): string {
  if (wanted === 'reference') return `select create_reference_table('${name}')`;
  const together = name === 'tenants' ? 'none' : 'tenants';
  return `select create_distributed_table('${name}', '${wanted}', colocate_with => '${together}')`;
}

export function describeMisplaced(misplaced: readonly Placement[]): string {
  const [first, ...others] = misplaced.map(({ name, is, wanted }) => {
    const problem = is === wanted ? 'not co-located with tenants' : `${word(is)} instead of ${word(wanted)}`;
    return `${name} is ${problem}`;
  });
  return `the table ${first}${others.length > 0 ? `, and ${others.length} others are misplaced` : ''}`;
}

function word(placement: string): string {
  if (placement === 'local') return 'only on the coordinator';
  if (placement === 'reference') return 'copied to every server';
  return placement === 'other' ? 'distributed in another way' : `distributed by ${placement}`;
}

/** A server with shards. The coordinator may be one. */
export interface Server {
  readonly server: string;
  readonly active: boolean;
  /** Co-located shards with the same tenants count once. */
  readonly shards: number;
  readonly bytes: number;
}

const servers = `select n.nodename || ':' || n.nodeport as server, n.isactive as active,
    cast(sum(case when s.table_name = 'tenants'::regclass then 1 else 0 end) as integer) as shards,
    cast(coalesce(sum(s.shard_size), 0) as float8) as bytes
  from pg_dist_node n
  left join citus_shards s on s.nodename = n.nodename and s.nodeport = n.nodeport and s.citus_table_type = 'distributed'
  where (n.groupid > 0 or n.shouldhaveshards) and n.noderole = 'primary'
  group by n.nodename, n.nodeport, n.isactive order by 1`;

export const readServers = async (db: Db): Promise<Server[]> => db.all<Server>(servers);

/** The database is not on a Citus cluster, or the cluster has no such server. */
export class NoSuchServer extends Error {}

const shardOf = (tenant: string) => sql`
  select cast(s.shardid as text) as id, s.shardminvalue = s.shardmaxvalue as alone, n.nodename as host,
    n.nodeport as port
  from pg_dist_shard s join pg_dist_placement p using (shardid) join pg_dist_node n using (groupid)
  where s.shardid = get_shard_id_for_distribution_column('tenants', cast(${tenant} as uuid)) and n.noderole = 'primary'`;

/**
 * Moves a tenant to a server of the cluster with the functions of Citus. Its shards then have no other tenant. Returns the
 * server that had them, which may be the same. Call `distributeTables` and `alterShards` afterwards. If it is
 * interrupted, it can be called again. Calls `onStart` if it moves anything. Throws `NoSuchServer`.
 */
export async function moveTenantRows(
  db: Db,
  tenant: string,
  server: string,
  onStart: (from: string) => Promise<void>,
): Promise<string> {
  if (!(await db.isDistributed?.())) throw new NoSuchServer('the database is not on a Citus cluster');
  const names = (await readServers(db)).map((each) => each.server);
  if (!names.includes(server))
    throw new NoSuchServer(`the cluster has no server ${server} for rows, only ${names.join(' and ')}`);
  const shardIn = ({ get }: Pick<Queries, 'get'>) =>
    get<{ id: string; alone: boolean; host: string; port: number }>(shardOf(tenant));
  const serverOf = ({ host, port }: { host: string; port: number }) => `${host}:${port}`;
  let from = server;
  // In two transactions, because the move reads the new shard with other connections.
  await db.exclusively(async (tx) => {
    const shard = await shardIn(tx);
    if (shard) from = serverOf(shard);
    if (from === server) return;
    await onStart(from);
    if (!shard?.alone)
      await tx.get(sql`select isolate_tenant_to_new_shard('tenants', cast(${tenant} as uuid), 'CASCADE',
        shard_transfer_mode => 'block_writes')`);
  }, 'moving');
  if (from === server) return from;
  await db.exclusively(async (tx) => {
    const shard = await shardIn(tx);
    if (shard && serverOf(shard) !== server)
      await tx.get(sql`
        select citus_move_shard_placement(cast(cast(${shard.id} as text) as bigint), ${shard.host}, ${shard.port},
            n.nodename, n.nodeport, 'block_writes')
          from pg_dist_node n where n.nodename || ':' || n.nodeport = ${server}`);
  }, 'moving');
  return from;
}

const clocks = `select nodename || ':' || nodeport as worker,
    case when success then extract(epoch from statement_timestamp()) - cast(result as numeric) end as difference
  from run_command_on_workers('select extract(epoch from statement_timestamp())')`;

/**
 * By how many seconds the clock of each worker differs from that of the coordinator. Undefined if the coordinator cannot
 * connect to it.
 */
export async function readClockDifferences(db: Db): Promise<[worker: string, seconds: number | undefined][]> {
  const rows = await db.all<{ worker: string; difference: string | null }>(clocks);
  return rows.map(({ worker, difference }) => [worker, difference === null ? undefined : Number(difference)]);
}
