/**
 * Connections to the workers of a Citus cluster. Every server of a cluster runs any statement, and needs no other server
 * if it has the rows. So the statements of a tenant go to the worker with its rows, which costs much less than through
 * the coordinator.
 *
 * The placement of a tenant decides only the cost: a worker forwards statements about rows that it does not have. No
 * request waits for the placement. Until it is known, and while a worker cannot be connected, the coordinator is used.
 */
import { anyPosition } from '../../domain/database-position.ts';
import { type Pool, type PoolOptions, type Pools, postgresPools } from './postgres-pool.ts';
import type { PostgresTarget } from './postgres-url.ts';

/** In milliseconds. After `refresh` the placement is read again, and after `placement` it is no longer used. */
const ages = { refresh: 1000, placement: 3000, failure: 5000 };
const maxTenants = 100_000;
/**
 * The fraction of the connections that a process has to each worker. Each connection plans every statement once for each
 * shard, and the driver uses all of them in turn. Soon after the start, with 6 instead of 10, changes took 36 % less CPU
 * time of the servers.
 */
const workerShare = 0.6;
export const connectionsToWorker = (max: number) => Math.max(2, Math.round(max * workerShare));

/** The first hash of each shard, and the worker that has it. `offset` prevents a plan that reads all placements. */
const placement = `select cast(s.shardminvalue as integer) as first, n.nodename as host, n.nodeport as port
  from pg_dist_shard s, lateral (select groupid from pg_dist_placement p where p.shardid = s.shardid offset 0) as p
  join pg_dist_node n on n.groupid = p.groupid
  where s.logicalrelid = to_regclass($1) and n.noderole = 'primary' and n.isactive and n.metadatasynced
  order by first desc`;
const hashes =
  'select id, worker_hash(cast(id as uuid)) as hash from json_array_elements_text(cast(cast($1 as text) as json)) as id';

interface Shard {
  readonly first: number;
  readonly host: string;
  readonly port: number;
}

export class CitusWorkers {
  readonly #target: PostgresTarget;
  readonly #options: PoolOptions;
  readonly #now: () => number;
  readonly #pools = new Map<string, Pools>();
  /** When a worker may be connected again, after an attempt. */
  readonly #notBefore = new Map<string, number>();
  readonly #hashes = new Map<string, number>();
  readonly #unknown = new Set<string>();
  #shards: readonly Shard[] = [];
  #readAt = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | undefined;

  constructor(target: PostgresTarget, options: PoolOptions, now = () => performance.now()) {
    this.#target = target;
    this.#options = options;
    this.#now = now;
  }

  /** A pool of connections to the worker with the rows of the tenant. Undefined if the coordinator should be used. */
  poolOf(tenant: string, coordinator: Pool): Pool | undefined {
    if (!hasWorkers(coordinator)) return undefined;
    const hash = this.#hashes.get(tenant);
    if (hash === undefined) this.#unknown.add(tenant);
    const age = this.#now() - this.#readAt;
    if (hash === undefined || age > ages.refresh) this.#refresh(coordinator);
    if (hash === undefined || age > ages.placement) return undefined;
    const shard = this.#shards.find(({ first }) => first <= hash);
    if (!shard) return undefined;
    const pool = this.#pools.get(nameOf(shard))?.current();
    if (!pool) this.#connect(shard);
    return pool?.citus ? pool : undefined;
  }

  /** Closes the pool. The worker is connected again after its address was read again. */
  discard(pool: Pool): void {
    if (!pool.isWorker) return;
    for (const pools of this.#pools.values()) pools.discard(pool);
    this.#readAt = Number.NEGATIVE_INFINITY;
  }

  /** Connects to each worker. Returns the names of those that cannot be used, with the reasons. */
  async problems(coordinator: Pool): Promise<string[]> {
    if (!hasWorkers(coordinator)) return [];
    await this.#read(coordinator);
    const workers = new Map(this.#shards.map((shard) => [nameOf(shard), shard]));
    const tried = [...workers].map(async ([name, shard]) => {
      const pools = this.#open(shard);
      const found = await pools.find().catch((error: Error) => error.message);
      await pools.close();
      return typeof found === 'string' ? [`${name}: ${found}`] : [];
    });
    return (await Promise.all(tried)).flat();
  }

  async close(): Promise<void> {
    await Promise.all([...this.#pools.values()].map((pools) => pools.close()));
  }

  #refresh(coordinator: Pool): void {
    this.#reading ??= this.#read(coordinator)
      .catch(() => {})
      .finally(() => {
        this.#reading = undefined;
      });
  }

  async #read({ sql, host }: Pool): Promise<void> {
    const asked = [...this.#unknown];
    this.#unknown.clear();
    const startedAt = this.#now();
    const [shards, rows] = await Promise.all([
      sql.unsafe(placement, ['tenants']) as Promise<Shard[]>,
      asked.length > 0
        ? (sql.unsafe(hashes, [JSON.stringify(asked)]) as Promise<{ id: string; hash: number }[]>)
        : [],
    ]);
    // A worker that is named like this machine is one only if the coordinator is here, too.
    this.#shards = shards.filter((shard) => isLocal(host) || !isLocal(shard.host));
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

  #connect(shard: Shard): void {
    const name = nameOf(shard);
    const now = this.#now();
    if (now < (this.#notBefore.get(name) ?? 0)) return;
    this.#notBefore.set(name, now + ages.failure);
    const pools = this.#pools.get(name) ?? this.#open(shard);
    this.#pools.set(name, pools);
    const report = (error?: Error) => this.#options.positions.triedWorker?.(name, error);
    pools.find().then(() => {
      this.#notBefore.delete(name);
      report();
    }, report);
  }

  #open(shard: Shard): Pools {
    const pools: Pools = postgresPools(
      { ...this.#target, hosts: [shard] },
      {
        ...this.#options,
        maxConnections: connectionsToWorker(this.#options.maxConnections),
        positions: anyPosition,
        isWorker: true,
        // A statement would wait until its timeout, because the driver tries to connect again.
        onClose: (sql) => {
          const pool = pools.current();
          if (pool?.sql === sql) this.discard(pool);
        },
      },
    );
    return pools;
  }
}

/** A pooler stands before one server only. */
const hasWorkers = ({ citus, transactionSettings }: Pool) => citus && transactionSettings === undefined;

/** `host` may have a port, or be the folder of a socket. */
function isLocal(host: string): boolean {
  return /^(localhost|127\.|\[?::1|\/)/.test(host);
}

function nameOf({ host, port }: Shard): string {
  return `${host}:${port}`;
}
