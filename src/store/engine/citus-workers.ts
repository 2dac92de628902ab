/**
 * Connections to the workers of a Citus cluster. Every server of a cluster runs any statement, and needs no other server
 * if it has the rows. So the statements of a tenant go to the worker with its rows, which costs much less than through
 * the coordinator.
 *
 * The placement of a tenant decides only the cost: a worker forwards statements about rows that it does not have. No
 * request waits for the placement. Until it is known, and while a worker cannot be connected, the coordinator is used.
 */
import { anyPosition } from '../../domain/database-position.ts';
import { NotWritable, Unreachable } from './postgres-errors.ts';
import { type Pool, type PoolOptions, type Pools, postgresPools } from './postgres-pool.ts';
import type { PostgresTarget } from './postgres-url.ts';

export interface Workers {
  /** A pool of connections to the worker with the rows of the tenant. Undefined if the coordinator should be used. */
  poolOf(tenant: string, coordinator: Pool): Pool | undefined;
  /** Closes the pool. The worker is connected again after its address was read again. */
  discard(pool: Pool): void;
  /** Discards the pool if the error means that the tenant may be on another worker now. */
  discardAfter(error: unknown, pool: Pool): void;
  close(): Promise<void>;
}

/** In milliseconds. After `refresh` the placement is read again, and after `placement` it is no longer used. */
const ages = { refresh: 1000, placement: 3000, failure: 5000 };
const maxTenants = 100_000;

/** The first hash of each shard, and the worker that has it. */
const placement = `select cast(s.shardminvalue as integer) as first, n.nodename as host, n.nodeport as port
  from pg_dist_shard s join pg_dist_placement p on p.shardid = s.shardid join pg_dist_node n on n.groupid = p.groupid
  where s.logicalrelid = to_regclass('tenants') and n.noderole = 'primary' and n.isactive and n.metadatasynced
  order by first desc`;
const hashes =
  'select id, worker_hash(cast(id as uuid)) as hash from json_array_elements_text(cast(cast($1 as text) as json)) as id';

interface Shard {
  readonly first: number;
  readonly host: string;
  readonly port: number;
}

export function citusWorkers(
  target: PostgresTarget,
  options: PoolOptions,
  now = () => performance.now(),
): Workers {
  const workers = new Map<string, Pools>();
  /** When a worker may be connected again. */
  const failed = new Map<string, number>();
  const hashOf = new Map<string, number>();
  const unknown = new Set<string>();
  let shards: readonly Shard[] = [];
  let readAt = Number.NEGATIVE_INFINITY;
  let isReading = false;

  async function read({ sql, host }: Pool): Promise<void> {
    const asked = [...unknown];
    const startedAt = now();
    const [found, rows] = await Promise.all([
      sql.unsafe(placement) as Promise<Shard[]>,
      asked.length > 0
        ? (sql.unsafe(hashes, [JSON.stringify(asked)]) as Promise<{ id: string; hash: number }[]>)
        : [],
    ]);
    // A worker that is named like this machine is one only if the coordinator is here, too.
    shards = found.filter((shard) => isLocal(host) || !isLocal(shard.host));
    readAt = startedAt;
    if (hashOf.size > maxTenants) hashOf.clear();
    for (const { id, hash } of rows) hashOf.set(id, hash);
    for (const id of asked) unknown.delete(id);
    const current = new Set(shards.map(nameOf));
    for (const name of workers.keys()) if (!current.has(name)) drop(name);
  }

  function refresh(coordinator: Pool): void {
    if (isReading) return;
    isReading = true;
    read(coordinator)
      .catch(() => {})
      .finally(() => {
        isReading = false;
      });
  }

  function drop(name: string): void {
    workers
      .get(name)
      ?.close()
      .catch(() => {});
    workers.delete(name);
  }

  function connect(shard: Shard): void {
    const name = nameOf(shard);
    if (now() < (failed.get(name) ?? 0)) return;
    failed.set(name, now() + ages.failure);
    const pools = workers.get(name) ?? open(shard);
    workers.set(name, pools);
    pools.find().then(
      () => failed.delete(name),
      () => {},
    );
  }

  function open(shard: Shard): Pools {
    const pools: Pools = postgresPools(
      { ...target, hosts: [shard] },
      {
        ...options,
        positions: anyPosition,
        isWorker: true,
        // A statement would wait until its timeout, because the driver tries to connect again.
        onClose: () => {
          const pool = pools.current();
          if (pool) discard(pool);
        },
      },
    );
    return pools;
  }

  function discard(pool: Pool): void {
    if (!pool.isWorker) return;
    for (const pools of workers.values()) pools.discard(pool);
    readAt = Number.NEGATIVE_INFINITY;
  }

  return {
    poolOf: (tenant, coordinator) => {
      // A pooler stands before one server only.
      if (!coordinator.citus || coordinator.transactionSettings !== undefined) return undefined;
      const hash = hashOf.get(tenant);
      if (hash === undefined) unknown.add(tenant);
      const age = now() - readAt;
      if (hash === undefined || age > ages.refresh) refresh(coordinator);
      if (hash === undefined || age > ages.placement) return undefined;
      const shard = shards.find(({ first }) => first <= hash);
      if (!shard) return undefined;
      const pool = workers.get(nameOf(shard))?.current();
      if (!pool) connect(shard);
      return pool;
    },
    discard,
    discardAfter: (error, pool) => {
      if (error instanceof Unreachable || error instanceof NotWritable) discard(pool);
    },
    close: async () => {
      await Promise.all([...workers.values()].map((pools) => pools.close()));
    },
  };
}

/** `host` may have a port, or be the folder of a socket. */
function isLocal(host: string): boolean {
  return /^(localhost|127\.|\[?::1|\/)/.test(host);
}

function nameOf({ host, port }: Shard): string {
  return `${host}:${port}`;
}
