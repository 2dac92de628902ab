/**
 * Connections to the workers of a Citus cluster. A statement through the coordinator is planned and sent again for every
 * request, which takes three to nine times as long. So the statements of a tenant go to the worker with its rows.
 *
 * The placement of a tenant is only a hint: `isSettled` fails if it is wrong, and then the coordinator is used.
 */

import { anyPosition } from '../domain/database-position.ts';
import { type Pool, type PoolOptions, type Pools, postgresPools } from './postgres/postgres-pool.ts';
import type { PostgresTarget } from './postgres/postgres-url.ts';
import type { Tables } from './statement.ts';

/** In milliseconds. After `refresh` the placement is read again, and after `placement` it is no longer used. */
const ages = { refresh: 1000, placement: 3000 };
const maxTenants = 100_000;
/**
 * The fraction of the connections that a process has to each worker. Each connection plans every statement once for each
 * shard, and the driver uses all of them in turn.
 */
const workerShare = 0.6;
export const connectionsToWorker = (max: number) => Math.max(2, Math.round(max * workerShare));

/** `offset` prevents a plan that reads all placements. */
const placement = `select cast(s.shardminvalue as integer) as first, cast(s.shardid as text) as id, n.nodename as host,
    n.nodeport as port, n.isactive and n.metadatasynced as usable
  from pg_dist_shard s, lateral (select groupid from pg_dist_placement p where p.shardid = s.shardid offset 0) as p
  join pg_dist_node n on n.groupid = p.groupid
  where s.logicalrelid = to_regclass('tenants') and n.noderole = 'primary'
  order by first desc`;
const tableNames = `select cast(s.shardid as text) as id, json_object_agg(c.relname, c.relname || '_' || o.shardid) as tables
  from pg_dist_partition t join pg_dist_shard s using (logicalrelid) join pg_dist_partition d using (colocationid)
  join pg_dist_shard o on o.logicalrelid = d.logicalrelid and o.shardminvalue = s.shardminvalue
  join pg_class c on c.oid = d.logicalrelid where t.logicalrelid = to_regclass('tenants') group by s.shardid`;
const hashes =
  'select id, worker_hash(cast(id as uuid)) as hash from json_array_elements_text(cast(cast($1 as text) as json)) as id';

/** Co-located tables have a shard each with the rows of the same tenants. */
export interface Shard {
  /** Of the table `tenants`. */
  readonly id: string;
  /** The lowest hash of a tenant. */
  readonly first: number;
  readonly host: string;
  readonly port: number;
  /** False if the worker is disabled, or does not know the placement yet. */
  readonly usable: boolean;
  /** The name of each table on the worker. */
  readonly tables: Tables;
}

export class CitusWorkers {
  readonly #target: PostgresTarget;
  readonly #options: PoolOptions;
  readonly #pools = new Map<string, Pools>();
  readonly #hashes = new Map<string, number>();
  readonly #unknown = new Set<string>();
  #tables = new Map<string, Tables>();
  #shards: readonly Shard[] = [];
  #readAt = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | undefined;

  constructor(target: PostgresTarget, options: PoolOptions) {
    this.#target = target;
    this.#options = options;
  }

  /** Undefined if the coordinator should be used, also until the placement is known. No request waits for it. */
  shardOf(tenant: string, coordinator: Pool): Shard | undefined {
    if (!hasWorkers(coordinator)) return undefined;
    const hash = this.#hashes.get(tenant);
    if (hash === undefined) this.#unknown.add(tenant);
    const age = performance.now() - this.#readAt;
    if (hash === undefined || age > ages.refresh)
      this.#reading ??= this.#read(coordinator)
        .catch(() => {})
        .finally(() => {
          this.#reading = undefined;
        });
    if (hash === undefined || age > ages.placement) return undefined;
    const shard = this.#shards.find(({ first }) => first <= hash);
    return shard?.usable ? shard : undefined;
  }

  poolsOf(shard: Pick<Shard, 'host' | 'port'>): Pools {
    const name = nameOf(shard);
    const existing = this.#pools.get(name);
    if (existing) return existing;
    const { maxConnections } = this.#options;
    const created = postgresPools(
      { ...this.#target, hosts: [shard] },
      { ...this.#options, maxConnections: connectionsToWorker(maxConnections), positions: anyPosition },
    );
    this.#pools.set(name, created);
    return created;
  }

  /** Closes the pool, and reads the placement again. */
  discard(pool: Pool): void {
    for (const pools of this.#pools.values()) pools.discard(pool);
    this.#readAt = Math.min(this.#readAt, performance.now() - ages.refresh);
  }

  /** Connects to each worker. Returns the names of those that cannot be used, with the reasons. */
  async problems(coordinator: Pool): Promise<string[]> {
    if (!hasWorkers(coordinator)) return [];
    await this.#read(coordinator);
    const workers = new Map(this.#shards.map((shard) => [nameOf(shard), shard]));
    const tried = [...workers].map(async ([name, shard]) =>
      this.poolsOf(shard)
        .find()
        .then(
          () => [],
          (error: Error) => [`${name}: ${error.message}`],
        ),
    );
    return (await Promise.all(tried)).flat();
  }

  async close(): Promise<void> {
    await Promise.all([...this.#pools.values()].map((pools) => pools.close()));
  }

  async #read({ sql, host }: Pool): Promise<void> {
    const asked = [...this.#unknown];
    this.#unknown.clear();
    const startedAt = performance.now();
    const [shards, rows] = await Promise.all([
      sql.unsafe(placement, []) as Promise<Omit<Shard, 'tables'>[]>,
      asked.length > 0
        ? (sql.unsafe(hashes, [JSON.stringify(asked)]) as Promise<{ id: string; hash: number }[]>)
        : [],
    ]);
    if (shards.some(({ id }) => !this.#tables.has(id))) {
      const named: { id: string; tables: Tables }[] = await sql.unsafe(tableNames, []);
      this.#tables = new Map(named.map(({ id, tables }) => [id, tables]));
    }
    // A worker that is named like this machine is one only if the coordinator is here, too.
    const areNamed = isLocal(host) || !shards.some((shard) => isLocal(shard.host));
    this.#shards = areNamed
      ? shards.map((shard) => ({ ...shard, tables: this.#tables.get(shard.id) ?? {} }))
      : [];
    this.#readAt = startedAt;
    if (this.#hashes.size > maxTenants) this.#hashes.clear();
    for (const { id, hash } of rows) this.#hashes.set(id, hash);
    const current = new Set(this.#shards.map(nameOf));
    for (const [name, pools] of this.#pools)
      if (!current.has(name)) {
        this.#pools.delete(name);
        pools.close().catch(() => {});
      }
  }
}

/** A pooler stands before one server only. */
const hasWorkers = ({ citus, transactionSettings }: Pool) => citus && transactionSettings === undefined;

/** `host` may have a port, or be the folder of a socket. */
function isLocal(host: string): boolean {
  return /^(localhost|127\.|\[?::1|\/)/.test(host);
}

function nameOf({ host, port }: Pick<Shard, 'host' | 'port'>): string {
  return `${host}:${port}`;
}
