/**
 * Distributes the tables over the servers of a Citus cluster. Rows of a tenant are together on one server: tables with
 * a column `tenant_id`, and `tenants` itself, are divided by tenant into co-located shards. Every server has a copy of
 * `tenant_tags`. The other tables remain on the coordinator. See docs/decisions/0032-citus.md.
 */
import { type Db, DbUnavailable, type Queries } from './db.ts';
import { unsettled } from './postgres/postgres-errors.ts';
import { advisoryLocks } from './postgres/postgres-exclusive.ts';

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
  if (!(await hasRowFunctions(db)))
    await db
      .exclusively(async (tx) => {
        for (const { sql } of await definitions(tx)) await tx.run(sql);
      })
      // Without them, or while a worker is lost, the coordinator finds the rows. `doctor` says so.
      .catch((error) => {
        if (!(error instanceof DbUnavailable)) throw error;
      });
}

/** Whether the functions exist and know all shards. */
export async function hasRowFunctions(db: Pick<Queries, 'all'>): Promise<boolean> {
  const names = Object.keys(rowFunctions).join("', '");
  const rows = await db.all<{ body: string }>(
    `select prosrc as body from pg_proc where proname in ('${names}')`,
  );
  return (await definitions(db)).every(({ body }) => rows.some((row) => row.body === body));
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
 * Functions that find the rows of the key `wanted` of `tenant`. Citus plans a join for every request, which takes longer
 * than the rest of the request, and a statement about one table takes it 35 µs longer than PostgreSQL. So the functions
 * read the shards. `joinedLookup` in sql.ts uses them. The alias of each table is one letter.
 */
const rowFunctions = {
  key_rows: `from application_keys k join applications a on a.tenant_id = k.tenant_id and a.id = k.application_id
    join tenants t on t.id = k.tenant_id where k.tenant_id = tenant and k.digest = wanted`,
  session_rows: `from sessions s join applications a on a.tenant_id = s.tenant_id and a.id = s.application_id
    left join application_keys k on k.tenant_id = s.tenant_id and k.digest = s.authorizer_digest
    left join applications c on c.tenant_id = s.tenant_id and c.id = s.authorized_by
    join tenants t on t.id = s.tenant_id
    left join leaked_keys l on l.tenant_id = s.tenant_id and l.digest = s.unlimited_by
    left join leaked_keys i on i.tenant_id = s.tenant_id and i.digest = s.unlimited_trust
    left join ended_subjects e on e.tenant_id = s.tenant_id and e.subject = s.subject
    where s.tenant_id = tenant and s.key_digest = wanted`,
};

/**
 * SQL that fails while a transaction is prepared, for the first statement of a transaction on a worker. The old worker of
 * a shard has one until it knows that the shard has moved, which may be after rows were changed on the new worker.
 */
export const settled = `ln(1 - (select count(*) from pg_prepared_xact()
  where dbid = (select oid from pg_database where datname = current_database())))`;

/** The first hash of each shard of `tenants`, and the ids of all shards with rows of the same tenants, by table. */
const shards = `select cast(s.shardminvalue as integer) as first, json_object_agg(c.relname, s.shardid) as ids
  from pg_dist_partition t join pg_dist_partition d using (colocationid)
  join pg_dist_shard s on s.logicalrelid = d.logicalrelid join pg_class c on c.oid = d.logicalrelid
  where t.logicalrelid = to_regclass('tenants') group by s.shardminvalue order by first`;

type Shard = { readonly first: number; readonly ids: Readonly<Record<string, number>> };

async function definitions(db: Pick<Queries, 'all'>): Promise<{ body: string; sql: string }[]> {
  const found = await db.all<Shard>(shards);
  return Object.entries(rowFunctions).map(([name, from]) => {
    const tables = Array.from(
      from.matchAll(/(?:from|join) (\w+) (\w)/g),
      ([, table, alias]) => `${alias} ${table}`,
    );
    const body = bodyOf(found, from, tables);
    const head = `create or replace function ${name}(tenants uuid[], keys bytea[]) returns table (at bigint, ${tables})`;
    return { body, sql: `${head} volatile language plpgsql as $$${body}$$` };
  });
}

/**
 * PL/pgSQL prepares a query when it is first used, so a worker may lack the shards of others. After reading, fails unless
 * this server has the shards of `tenants`, because all shards with the same tenants move together. A move sets `xmax` of
 * the placements on all servers before it is committed on any. The length of a list in a subquery is unknown to the
 * planner, so the plan is cached.
 */
function bodyOf(shards: readonly Shard[], from: string, tables: readonly string[]): string {
  const rows = tables.map((table) => table.replace(/(\w) (\w+)/, 'cast(row($1.*) as $2)'));
  const read = ({ ids }: Shard) => {
    const query = from.replace(/(from|join) (\w+)/g, (_, word, table) => `${word} ${table}_${ids[table]}`);
    return `used := used || cast(${ids.tenants} as bigint);
      return query select place, ${rows.join(', ')} ${query};`;
  };
  const find = (some: readonly Shard[]): string => {
    const [half, [shard]] = [some.length >> 1, some];
    if (half === 0) return shard ? read(shard) : '';
    return `if hash < ${some[half]?.first} then ${find(some.slice(0, half))} else ${find(some.slice(half))} end if;`;
  };
  return `
    #variable_conflict use_column
    declare place bigint := 0; tenant uuid; wanted bytea; hash integer; used bigint[] := '{}';
    begin
      foreach tenant in array tenants loop
        place := place + 1; wanted := keys[place]; hash := worker_hash(tenant);
        ${find(shards)}
      end loop;
      if exists (select 1 from unnest((select used)) as u (id) where not exists (
        select 1 from pg_dist_placement p join pg_dist_local_group using (groupid)
        where p.shardid = u.id and (p.xmax = 0 or pg_xact_status(cast(cast(p.xmax as text) as xid8)) = 'aborted'))) then
        raise exception 'a shard has moved' using errcode = '${unsettled}';
      end if;
    end`;
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

const shardOf = `select cast(s.shardid as text) as id, s.shardminvalue = s.shardmaxvalue as alone, n.nodename as host,
    n.nodeport as port
  from pg_dist_shard s join pg_dist_placement p using (shardid) join pg_dist_node n using (groupid)
  where s.shardid = get_shard_id_for_distribution_column('tenants', cast($1 as uuid)) and n.noderole = 'primary'`;
const isolate = `select isolate_tenant_to_new_shard('tenants', cast($1 as uuid), 'CASCADE', shard_transfer_mode => 'block_writes')`;
const moveShard = `select citus_move_shard_placement(cast(cast($1 as text) as bigint), $2, $3, n.nodename, n.nodeport, 'block_writes')
  from pg_dist_node n where n.nodename || ':' || n.nodeport = $4`;

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
    get<{ id: string; alone: boolean; host: string; port: number }>(shardOf, [tenant]);
  const serverOf = ({ host, port }: { host: string; port: number }) => `${host}:${port}`;
  let from = server;
  // In two transactions, because the move reads the new shard with other connections.
  await db.exclusively(async (tx) => {
    const shard = await shardIn(tx);
    if (shard) from = serverOf(shard);
    if (from === server) return;
    await onStart(from);
    if (!shard?.alone) await tx.get(isolate, [tenant]);
  }, 'moving');
  if (from === server) return from;
  await db.exclusively(async (tx) => {
    const shard = await shardIn(tx);
    if (shard && serverOf(shard) !== server)
      await tx.get(moveShard, [shard.id, shard.host, shard.port, server]);
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
