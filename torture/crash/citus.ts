/** A Citus cluster whose servers can be killed, with the PostgreSQL of the machine. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { Cluster } from './cluster.ts';

/** The programs of a PostgreSQL with the extension, as `pg_config` names them. Undefined if Citus is not installed. */
export function citusBinaries(): string | undefined {
  const { stdout } = spawnSync('pg_config', ['--bindir', '--pkglibdir'], { encoding: 'utf8' });
  const [bin, libraries = ''] = stdout?.split('\n') ?? [];
  return existsSync(join(libraries, 'citus.so')) ? bin : undefined;
}

/** Few shards, because a migration creates a table for each of them. */
const settings = {
  shared_preload_libraries: 'citus',
  // Each node connects to every server, and the coordinator to the workers for each of its connections.
  max_connections: '300',
  max_prepared_transactions: '300',
  'citus.shard_count': '8',
  'citus.node_conninfo': 'sslmode=disable',
};

export class CitusCluster {
  readonly coordinator: Cluster;
  readonly workers: readonly [Cluster, Cluster];

  private constructor([coordinator, ...workers]: [Cluster, Cluster, Cluster]) {
    this.coordinator = coordinator;
    this.workers = workers;
  }

  /** Starts a coordinator and two workers. `folder` must not exist. */
  static async start(folder: string, more: Record<string, string> = {}): Promise<CitusCluster> {
    mkdirSync(folder, { recursive: true });
    const server = async (name: string) => {
      const made = await Cluster.make(join(folder, name), citusBinaries(), { ...settings, ...more });
      await made.start();
      await made.sql('create extension citus');
      return made;
    };
    const cluster = new CitusCluster([await server('coordinator'), await server('1'), await server('2')]);
    const { coordinator, workers } = cluster;
    await coordinator.sql(`select citus_set_coordinator_host('127.0.0.1', ${coordinator.port})`);
    for (const { port } of workers) await coordinator.sql(`select citus_add_node('127.0.0.1', ${port})`);
    return cluster;
  }

  /** Such as “Citus 13.0.3 on PostgreSQL 15.14”. */
  async versions(): Promise<string> {
    const sql = "select citus_version() as citus, current_setting('server_version') as postgres";
    const [row] = await this.coordinator.sql<{ citus: string; postgres: string }>(sql);
    const word = (text = '', at = 0) => text.split(' ')[at];
    return `Citus ${word(row?.citus, 1)} on PostgreSQL ${word(row?.postgres)}`;
  }

  /** The ports of the servers with the rows of the tenants. */
  async portsOf(...tenants: readonly string[]): Promise<number[]> {
    const rows = await this.coordinator.sql<{ port: number }>(
      `select (select nodeport from pg_dist_placement join pg_dist_node using (groupid)
         where shardid = get_shard_id_for_distribution_column('tenants', id)) as port
       from unnest(array['${tenants.join("', '")}']::uuid[]) as id`,
    );
    return rows.map(({ port }) => port);
  }

  /** Uses another server in place of a worker. */
  async replace(worker: number, by: number): Promise<void> {
    const update = `select citus_update_node(nodeid, '127.0.0.1', ${by}) from pg_dist_node where nodeport = ${worker}`;
    await this.coordinator.sql(update);
  }

  async kill(): Promise<void> {
    for (const server of [this.coordinator, ...this.workers]) await server.kill();
  }
}
