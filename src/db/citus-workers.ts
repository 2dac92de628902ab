/**
 * Connections to the workers of a Citus cluster. Every server of a cluster runs any statement, and needs no other server
 * if it has the rows. So the statements of a tenant go to the worker with its rows, which costs much less than through
 * the coordinator.
 *
 * The placement of a tenant decides only the cost: a worker forwards statements about rows that it does not have. No
 * request waits for the placement. Until it is known, and while a worker cannot be connected, the coordinator is used.
 */
import { anyPosition } from '../domain/database-position.ts';
import { type Pool, type PoolOptions, type Pools, postgresPools } from './postgres/postgres-pool.ts';
import type { PostgresTarget } from './postgres/postgres-url.ts';

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
const placement = `select cast(s.shardminvalue as integer) as first, n.nodename as host, n.nodeport as port,
    n.isactive and n.metadatasynced as usable
  from pg_dist_shard s, lateral (select groupid from pg_dist_placement p where p.shardid = s.shardid offset 0) as p
  join pg_dist_node n on n.groupid = p.groupid
  where s.logicalrelid = to_regclass($1) and n.noderole = 'primary'
  order by first desc`;
const hashes =
  'select id, worker_hash(cast(id as uuid)) as hash from json_array_elements_text(cast(cast($1 as text) as json)) as id';

interface Shard {
  readonly first: number;
  readonly host: string;
  readonly port: number;
  /** False if the worker is disabled, or does not know the placement yet. */
  readonly usable: boolean;
}

export class CitusWorkers {
  readonly #target: PostgresTarget;
  readonly #options: PoolOptions;
  readonly #now: () => number;
  readonly #pools = new Map<string, Pools>();
  /** When a worker may be connected again, after an attempt. */
  readonly #notBefore = new Map<string, number>();
  /** Names of workers whose connections have failed, until they are connected again. */
  readonly #lost = new Set<string>();
  #detours: Pools | undefined;
  readonly #hashes = new Map<string, number>();
  readonly #unknown = new Set<string>();
  #shards: readonly Shard[] = [];
  #readAt = Number.NEGATIVE_INFINITY;
  /** Whether the placement should be read before it is old. */
  #isDue = false;
  #reading: Promise<void> | undefined;

  constructor(target: PostgresTarget, options: PoolOptions, now = () => performance.now()) {
    this.#target = target;
    this.#options = options;
    this.#now = now;
  }

  /**
   * A pool of connections to the worker with the rows of the tenant. Undefined if the coordinator should be used, and
   * `lost` if `detour` should be used, because the worker cannot be connected.
   */
  poolOf(tenant: string, coordinator: Pool): Pool | 'lost' | undefined {
    if (!hasWorkers(coordinator)) return undefined;
    const hash = this.#hashes.get(tenant);
    if (hash === undefined) this.#unknown.add(tenant);
    const age = this.#now() - this.#readAt;
    if (hash === undefined || this.#isDue || age > ages.refresh) this.#refresh(coordinator);
    if (hash === undefined || age > ages.placement) return undefined;
    const shard = this.#shards.find(({ first }) => first <= hash);
    if (!shard) return undefined;
    const pool = this.#pools.get(nameOf(shard))?.current();
    if (pool) return pool.citus && shard.usable ? pool : undefined;
    this.#connect(shard);
    return this.#lost.has(nameOf(shard)) ? 'lost' : undefined;
  }

  /** Other connections to the coordinator. Each call may wait until its timeout, and others would wait behind it. */
  async detour(): Promise<Pool> {
    this.#detours ??= postgresPools(this.#target, {
      ...this.#options,
      maxConnections: connectionsToWorker(this.#options.maxConnections),
    });
    return this.#detours.current() ?? this.#detours.find();
  }

  /** Closes the pool. A worker may have another address when it is connected again. */
  discard(pool: Pool): void {
    if (!pool.isWorker) {
      this.#endDetours();
      return;
    }
    for (const [name, pools] of this.#pools) {
      if (pools.current() === pool) this.#lost.add(name);
      pools.discard(pool);
    }
    this.#isDue = true;
  }

  #endDetours(): void {
    this.#detours?.close().catch(() => {});
    this.#detours = undefined;
  }

  /** Connects to each worker. Returns the names of those that cannot be used, with the reasons. */
  async problems(coordinator: Pool): Promise<string[]> {
    if (!hasWorkers(coordinator)) return [];
    await this.#read(coordinator);
    const usable = this.#shards.filter((shard) => shard.usable);
    const workers = new Map(usable.map((shard) => [nameOf(shard), shard]));
    const tried = [...workers].map(async ([name, shard]) => {
      const pools = this.#open(shard);
      const found = await pools.find().catch((error: Error) => error.message);
      await pools.close();
      return typeof found === 'string' ? [`${name}: ${found}`] : [];
    });
    return (await Promise.all(tried)).flat();
  }

  async close(): Promise<void> {
    await Promise.all([...this.#pools.values(), this.#detours].map((pools) => pools?.close()));
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
    this.#isDue = false;
    const startedAt = this.#now();
    const [shards, rows] = await Promise.all([
      sql.unsafe(placement, ['tenants']) as Promise<Shard[]>,
      asked.length > 0
        ? (sql.unsafe(hashes, [JSON.stringify(asked)]) as Promise<{ id: string; hash: number }[]>)
        : [],
    ]);
    // A worker that is named like this machine is one only if the coordinator is here, too.
    const areNamed = isLocal(host) || !shards.some((shard) => isLocal(shard.host));
    this.#shards = areNamed ? shards : [];
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
    pools.find().then(
      () => {
        this.#notBefore.delete(name);
        this.#lost.delete(name);
        this.#endDetours();
        report();
      },
      (error) => {
        this.#lost.add(name);
        report(error);
      },
    );
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
